# SPDX-License-Identifier: Apache-2.0
"""Write the text of a report, and return the words of its templates."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path


def write(path: Path, parts: Iterable[str]) -> int:
    """Write a new UTF-8 file with mode 0600; return its size in bytes. Raises OSError."""
    # 0600, regardless of the umask.
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as stream:
        for part in parts:
            # A recording may contain lone surrogates.
            stream.write(part.encode("utf-8", "replace"))
        return stream.tell()


@cache
def own_words() -> bytes:
    """Return the text of every page, which the search for leaked values ignores: its colours look
    like digests.
    """
    from jinja2 import Environment

    templates = files(__package__ or "nri_scope.report").joinpath("templates")
    page = templates.joinpath("report.html.j2").read_text("utf-8")
    written = [templates.joinpath("report.css").read_text("utf-8")]
    # Only text: neither comments nor expressions.
    written += [text for _, token, text in Environment().lex(page) if token in ("data", "string")]
    return "\n".join(written).encode()
