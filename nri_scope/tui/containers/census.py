# SPDX-License-Identifier: Apache-2.0
"""The pods and containers of a recording, with the times of their stages.

Collected in one pass over all events, in steps between which other tasks can run; new events are
added later. Takes a few hundred bytes of memory per pod and container, and almost none per event.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from nri_scope.nri.events import EventStage
from nri_scope.recording.query.event_scan import EventScan, SubjectEvent, name_of
from nri_scope.recording.query.lifetimes import FIRST_STAGES, container_stage, pod_stage
from nri_scope.recording.reading.reader import Recording
from nri_scope.text.quantities import duration

from .outline import NO_POD

NEVER_ENDS = (1 << 63) - 1
"""End time of a life that has not ended."""


STATES = {
    EventStage.LISTED: "existed",
    EventStage.CREATING: "creating",
    EventStage.CREATED: "created",
    EventStage.STARTED: "running",
    EventStage.STOPPED: "stopped",
    EventStage.REMOVED: "removed",
}
"""Displayed names of the stages."""


def stages_of(recording: Recording, event: str) -> tuple[EventStage, EventStage]:
    """Return the stages of a pod and of a container that an event shows."""
    runtimes = {session.runtime_name for session in recording.sessions()}
    return pod_stage(event), container_stage(event, *runtimes)


class Life(NamedTuple):
    """The life of one pod or container. Times are wall clock, in ns; 0 if not observed.

    The first fields are the times of the stages, in order.
    """

    creating_ns: int = 0
    created_ns: int = 0
    started_ns: int = 0
    stopped_ns: int = 0
    removed_ns: int = 0
    first_ns: int = 0
    """Time of its first event, or the start of the session whose Synchronize listed it."""
    last_ns: int = 0
    """Time of its newest event; 0 if it has none."""
    last_event: int = 0
    """Number of its newest event; 0 if it has none."""
    events: int = 0
    """Number of its events without answers of the CRI; a pod's include those of its containers."""
    problems: int = 0
    """Number of events with a status other than ok."""
    listed: int = 0
    """Key of the object by which Synchronize listed it; 0 if not listed."""
    left_out_ns: int = 0
    """End of the last events that were left out of this part of a recording; 0 if none were."""

    @property
    def is_unknown(self) -> bool:
        """Whether its state is unknown since its newest event: later ones may be left out."""
        return not self.removed_ns and self.last_ns < self.left_out_ns

    def known_until_ns(self, now_ns: int) -> int:
        """Return the time until which its state is known, at most ``now_ns``."""
        return min(max(self.first_ns, self.last_ns), now_ns) if self.is_unknown else now_ns

    @property
    def stage(self) -> EventStage:
        """The last stage reached."""
        return max(
            (stage for stage in EventStage if self.reached_ns(stage)), default=EventStage.LISTED
        )

    @property
    def began_ns(self) -> int:
        """The time of its creation, or of its start; 0 if neither was observed."""
        return self.creating_ns or self.created_ns or self.started_ns

    def age_ns(self, now_ns: int) -> int:
        """Return the time from its beginning, or first event, to its end, or ``now_ns``."""
        ended_ns = self.removed_ns or self.known_until_ns(now_ns)
        return max(0, ended_ns - (self.began_ns or self.first_ns))

    def reached_ns(self, stage: EventStage) -> int:
        """Return the time at which it reached a stage; 0 if not observed or `EventStage.LISTED`."""
        return self[stage - 1] if stage else 0

    @property
    def end_ns(self) -> int:
        """The time of its end; `NEVER_ENDS` if it still exists."""
        return max(self.removed_ns, self.last_ns) if self.removed_ns else NEVER_ENDS


_UNKNOWN = Life()
_COUNTS = ("events", "problems")
"""Fields that are counts of events."""


