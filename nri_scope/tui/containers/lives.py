# SPDX-License-Identifier: Apache-2.0
"""What became of pods and containers: many lives in little memory."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from nri_scope.recorder.display import duration

FOR_EVER = (1 << 63) - 1
"""The end of what has none yet."""


class Stage(IntEnum):
    """How far a pod or container has come."""

    TOLD = 0
    """It exists: Synchronize told of it, or an event that says no more."""
    CREATING = 1
    """CreateContainer came, and nothing yet that only comes of a container that was created."""
    CREATED = 2
    STARTED = 3
    STOPPED = 4
    REMOVED = 5


STAGES: dict[str, tuple[Stage, bool]] = {
    "RunPodSandbox": (Stage.STARTED, False),
    "StopPodSandbox": (Stage.STOPPED, False),
    "RemovePodSandbox": (Stage.REMOVED, False),
    "CreateContainer": (Stage.CREATING, True),
    "PostCreateContainer": (Stage.CREATED, True),
    "StartContainer": (Stage.STARTED, True),
    "PostStartContainer": (Stage.STARTED, True),
    "StopContainer": (Stage.STOPPED, True),
    "RemoveContainer": (Stage.REMOVED, True),
}
"""By the names of events: what the event does, and whether to a container."""


class Life(NamedTuple):
    """What became of one pod or container. Times are wall clock, in ns; 0 is not observed."""

    creating_ns: int = 0
    created_ns: int = 0
    started_ns: int = 0
    stopped_ns: int = 0
    removed_ns: int = 0
    first_ns: int = 0
    """Its first event, or the beginning of the session whose Synchronize told of it."""
    last_ns: int = 0
    """Its newest event; 0 where it has none."""
    first_event: int = 0
    """0 where it has none."""
    last_event: int = 0
    events: int = 0
    """About it; those about a pod's containers count for the pod, too."""
    problems: int = 0
    """Events that were not answered well."""
    changed: int = 0
    """Events that tell of a change."""
    told: int = 0
    """The object with which Synchronize told of it; 0 for none."""

    @property
    def stage(self) -> Stage:
        """How far it came."""
        if self.removed_ns:
            return Stage.REMOVED
        if self.stopped_ns:
            return Stage.STOPPED
        if self.started_ns:
            return Stage.STARTED
        if self.created_ns:
            return Stage.CREATED
        return Stage.CREATING if self.creating_ns else Stage.TOLD

    @property
    def end_ns(self) -> int:
        """When it was gone; `FOR_EVER` for what is still there."""
        return max(self.removed_ns, self.last_ns) if self.removed_ns else FOR_EVER


_UNKNOWN = Life()


class Lives:
    """Lives by key, in the order of the keys, which is the order in which they appeared."""

    def __init__(self) -> None:
        self.keys = array("q")
        self._columns = {name: array("q") for name in Life._fields}
        """Of each field the numbers, in the order of the keys."""
        self._counted = tuple(self._columns[name] for name in Life._fields[5:12])
        """From ``first_ns`` to ``changed``."""
        self._reached = {
            stage: self._columns[f"{stage.name.lower()}_ns"] for stage in Stage if stage
        }

    def __len__(self) -> int:
        return len(self.keys)

    def __contains__(self, key: int) -> bool:
        return self._find(key) is not None

    @property
    def newest(self) -> int:
        """The largest key; 0 where there is none."""
        return self.keys[-1] if self.keys else 0

    def append(self, key: int) -> None:
        """Add one, whose key is larger than all others."""
        for column in self._columns.values():
            column.append(0)
        self.keys.append(key)

    def __getitem__(self, key: int) -> Life:
        """Return a life; one without any event where the key is not known, or not any more."""
        slot = self._find(key)
        if slot is None:
            return _UNKNOWN
        return Life(*(column[slot] for column in self._columns.values()))

    def span(self, key: int) -> tuple[int, int]:
        """Return when it began and ended, as `Life` has it; zeros for one that is not known."""
        slot = self._find(key)
        if slot is None:
            return 0, 0
        removed, last = self._columns["removed_ns"][slot], self._columns["last_ns"][slot]
        return self._columns["first_ns"][slot], max(removed, last) if removed else FOR_EVER

    def tell(self, key: int, thing: int, at_ns: int) -> None:
        """Note that Synchronize told of it; the first time counts."""
        slot, told, first = self._find(key), self._columns["told"], self._columns["first_ns"]
        if slot is not None and not told[slot]:
            told[slot] = thing
            first[slot] = min(at_ns, first[slot] or at_ns)

    def count(
        self, key: int, event: int, at_ns: int, stage: Stage | None, *, ok: bool, changed: bool
    ) -> None:
        """Count an event about it. Of what several connections saw, the first one counts."""
        slot = self._find(key)
        if slot is None:
            return
        first_ns, last_ns, first_event, last_event, events, problems, changes = self._counted
        if not events[slot]:
            first_event[slot] = event
            first_ns[slot] = first_ns[slot] or at_ns
        events[slot] += 1
        last_event[slot] = event
        if at_ns > last_ns[slot]:
            last_ns[slot] = at_ns
        if not ok:
            problems[slot] += 1
        if changed:
            changes[slot] += 1
        if stage and not self._reached[stage][slot]:
            self._reached[stage][slot] = at_ns

    def _find(self, key: int) -> int | None:
        keys = self.keys
        # Recorders count keys from 1 without holes, until a ring removes some.
        slot = key - 1
        if 0 <= slot < len(keys) and keys[slot] == key:
            return slot
        slot = bisect_left(keys, key)
        return slot if slot < len(keys) and keys[slot] == key else None


def phases(life: Life, until_ns: int) -> Iterator[tuple[Stage, int, int]]:
    """Return the states of a life one after the other, each from a moment up to another one.

    ``until_ns``: up to there it was watched.
    """
    began = life.first_ns or until_ns
    reached = (
        (Stage.CREATING, life.creating_ns),
        (Stage.CREATED, life.created_ns),
        (Stage.STARTED, life.started_ns),
        (Stage.STOPPED, life.stopped_ns),
        (Stage.REMOVED, life.removed_ns),
    )
    stage, since = Stage.TOLD, began
    for after, at_ns in reached:
        if not at_ns:
            continue
        if at_ns > since:
            yield stage, since, at_ns
        stage, since = after, max(since, at_ns)
    if until_ns > since:
        yield stage, since, until_ns


def life_words(life: Life, until_ns: int) -> str:
    """Return a life in words: ``created 95.0ms, running 727ms, stopped 96.4ms``."""
    names = {
        Stage.TOLD: "there",
        Stage.CREATING: "creating",
        Stage.CREATED: "created",
        Stage.STARTED: "running",
        Stage.STOPPED: "stopped",
    }
    told = [
        f"{names[stage]} {duration(to_ns - from_ns)}"
        for stage, from_ns, to_ns in phases(life, until_ns)
        if stage in names
    ]
    if life.end_ns != FOR_EVER:
        told.append("removed")
    return ", ".join(told)
