# SPDX-License-Identifier: Apache-2.0
"""Track lifetimes of pods and containers by the stages that their events show."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from nri_scope.events import Event
from nri_scope.nri.events import CONTAINER_STAGES, POD_STAGES, STARTS, EventStage
from nri_scope.oci.runtime_rules import shows_start

SETTLE_EVENTS = 1_000
"""Number of events after a lifetime's end until it is considered complete: the last event is sent
to one plugin after the other, and slow plugins delay it."""


FIRST_STAGES = {True: EventStage.STARTED, False: EventStage.CREATING}
"""First stage of pods (True), which are running when RunPodSandbox is sent, and of containers."""


def pod_stage(event: str) -> EventStage:
    """Return the stage of a pod that an event shows; `EventStage.LISTED` if it shows none."""
    return POD_STAGES.get(event, EventStage.LISTED)


def container_stage(event: str, *runtimes: str) -> EventStage:
    """Return the stage of a container that an event of each of these runtimes shows.

    Returns `EventStage.LISTED` if it shows none.
    """
    if event in STARTS and not all(shows_start(event, runtime) for runtime in runtimes):
        return EventStage.LISTED
    return CONTAINER_STAGES.get(event, EventStage.LISTED)


@dataclass(slots=True)
class Lifetime:
    """Lifetime of a pod or container. Times are wall clock, in ns."""

    first: Event
    """First event about the pod or container."""
    is_pod: bool
    is_resumed: bool = False
    """Whether a lifetime under this id was complete before."""
    last_ns: int = 0
    """Time of the newest event."""
    answered_ns: int = 0
    """Time at which the last event was answered."""
    reached: dict[EventStage, int] = field(default_factory=dict[EventStage, int])
    """Time of the first event that showed each stage, since its newest beginning."""

    @property
    def id(self) -> str:
        """The id of the pod or container."""
        return self.first.pod_id if self.is_pod else self.first.container_id

    @property
    def stage(self) -> EventStage:
        """The last stage reached."""
        return max(self.reached, default=EventStage.LISTED)

    @property
    def has_start(self) -> bool:
        """Whether the beginning was observed."""
        return FIRST_STAGES[self.is_pod] in self.reached

    def see(self, event: Event) -> None:
        """Process an event about the pod or container, or about a container of the pod."""
        self.last_ns = event.at_ns
        self.answered_ns = max(self.answered_ns, event.at_ns + event.took_ns)
        name = event.event
        stage = pod_stage(name) if self.is_pod else container_stage(name, event.runtime)
        if stage:
            if stage is FIRST_STAGES[self.is_pod] and EventStage.REMOVED in self.reached:
                self.reached.clear()
            self.reached.setdefault(stage, event.at_ns)


class Lifetimes:
    """Lifetimes of all pods and containers, in a single pass over their events.

    A recording may have a hundred thousand pods, but few exist at the same time.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[bool, str], Lifetime] = {}
        self._ended: deque[tuple[int, tuple[bool, str]]] = deque()
        """Removed pods and containers, with the number of events before the removal."""
        self._complete: set[int] = set()
        """64-bit hashes of completed keys, which take less memory than the keys."""
        self._count = 0

    def see(self, event: Event) -> list[Lifetime]:
        """Process the next event; return the lifetimes of its pod and container, if it has any."""
        lifetimes: list[Lifetime] = []
        for key in ((True, event.pod_id), (False, event.container_id)):
            if not key[1]:
                continue
            lifetime = self._known.get(key)
            if lifetime is None:
                lifetime = self._known[key] = Lifetime(event, key[0])
                if hash(key) in self._complete:
                    lifetime.is_resumed = True
                    lifetime.reached[EventStage.REMOVED] = event.at_ns
            before = lifetime.stage
            lifetime.see(event)
            if lifetime.stage is EventStage.REMOVED is not before:
                self._ended.append((self._count, key))
            lifetimes.append(lifetime)
        self._count += 1
        return lifetimes

    def pop_complete(self) -> Iterator[Lifetime]:
        """Remove and yield the complete lifetimes. Must be called after each event."""
        while self._ended and self._ended[0][0] + SETTLE_EVENTS < self._count:
            _, key = self._ended.popleft()
            lifetime = self._known.get(key)
            # The pod or container may have been created again.
            if lifetime is not None and lifetime.stage is EventStage.REMOVED:
                self._complete.add(hash(key))
                yield self._known.pop(key)

    def remaining(self) -> Iterator[Lifetime]:
        """Yield all lifetimes not yet complete, those of containers first."""
        yield from sorted(self._known.values(), key=lambda lifetime: lifetime.is_pod)
