# SPDX-License-Identifier: Apache-2.0
"""Differences between NRI versions in merging, from upstream's releases 0.2.0 to 0.12.5.

Which fields exist is said at each field (``fields``); here is how the same fields are treated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ..versions import V0_7, V0_10, V0_11, V0_12, NriVersion
from .fields import FIELDS, Field


def _version(text: str) -> NriVersion:
    version = NriVersion.parse(text)
    assert version is not None, text
    return version


V0_3 = _version("0.3.0")
V0_12_3 = _version("0.12.3")


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules by which a runtime on one NRI version merges; those of the newest where None is
    known.
    """

    version: NriVersion | None
    unknown: frozenset[Field]
    """Fields that this version's API does not have."""
    shows_whole_lists: bool
    """Before 0.3 the next plugin sees, in place of all mounts (or devices), the ones that plugins
    set so far, and the last of them twice."""
    passes_mount_removals: bool
    """Before 0.7 the runtime never hears that a plugin removed a mount."""
    names_fields: bool
    """From 0.10 a conflict names the member of the enum Field, before that the field in words."""
    clearing_owns: bool
    """From 0.10 who removed something owns that: a later plugin has to remove it again to set it.
    Before, a removal made the field free."""
    loses_hook_owners: bool
    """0.10 and 0.11 mean to join the owners of hooks; from the second on there is only the last
    one, marked as if it had removed them."""
    panics_on_sysctl: bool
    """0.11 writes sysctls to a nil map: the runtime itself dies."""
    sysctl_removals_as_annotations: bool
    """From 0.11 to 0.12.2 a removed sysctl goes among the annotations: it stays, and an annotation
    of its name goes."""


@lru_cache(maxsize=64)
def rules_of(version: NriVersion | None) -> Rules:
    """Return the rules of an NRI version; None for the newest."""

    def before(limit: NriVersion) -> bool:
        return version is not None and version < limit

    return Rules(
        version=version,
        unknown=frozenset(field for field in FIELDS if before(_version(field.since))),
        shows_whole_lists=before(V0_3),
        passes_mount_removals=not before(V0_7),
        names_fields=not before(V0_10),
        clearing_owns=not before(V0_10),
        loses_hook_owners=before(V0_12) and not before(V0_10),
        panics_on_sysctl=before(V0_12) and not before(V0_11),
        sysctl_removals_as_annotations=before(V0_12_3) and not before(V0_11),
    )
