# SPDX-License-Identifier: Apache-2.0
"""Which pods and containers a recording has, and when what became of them.

One pass over all events, in steps, so that others get their turn; what comes later is added. It
takes some hundred bytes of memory for each pod and container, and next to nothing for an event.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from nri_scope.recorder.event_scan import EventScan, SubjectEvent, name_of
from nri_scope.recorder.reader import Recording
from nri_scope.tui.containers.lives import STAGES, Lives, Stage
from nri_scope.tui.containers.outline import NO_POD

if TYPE_CHECKING:
    from nri_scope.tui.store.store import Store

STEP = 5_000
"""Events in one step: some 10 ms, and what it reads takes little memory."""
_BLOCK = 512
"""Events of which only the span of time is remembered."""


class Span(NamedTuple):
    """Events by their numbers, both included; empty where ``first`` is larger."""

    first: int
    last: int


class Census:
    """Pods and containers by their keys in the recording. It only grows.

    Steps are made in a thread; meanwhile another one may read, and sees some of what is new.
    """

    def __init__(self) -> None:
        self.pods = Lives()
        self.containers = Lives()
        self.pod_of = array("q")
        """The pod of each of ``containers``, or `NO_POD`."""
        self.first_ns = 0
        """Of all events; 0 where there is none."""
        self.last_ns = 0
        self._scan = EventScan()
        self._stages: dict[int, tuple[Stage | None, bool]] = {}
        """By the keys of events' names."""
        self._blocks: list[tuple[int, int, int]] = []
        """First number, earliest and latest time of every so many events."""
        self._in_block = 0

    @property
    def newest(self) -> int:
        """The number of the newest event that was read."""
        return self._scan.newest

    @property
    def outdated(self) -> bool:
        """Whether the oldest events were removed since: a new census has to be made."""
        return self._scan.outdated

    def step(self, recording: Recording) -> bool:
        """Read on; False where nothing is left. Raises RecordingError."""
        pods, containers = self._scan.subjects(recording, self.pods.newest, self.containers.newest)
        for key in pods:
            self.pods.append(key)
        for key, pod in containers:
            self.containers.append(key)
            self.pod_of.append(pod if pod is not None and pod in self.pods else NO_POD)
        for told_pod, container, thing, at_ns in self._scan.told(recording):
            if container is not None:
                self.containers.tell(container, thing, at_ns)
            elif told_pod is not None:
                self.pods.tell(told_pod, thing, at_ns)
        events = self._scan.subject_events(recording, STEP)
        for name in {event[2] for event in events} - self._stages.keys():
            self._stages[name] = STAGES.get(name_of(recording, name), (None, True))
        for event in events:
            self._add(event)
        return len(events) == STEP

    def _add(self, event: SubjectEvent) -> None:
        number, at_ns, name, pod, container, ok, changed = event
        self.first_ns = min(self.first_ns, at_ns) if self.first_ns else at_ns
        self.last_ns = max(self.last_ns, at_ns)
        if not self._in_block:
            self._blocks.append((number, at_ns, at_ns))
        else:
            first, earliest, latest = self._blocks[-1]
            if not earliest <= at_ns <= latest:
                self._blocks[-1] = (first, min(earliest, at_ns), max(latest, at_ns))
        self._in_block = (self._in_block + 1) % _BLOCK
        stage, of_container = self._stages[name]
        if pod is not None:
            of_pod = None if of_container else stage
            self.pods.count(pod, number, at_ns, of_pod, ok=ok, changed=changed)
        if container is not None:
            reached = stage if of_container else None
            self.containers.count(container, number, at_ns, reached, ok=ok, changed=changed)

    # -- asking ---------------------------------------------------------------------------

    def between(self, from_ns: int, to_ns: int) -> Span:
        """All events of that time are among these numbers, with some others."""
        first = last = 0
        blocks = self._blocks
        for at, (number, earliest, latest) in enumerate(blocks):
            if earliest <= to_ns and latest >= from_ns:
                first = first or number
                last = blocks[at + 1][0] - 1 if at + 1 < len(blocks) else self.newest
        return Span(first, last) if first else Span(1, 0)


_CENSUSES: WeakKeyDictionary[Store, Census] = WeakKeyDictionary()
"""One for each recording: the tree and the timeline have it together."""


def census_of(store: Store) -> Census:
    """Return what is known of a recording's pods and containers; another one where the oldest
    events were removed since.
    """
    census = _CENSUSES.get(store)
    if census is None or census.outdated:
        census = _CENSUSES[store] = Census()
    return census
