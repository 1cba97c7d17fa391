# SPDX-License-Identifier: Apache-2.0
"""Track lifetimes of pods and containers, from first to last event, in a single pass.

A recording may have a hundred thousand pods, but few exist at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from nri_scope.events import Event

FIRST = frozenset({"RunPodSandbox", "CreateContainer"})
"""Events that begin a lifetime."""
LAST = frozenset({"RemovePodSandbox", "RemoveContainer"})
"""Events that end a lifetime."""
SETTLE_EVENTS = 1_000
"""Number of events after a lifetime's end until it is considered complete: the last event is sent
to one plugin after the other, and slow plugins delay it."""


@dataclass(slots=True)
class Lifetime:
    """Lifetime of a pod or container."""

    event: Event
    """First event about the pod or container."""
    end_ns: int
    """Wall clock time at which the last event was answered."""
    has_start: bool = False
    """Whether the beginning was recorded."""
    has_end: bool = False
    """Whether the end was recorded."""


class Lifetimes:
    """Lifetimes of all pods, or of all containers."""

    def __init__(self) -> None:
        self._known: dict[str, Lifetime] = {}
        self._ended: deque[tuple[int, str]] = deque()
        self._yielded: set[int] = set()
        """64-bit hashes of yielded keys, which take less memory than the keys."""
        self._count = 0

    def add(self, key: str, event: Event) -> Lifetime | None:
        """Extend the lifetime of ``key`` to an event, and return it; None if already yielded."""
        lifetime = self._known.get(key)
        if lifetime is None:
            if hash(key) in self._yielded:
                return None
            lifetime = self._known[key] = Lifetime(event, event.at_ns)
        lifetime.end_ns = max(lifetime.end_ns, event.at_ns + event.took_ns)
        lifetime.has_start = lifetime.has_start or event.event in FIRST
        if event.event in LAST and not lifetime.has_end:
            lifetime.has_end = True
            self._ended.append((self._count, key))
        return lifetime

    def pop_complete(self) -> Iterator[Lifetime]:
        """Remove and yield the complete lifetimes. Must be called after each event."""
        self._count += 1
        while self._ended and self._ended[0][0] + SETTLE_EVENTS < self._count:
            _, key = self._ended.popleft()
            self._yielded.add(hash(key))
            yield self._known.pop(key)

    def remaining(self) -> Iterator[Lifetime]:
        """Yield all lifetimes not yet yielded."""
        yield from self._known.values()
