# SPDX-License-Identifier: Apache-2.0
"""NRI versions: parsing, features, and inference for runtimes that do not send their version."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import total_ordering

from .events import EventKind, mask_of

SortKey = tuple[int, int, int, tuple[tuple[int, int, str], ...]]

_RELEASE = ((2, 0, ""),)
"""Sorts after every pre-release identifier."""

_VERSION = re.compile(r"v?(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?(.*)", re.ASCII | re.DOTALL)

# Distinguishes pre-releases from vendor suffixes (1.7.24~ds1, 2.0.5-k3s1) and counts of commits
# after a tag (2.2.0-225-ge9dc15b7a.m): one of the usual words, or the time stamp of a Go
# pseudo-version (0.9.1-0.20250219030224-e597e7849f24).
_PRE_RELEASE = re.compile(
    r"[-~]?((?:alpha|beta|rc|pre|dev)[0-9A-Za-z.]*|(?:0\.)?\d{14}-[0-9a-f]{12})",
    re.ASCII | re.IGNORECASE,
)


def sort_key(text: str) -> SortKey | None:
    """Return a key that orders versions by semantic versioning; None if `text` is not a version.

    Build metadata after ``+``, vendor suffixes and commit counts are ignored: a release with
    patches counts as that release.
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


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class NriVersion:
    """A version of NRI, ordered by semantic versioning; ``str()`` returns it without a ``v``."""

    text: str
    key: SortKey

    @classmethod
    def parse(cls, text: str) -> NriVersion | None:
        """Parse the "NRI_version" sent by a peer; return None if it is not a version.

        Not a version are "" (before 0.12), and ``(devel)`` and ``0.0.0-unknown``, which Go builds
        without module information send.
        """
        key = sort_key(text)
        if key is None or key[:3] == (0, 0, 0):
            return None
        return cls(text.strip().removeprefix("v"), key)

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, NriVersion) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    def __lt__(self, other: NriVersion) -> bool:
        return self.key < other.key


def known_version(text: str) -> NriVersion:
    """Return a version whose text is known to be valid."""
    version = NriVersion.parse(text)
    assert version is not None, text
    return version


V0_7 = known_version("0.7.0")
V0_9_1_UPDATE_POD = known_version("0.9.1-0.20250213175540-000000000000")
"""The development version that added UpdatePodSandbox; CRI-O 1.33 has a slightly later one."""
V0_10 = known_version("0.10.0")
V0_11 = known_version("0.11.0")
V0_12 = known_version("0.12.0")
V0_12_4 = known_version("0.12.4")
V0_12_5 = known_version("0.12.5")

CONSERVATIVE_MASK = mask_of(event for event in EventKind if event <= EventKind.RemoveContainer)
"""0x07ff, the events of all NRI versions with this protocol."""
_MASK_0_9_1 = (
    CONSERVATIVE_MASK | EventKind.UpdatePodSandbox.bit | EventKind.PostUpdatePodSandbox.bit
)
_MASK_0_10 = _MASK_0_9_1 | EventKind.ValidateContainerAdjustment.bit


def valid_mask(version: NriVersion | None) -> int:
    """Return the mask of all events of an NRI version, including ValidateContainerAdjustment.

    Any other bit makes a runtime drop the plugin, *after* it seemed to accept the Configure reply.
    So the mask for an unknown version (None) has only the events common to all versions.
    """
    if version is None or version < V0_9_1_UPDATE_POD:
        return CONSERVATIVE_MASK
    return _MASK_0_9_1 if version < V0_10 else _MASK_0_10


def has_split_sync(version: NriVersion | None) -> bool:
    """Return whether a Synchronize above 4 MiB is sent in parts (`SynchronizeRequest.more`)."""
    return version is not None and version >= V0_7


SPLIT_ADVICE = (
    "NRI before 0.7 (containerd before 1.7.26) and iSulad cannot split Synchronize: update the "
    "runtime, or use fewer containers and annotations"
)


def has_timeouts(version: NriVersion | None) -> bool:
    """Return whether Configure has the registration and request timeouts."""
    return version is not None and version >= V0_7


def has_dedicated_rpcs(version: NriVersion | None) -> bool:
    """Return whether every event is sent as its own RPC rather than as StateChange."""
    return version is not None and version >= V0_12


def sends_nri_version(version: NriVersion | None) -> bool:
    """Return whether RegisterPlugin and Configure have the field "NRI_version"."""
    return version is not None and version >= V0_12


def has_failure_policy(version: NriVersion | None) -> bool:
    """Return whether the runtime applies `ConfigureResponse.failure_policy`."""
    return version is not None and version >= V0_12_4


def asks_closed_validators(version: NriVersion | None) -> bool:
    """Return whether the runtime asks a validator after its connection was closed.

    That fails the creation. NRI 0.12.5 and later skip it ("validateContainerAdjustment").
    """
    return version is None or version < V0_12_5


