# SPDX-License-Identifier: Apache-2.0
"""Place probes so that each plugin of a chain is alone between two of them, and move them along."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from itertools import pairwise
from typing import Protocol

FIRST_PLACES = ("00", "50", "99")
"""Indices of probes before the chain is known."""
MAX_PROBES = 16
"""Maximum number of probes at one time. Each adds some 0.1 ms to every event in the runtime."""
PAUSE = 5.0
"""Seconds between two moves: the runtime sends all its containers to each new connection, and a
plugin that crashes again and again must not cause that each time."""


class Movable(Protocol):
    """The probes that are to be placed."""

    @property
    def indices(self) -> tuple[str, ...]: ...

    def place(self, indices: Iterable[str]) -> None: ...


class Placer:
    """Places probes for the newest chain, but not too often. For an event loop."""

    def __init__(
        self, probes: Movable, say: Callable[[str], None], *, pause: float = PAUSE
    ) -> None:
        self._probes = probes
        self._say = say
        self._pause = pause
        self._chain: tuple[str, ...] | None = None
        self._resting = False

    def chain(self, indices: tuple[str, ...]) -> None:
        """Take the current plugins, by their indices."""
        self._chain = indices
        if not self._resting:
            self._move()

    def _move(self) -> None:
        chain, self._chain = self._chain, None
        self._resting = chain is not None
        if chain is None:
            return
        wanted = places(chain, self._probes.indices)
        if wanted != self._probes.indices:
            there = ", ".join(chain) or "none"
            self._say(f"plugins at {there}: probes go to {', '.join(wanted)}")
            self._probes.place(wanted)
        asyncio.get_running_loop().call_later(self._pause, self._move)


def places(chain: Iterable[str], now: Collection[str] = ()) -> tuple[str, ...]:
    """Return the indices for probes, ascending, given those of the plugins of a chain.

    Always 00 and 99, and one between any two neighbouring plugins if an index is free; else no
    probe can be placed between them. Of several free indices, one of ``now`` (existing probes) is
    preferred, else the middle. Of more than `MAX_PROBES` places, some in between are left out,
    evenly.
    """
    plugins = sorted({int(index) for index in chain})
    kept = {int(index) for index in now}
    between: list[int] = []
    for one, other in pairwise(plugins):
        free = range(one + 1, other)
        if free:
            between.append(next((i for i in free if i in kept), (one + other) // 2))
    if len(between) > MAX_PROBES - 2:
        between = [between[n * len(between) // (MAX_PROBES - 2)] for n in range(MAX_PROBES - 2)]
    return tuple(f"{index:02d}" for index in sorted({0, *between, 99}))