class Lives:
    """Lives by key, in ascending order of keys, which is the order of first appearance."""

    def __init__(self, *, of_pods: bool) -> None:
        self.keys = array("q")
        self._first_stage = FIRST_STAGES[of_pods]
        self.left_out_ns = 0
        """`Life.left_out_ns` of all lives."""
        self._columns = {name: array("I" if name in _COUNTS else "q") for name in Life._fields[:-1]}
        """Values of each other field, in the order of keys."""
        self._counted = tuple(self._columns[name] for name in Life._fields[5:10])
        """The columns of the fields from ``first_ns`` to ``problems``."""
        self._reached = {
            stage: self._columns[f"{stage.name.lower()}_ns"] for stage in EventStage if stage
        }

    def __len__(self) -> int:
        return len(self.keys)

    def __contains__(self, key: int) -> bool:
        return self._find(key) is not None

    @property
    def newest(self) -> int:
        """The largest key; 0 if there is none."""
        return self.keys[-1] if self.keys else 0

    def extend(self, keys: Sequence[int]) -> None:
        """Add lives; ``keys`` ascend and are larger than all existing ones."""
        # In one call per column: arrays that grow in turns fragment the memory.
        for column in self._columns.values():
            column.frombytes(bytes(column.itemsize * len(keys)))
        self.keys.extend(keys)

    def __getitem__(self, key: int) -> Life:
        """Return a life; an empty one if the key is unknown."""
        slot = self._find(key)
        if slot is None:
            return _UNKNOWN
        row = (column[slot] for column in self._columns.values())
        return Life._make((*row, self.left_out_ns))

    def span(self, key: int) -> tuple[int, int]:
        """Return `Life.first_ns` and `Life.end_ns` of a life; zeros if the key is unknown."""
        slot = self._find(key)
        if slot is None:
            return 0, 0
        removed, last = self._columns["removed_ns"][slot], self._columns["last_ns"][slot]
        return self._columns["first_ns"][slot], max(removed, last) if removed else NEVER_ENDS

    def set_listed(self, key: int, object_key: int, at_ns: int) -> None:
        """Record that Synchronize listed it; only the first call has an effect."""
        slot, listed, first = self._find(key), self._columns["listed"], self._columns["first_ns"]
        if slot is not None and not listed[slot]:
            listed[slot] = object_key
            first[slot] = min(at_ns, first[slot] or at_ns)

    def count(
        self,
        key: int,
        event: int,
        at_ns: int,
        stage: EventStage,
        *,
        ok: bool,
        is_answer: bool,
    ) -> None:
        """Count an event; as in `report`, answers of the CRI are not counted.

        Stage times are those of the first connection that received the event.
        """
        slot = self._find(key)
        if slot is None:
            return
        first_ns, last_ns, last_event, events, problems = self._counted
        if not last_event[slot]:
            first_ns[slot] = first_ns[slot] or at_ns
        last_event[slot] = event
        if at_ns > last_ns[slot]:
            last_ns[slot] = at_ns
        if is_answer:
            return
        events[slot] += 1
        if not ok:
            problems[slot] += 1
        if stage is self._first_stage and self._columns["removed_ns"][slot]:
            # Its id is used again: this is the newest life.
            first_ns[slot] = at_ns
            for column in self._reached.values():
                column[slot] = 0
        if stage and not self._reached[stage][slot]:
            self._reached[stage][slot] = at_ns

    def _find(self, key: int) -> int | None:
        keys = self.keys
        # Recorders assign keys from 1 without holes, until a ring removes some.
        slot = key - 1
        if 0 <= slot < len(keys) and keys[slot] == key:
            return slot
        slot = bisect_left(keys, key)
        return slot if slot < len(keys) and keys[slot] == key else None


def phases(life: Life, until_ns: int) -> Iterator[tuple[EventStage, int, int]]:
    """Yield the phases of a life in order: stage, start and end time.

    ``until_ns``: end of the observation.
    """
    until_ns = life.known_until_ns(until_ns)
    began = life.first_ns or until_ns
    stage, since = EventStage.LISTED, began
    for after in EventStage:
        at_ns = life.reached_ns(after)
        if not at_ns:
            continue
        if at_ns > since:
            yield stage, since, at_ns
        stage, since = after, max(since, at_ns)
    if until_ns > since:
        yield stage, since, until_ns


def life_words(life: Life, until_ns: int) -> str:
    """Describe a life: ``created 95.0ms, running 727ms, stopped 96.4ms``."""
    parts = [
        f"{STATES[stage]} {duration(to_ns - from_ns)}"
        for stage, from_ns, to_ns in phases(life, until_ns)
        if stage is not EventStage.REMOVED
    ]
    if life.end_ns != NEVER_ENDS:
        parts.append("removed")
    if life.is_unknown:
        parts.append("then unknown (later events left out)")
    return ", ".join(parts)


STEP = 5_000
"""Number of events per step, which takes about 10 ms."""


class Census:
    """Pods and containers by their keys in the recording.

    They are only ever added, until a step begins anew because what was read is outdated. Steps run
    in a thread. Another thread may read at the same time, and sees part of the new data.
    """

    def __init__(self) -> None:
        self.beginnings = 0
        """How often reading has begun anew."""
        self._begin()

    def _begin(self) -> None:
        # Other threads may read the former objects to the end of a call.
        self.pods = Lives(of_pods=True)
        self.containers = Lives(of_pods=False)
        self.pod_of = array("q")
        """The pod of each of ``containers``, or `NO_POD`."""
        self.first_ns = 0
        """Time of the first event; 0 if there is none."""
        self.last_ns = 0
        self.scan = EventScan()
        self._stages: dict[int, tuple[EventStage, EventStage]] = {}
        """Stages of pods and containers by the keys of event names."""

    def step(self, recording: Recording) -> bool:
        """Read more events; return False if none is left. Raises RecordingError."""
        if self.scan.outdated:
            self.beginnings += 1
            self._begin()
        if not self.scan.newest:
            left_out = (gap.to_ns for gap in recording.gaps() if gap.is_left_out)
            self.pods.left_out_ns = self.containers.left_out_ns = max(left_out, default=0)
        pods, containers, of_pods = self.scan.subjects(recording, self.containers.newest)
        self.pods.extend(pods)
        self.containers.extend(containers)
        self.pod_of.extend(pod if pod in self.pods else NO_POD for pod in of_pods)
        for pod, container, object_key, at_ns in self.scan.new_states(recording):
            if container is not None:
                self.containers.set_listed(container, object_key, at_ns)
            elif pod is not None:
                self.pods.set_listed(pod, object_key, at_ns)
        events = self.scan.subject_events(recording, STEP)
        for name in {event[2] for event in events} - self._stages.keys():
            self._stages[name] = stages_of(recording, name_of(recording, name))
        for event in events:
            self._add(event)
        return len(events) == STEP

    def _add(self, event: SubjectEvent) -> None:
        number, at_ns, name, pod, container, ok, is_answer = event
        self.first_ns = min(self.first_ns, at_ns) if self.first_ns else at_ns
        self.last_ns = max(self.last_ns, at_ns)
        of_pod, of_container = self._stages[name]
        if pod is not None:
            self.pods.count(pod, number, at_ns, of_pod, ok=ok, is_answer=is_answer)
        if container is not None:
            self.containers.count(
                container, number, at_ns, of_container, ok=ok, is_answer=is_answer
            )
