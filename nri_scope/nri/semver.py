# SPDX-License-Identifier: Apache-2.0
"""Order among version strings as runtimes, distributions and Go modules write them."""

from __future__ import annotations

import re

SortKey = tuple[int, int, int, tuple[tuple[int, int, str], ...]]

_RELEASE = ((2, 0, ""),)
"""Sorts after every pre-release identifier."""

_VERSION = re.compile(r"v?(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?(.*)", re.ASCII | re.DOTALL)

# What makes a suffix a pre-release rather than a vendor's addition (1.7.24~ds1, 2.0.5-k3s1) or a
# count of commits after a tag (2.2.0-225-ge9dc15b7a.m): one of the usual words, or the time stamp
# of a Go pseudo-version (0.9.1-0.20250219030224-e597e7849f24).
_PRE_RELEASE = re.compile(
    r"[-~]?((?:alpha|beta|rc|pre|dev)[0-9A-Za-z.]*|(?:0\.)?\d{14}-[0-9a-f]{12})",
    re.ASCII | re.IGNORECASE,
)


def sort_key(text: str) -> SortKey | None:
    """Return a key that orders versions by semantic versioning; None where `text` holds no version.

    Build metadata after ``+``, vendor suffixes and commit counts do not take part: what is built
    from a release plus patches counts as that release.
    """
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        return None
    major, minor, patch, suffix = match.groups()
    pre = _PRE_RELEASE.match(suffix)
    identifiers = tuple(map(_identifier, pre[1].split("."))) if pre else _RELEASE
    return int(major), int(minor), int(patch or 0), identifiers


def _identifier(text: str) -> tuple[int, int, str]:
    # Numbers sort below words, and by value (semver.org, item 11).
    if text.isdecimal() and len(text) < 19:
        return 0, int(text), ""
    return 1, 0, text.lower()