# The NRI module of each release, from the runtimes' go.mod at their tags: one ordered line for each
# change. A release between two lines has the version of the earlier line.
_CONTAINERD = (
    ("1.7.0-beta.1", "0.2.0"),
    ("1.7.0-rc.0", "0.3.0"),
    ("1.7.7", "0.4.0"),
    ("1.7.14", "0.6.0"),
    ("1.7.16", "0.6.1"),
    ("1.7.26", "0.8.0"),
    ("2.0.0-beta.0", "0.5.0"),
    ("2.0.0-rc.0", "0.6.0"),
    ("2.0.0-rc.1", "0.6.1"),
    ("2.0.0-rc.6", "0.7.0"),
    ("2.0.0", "0.8.0"),
    ("2.2.0-beta.0", "0.10.0"),
    ("2.2.1", "0.11.0"),
    ("2.3.0-rc.1", "0.12.0"),
    ("2.4.0-beta.0", "0.12.1"),
    ("2.4.0", "0.12.3"),
)
_CRI_O = (
    ("1.26.0", "0.2.0"),
    ("1.26.2", "0.3.0"),
    ("1.26.4", "0.3.1-0.20230504231226-94185418e253"),
    ("1.27.0", "0.3.0"),
    ("1.27.1", "0.3.1-0.20230504231226-94185418e253"),
    ("1.29.0", "0.5.0"),
    ("1.29.2", "0.6.0"),
    ("1.31.0", "0.6.1"),
    ("1.32.0", "0.9.0"),
    ("1.33.0", "0.9.1-0.20250219030224-e597e7849f24"),
    ("1.34.0", "0.10.0"),
    ("1.35.0", "0.11.0"),
    ("1.37.0", "0.12.0"),
)
# Docker Engine sends the NRI version; which of its releases has which is unknown.
_DOCKER: tuple[tuple[str, str], ...] = ()
# iSulad has the API of 0.6.1 and, regardless of its own version, sends "v2" "2.0.0-beta.2+unknown".
_ISULAD = (("0.0", "0.6.1"),)

_Table = tuple[tuple[SortKey, ...], tuple[NriVersion, ...]]


def _table(lines: tuple[tuple[str, str], ...]) -> _Table:
    keys = tuple(key for key in (sort_key(runtime) for runtime, _ in lines) if key is not None)
    assert len(keys) == len(lines) and list(keys) == sorted(keys)
    return keys, tuple(known_version(nri) for _, nri in lines)


_RUNTIMES = {
    "containerd": _table(_CONTAINERD),
    "cri-o": _table(_CRI_O),
    "docker": _table(_DOCKER),
    "isulad": _table(_ISULAD),
}

_ALIASES = {"v2": "isulad", "crio": "cri-o"}
_CONTAINERD_V2 = sort_key("2.0.0-rc.0") or ()
_TITLES = {
    "containerd": "containerd",
    "cri-o": "CRI-O",
    "docker": "Docker Engine",
    "isulad": "iSulad",
}


def sent_name(name: str, version: str) -> str:
    """Return the name of the runtime that sent a name and version in Configure.

    containerd up to 2.0.3 sends the last part of its module's path, which is "v2" as in iSulad
    (``path.Base(version.Package)`` in internal/nri); iSulad's version is that of an older beta.
    """
    is_containerd = name == "v2" and (sort_key(version) or ()) >= _CONTAINERD_V2
    return "containerd" if is_containerd else name


def runtime_title(runtime_name: str) -> str:
    """Return the runtime's usual name for display: iSulad calls itself "v2"."""
    name = runtime_name.lower()
    return _TITLES.get(_ALIASES.get(name, name), runtime_name)


def runtime_remark(runtime_name: str) -> str:
    """Return " (unknown, treated like containerd)" for a runtime without rules here, else ""."""
    name = runtime_name.lower()
    has_rules = _ALIASES.get(name, name) in _RUNTIMES
    return "" if has_rules else " (unknown, treated like containerd)"


def runtime_words(runtime_name: str, runtime_version: str) -> str:
    """Return a runtime with its version for display: ``containerd 2.1.9``; "" if both are empty.

    iSulad's version is not its own, so it is shown as sent: ``iSulad ("v2 2.0.0-beta.2+unknown")``.
    """
    title = runtime_title(runtime_name)
    if title == "iSulad":
        return f'{title} ("{runtime_name} {runtime_version}")'
    return f"{title} {runtime_version}".strip()


def infer(runtime_name: str, runtime_version: str) -> NriVersion | None:
    """Return the NRI version of a runtime by its name and version; None if unknown.

    It is unknown for other runtimes, invalid versions and releases before this protocol. A release
    newer than the table has the table's newest version.
    """
    name = runtime_name.lower()
    table = _RUNTIMES.get(_ALIASES.get(name, name))
    key = sort_key(runtime_version)
    if table is None or key is None:
        return None
    keys, versions = table
    position = bisect_right(keys, key)
    return versions[position - 1] if position else None
