# SPDX-License-Identifier: Apache-2.0
"""Lifetimes of pods and containers, from first to last event, in a single pass.

A recording may have a hundred thousand of them, of which few exist at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from nri_scope.events import Event

FIRST = frozenset({"RunPodSandbox", "CreateContainer"})
"""Events that begin a life."""
LAST = frozenset({"RemovePodSandbox", "RemoveContainer"})
"""Events that end a life."""
WAIT = 1_000
"""Number of events after a life's end until the life is considered over: the last event is sent to
one plugin after the other, and a slow plugin delays the rest."""


@dataclass(slots=True)
class Life:
    """The life of a pod or container."""

    event: Event
    """The first event about the pod or container."""
    end_ns: int
    """Wall clock time at which the last event was answered."""
    began: bool = False
    """Whether the beginning was recorded."""
    ended: bool = False
    """Whether the end was recorded."""


class Lives:
    """The lives of all pods, or of all containers."""

    def __init__(self) -> None:
        self._known: dict[str, Life] = {}
        self._ended: deque[tuple[int, str]] = deque()
        self._given: set[int] = set()
        """Hashes of finished keys, to save memory: 64 bits, with another seed in each process."""
        self._count = 0

    def hear(self, key: str, event: Event) -> Life | None:
        """Note an event about ``key``; return the life, or None if `over` already yielded it."""
        life = self._known.get(key)
        if life is None:
            if hash(key) in self._given:
                return None
            life = self._known[key] = Life(event, event.at_ns)
        life.end_ns = max(life.end_ns, event.at_ns + event.took_ns)
        life.began = life.began or event.event in FIRST
        if event.event in LAST and not life.ended:
            life.ended = True
            self._ended.append((self._count, key))
        return life

    def over(self) -> Iterator[Life]:
        """Yield lives that have ended, once each. Call it after each event."""
        self._count += 1
        while self._ended and self._ended[0][0] + WAIT < self._count:
            _, key = self._ended.popleft()
            self._given.add(hash(key))
            yield self._known.pop(key)

    def rest(self) -> Iterator[Life]:
        """Yield all remaining lives at the end."""
        yield from self._known.values()
