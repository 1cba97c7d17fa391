# SPDX-License-Identifier: Apache-2.0
"""Differences in merging between NRI versions, from upstream's releases 0.2.0 to 0.12.5.

The version that introduced a field is in ``fields``; the rules here cover the merging itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ..versions import V0_7, V0_10, V0_11, V0_12, NriVersion, known_version
from .fields import FIELDS, Field

V0_3 = known_version("0.3.0")
V0_12_3 = known_version("0.12.3")


@dataclass(frozen=True, slots=True)
class Rules:
    """The merging rules of a runtime on one NRI version."""

    version: NriVersion | None
    """None for the newest."""
    unknown: frozenset[Field]
    """Fields that this version's API does not have."""
    shows_whole_lists: bool
    """Whether (before 0.3) the next plugin sees only the mounts or devices set by earlier plugins,
    the last of them twice, instead of all mounts or devices.
    """
    passes_mount_removals: bool
    """Whether (from 0.7) plugins' removals of mounts are in the merged adjustment."""
    names_fields: bool
    """Whether (from 0.10) a conflict message has the field's name in the enum Field."""
    clearing_owns: bool
    """Whether (from 0.10) a plugin owns a field that it removed, so that a later plugin must remove
    the field again to set it. Before 0.10, a removal only removed the owner.
    """
    loses_hook_owners: bool
    """Whether (0.10 and 0.11) only the last owner of hooks is recorded instead of all, and marked
    as if it had removed them.
    """
    panics_on_sysctl: bool
    """Whether (0.11) sysctls are written to a nil map, which crashes the runtime."""
    sysctl_removals_as_annotations: bool
    """Whether (0.11 to 0.12.2) the removal of a sysctl is added to the annotations: the sysctl
    stays, and an annotation of the same name is removed.
    """


@lru_cache(maxsize=64)
def rules_of(version: NriVersion | None) -> Rules:
    """Return the rules of an NRI version; None for the newest."""

    def before(limit: NriVersion) -> bool:
        return version is not None and version < limit

    return Rules(
        version=version,
        unknown=frozenset(field for field in FIELDS if before(known_version(field.since))),
        shows_whole_lists=before(V0_3),
        passes_mount_removals=not before(V0_7),
        names_fields=not before(V0_10),
        clearing_owns=not before(V0_10),
        loses_hook_owners=before(V0_12) and not before(V0_10),
        panics_on_sysctl=before(V0_12) and not before(V0_11),
        sysctl_removals_as_annotations=before(V0_12_3) and not before(V0_11),
    )
