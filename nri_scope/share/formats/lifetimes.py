# SPDX-License-Identifier: Apache-2.0
"""Pods and containers from their first to their last event, one after the other.

A recording may have a hundred thousand of them, few of which live at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from nri_scope.events import Event

FIRST = frozenset({"RunPodSandbox", "CreateContainer"})
"""Events that something's life begins with."""
LAST = frozenset({"RemovePodSandbox", "RemoveContainer"})
"""Events that it ends with."""
WAIT = 1_000
"""Events after which nothing more is expected of what has ended: other plugins are told after it,
and one that is slow keeps all others waiting."""


@dataclass(slots=True)
class Life:
    """A pod or container."""

    event: Event
    """The first one about it."""
    end_ns: int
    """Wall clock when its last event was answered."""
    began: bool = False
    """Whether its beginning was recorded."""
    ended: bool = False
    """Whether its end was."""


class Lives:
    """All pods, or all containers."""

    def __init__(self) -> None:
        self._known: dict[str, Life] = {}
        self._ended: deque[tuple[int, str]] = deque()
        self._given: set[int] = set()
        """Hashes, for want of room. That of a text is 64 bits wide, and another one each time."""
        self._count = 0

    def hear(self, key: str, event: Event) -> Life | None:
        """Somebody told of ``key``. None where its life is over and was given."""
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
        """To be asked after each event: those of which nothing more is expected, once."""
        self._count += 1
        while self._ended and self._ended[0][0] + WAIT < self._count:
            _, key = self._ended.popleft()
            self._given.add(hash(key))
            yield self._known.pop(key)

    def rest(self) -> Iterator[Life]:
        """All others, in the end."""
        yield from self._known.values()
