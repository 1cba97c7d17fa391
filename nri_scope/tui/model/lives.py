# SPDX-License-Identifier: Apache-2.0
"""What became of pods and containers: many lives in little memory."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

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
        self._told: dict[int, int] = {}
        """By place, as few are: those that were there before a session began."""
        self.first_ns = array("q")
        self.last_ns = array("q")
        self._first_event = array("q")
        self._last_event = array("q")
        self._events = array("I")
        self._problems = array("I")
        self._changed = array("I")
        self._stages: dict[Stage, array[int]] = {
            stage: array("q") for stage in Stage if stage is not Stage.TOLD
        }
        # Those of the table above that are one number each.
        self._columns = (
            self.first_ns, self.last_ns, self._first_event, self._last_event,
            self._events, self._problems, self._changed, *self._stages.values(),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[int]:
        return iter(self.keys)

    def __contains__(self, key: int) -> bool:
        return self._find(key) is not None

    @property
    def newest(self) -> int:
        """The largest key; 0 where there is none."""
        return self.keys[-1] if self.keys else 0

    def append(self, key: int) -> None:
        """One more, whose key is larger than all others."""
        for column in self._columns:
            column.append(0)
        self.keys.append(key)

    def __getitem__(self, key: int) -> Life:
        """One without any event where the key is not known, or not any more."""
        slot = self._find(key)
        if slot is None:
            return _UNKNOWN
        return Life(
            self._stages[Stage.CREATING][slot],
            self._stages[Stage.CREATED][slot],
            self._stages[Stage.STARTED][slot],
            self._stages[Stage.STOPPED][slot],
            self._stages[Stage.REMOVED][slot],
            self.first_ns[slot],
            self.last_ns[slot],
            self._first_event[slot],
            self._last_event[slot],
            self._events[slot],
            self._problems[slot],
            self._changed[slot],
            self._told.get(slot, 0),
        )

    def tell(self, key: int, thing: int, at_ns: int) -> None:
        """Synchronize told of it; the first time counts."""
        slot = self._find(key)
        if slot is not None and not self._told.get(slot):
            self._told[slot] = thing
            self.first_ns[slot] = min(at_ns, self.first_ns[slot] or at_ns)

    def count(
        self, key: int, event: int, at_ns: int, stage: Stage | None, *, ok: bool, changed: bool
    ) -> None:
        """An event about it. Of what several connections saw, the first one counts."""
        slot = self._find(key)
        if slot is None:
            return
        if not self._events[slot]:
            self._first_event[slot] = event
            self.first_ns[slot] = self.first_ns[slot] or at_ns
        self._events[slot] += 1
        self._last_event[slot] = event
        if at_ns > self.last_ns[slot]:
            self.last_ns[slot] = at_ns
        if not ok:
            self._problems[slot] += 1
        if changed:
            self._changed[slot] += 1
        if stage is not None:
            reached = self._stages[stage]
            reached[slot] = reached[slot] or at_ns

    def span(self, key: int) -> tuple[int, int]:
        """When it began and ended, as `Life` has it; zeros for one that is not known."""
        slot = self._find(key)
        if slot is None:
            return 0, 0
        removed = self._stages[Stage.REMOVED][slot]
        end = max(removed, self.last_ns[slot]) if removed else FOR_EVER
        return self.first_ns[slot], end

    def _find(self, key: int) -> int | None:
        keys = self.keys
        # Recorders count keys from 1 without holes, until a ring removes some.
        slot = key - 1
        if 0 <= slot < len(keys) and keys[slot] == key:
            return slot
        slot = bisect_left(keys, key)
        return slot if slot < len(keys) and keys[slot] == key else None
