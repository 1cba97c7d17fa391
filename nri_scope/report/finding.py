# SPDX-License-Identifier: Apache-2.0
"""Findings: a problem in a recording, with its evidence and advice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from nri_scope.nri.plain import Plain

from .limits import EVENTS_KEPT


class Level(StrEnum):
    """How certain it is that action is needed."""

    PROBLEM = "problem"
    """Something went wrong."""
    WARNING = "warning"
    """Something is about to go wrong, or probably did."""
    NOTE = "note"
    """Not an error in itself, but plugins have failed because of it."""


class FindingKind(StrEnum):
    """The kind of a finding. The names are part of the JSON."""

    DEADLINE = "deadline"
    DISCONNECTED = "disconnected"
    CONFLICT = "conflict"
    FAILED = "failed"
    DROPPED = "dropped"
    UNIFIED = "unified-on-cgroup-v1"
    DUPLICATE = "duplicate-name"
    MISSED = "missed-around-synchronize"
    ORDER = "order"


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding. Texts may quote the recording; nothing is escaped."""

    kind: FindingKind
    level: Level
    title: str
    """One sentence with the problem and its subject, without a full stop."""
    detail: str
    """The evidence, and what it means."""
    advice: str
    """The recommended action."""
    events: tuple[int, ...] = ()
    """The first of the events that show the finding, ascending."""
    event_count: int = 0
    """Number of all events that show it."""
    containers: tuple[str, ...] = ()
    """Names of the first containers concerned."""

    def record(self) -> dict[str, Plain]:
        """Return the finding for programs."""
        return asdict(self)


class Shown:
    """Collects the events that show one finding: the first ones, and their number."""

    __slots__ = ("_kept", "_newest", "containers", "count")

    def __init__(self) -> None:
        self._kept: dict[int, None] = {}
        self._newest: tuple[int, ...] = ()
        self.count = 0
        self.containers: dict[str, None] = {}

    @property
    def events(self) -> tuple[int, ...]:
        """The events in ascending order."""
        return tuple(sorted(self._kept))

    def add(self, *events: int, container: str = "") -> None:
        """Add events, each once, and the name of their subject."""
        for event in events:
            # An event taken before is either the last one or among the first ones.
            if event in self._kept or event in self._newest:
                continue
            self.count += 1
            if len(self._kept) < EVENTS_KEPT:
                self._kept[event] = None
        self._newest = events
        if container and len(self.containers) < EVENTS_KEPT:
            self.containers[container] = None

    def finding(
        self, kind: FindingKind, level: Level, title: str, detail: str, advice: str
    ) -> Finding:
        """Return the finding that these events show."""
        containers = tuple(self.containers)
        return Finding(kind, level, title, detail, advice, self.events, self.count, containers)


def ranked(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings, the worst first; within a level by kind, then by their first events."""
    levels, kinds = list(Level), list(FindingKind)
    return sorted(
        findings,
        key=lambda one: (levels.index(one.level), kinds.index(one.kind), one.events[:1]),
    )
