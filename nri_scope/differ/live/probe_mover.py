# SPDX-License-Identifier: Apache-2.0
"""Place probes so that each plugin of a chain is alone between two probes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from itertools import pairwise
from typing import Protocol

INITIAL_INDICES = ("00", "50", "99")
"""Indices of the probes before the chain is known."""
MAX_PROBES = 16
"""Maximum number of probes. Each adds some 0.1 ms to every event in the runtime."""
PAUSE_SECONDS = 5.0
"""Minimum time between two moves. The runtime sends all its containers to each new connection, and
a plugin that crashes repeatedly must not cause that each time."""


class Movable(Protocol):
    """The probes to be placed."""

    @property
    def indices(self) -> tuple[str, ...]: ...

    def place(self, indices: Iterable[str]) -> None: ...


class Placer:
    """Mover of probes to the places for the newest chain, at a limited rate. For one event loop."""

    def __init__(
        self, probes: Movable, say: Callable[[str], None], *, pause: float = PAUSE_SECONDS
    ) -> None:
        self._probes = probes
        self._say = say
        self._pause = pause
        self._chain: tuple[str, ...] | None = None
        self._resting = False

    def chain(self, indices: tuple[str, ...]) -> None:
        """Set the indices of the current plugins."""
        self._chain = indices
        if not self._resting:
            self._move()

    def _move(self) -> None:
        chain, self._chain = self._chain, None
        self._resting = chain is not None
        if chain is None:
            return
        targets = places(chain, self._probes.indices)
        if targets != self._probes.indices:
            listed = ", ".join(chain) or "none"
            self._say(f"plugins at {listed}: moving probes to {', '.join(targets)}")
            self._probes.place(targets)
        asyncio.get_running_loop().call_later(self._pause, self._move)


def places(chain: Iterable[str], now: Collection[str] = ()) -> tuple[str, ...]:
    """Return the indices for probes, ascending, from the indices of the plugins of a chain.

    There is a probe at 00 and 99, and one between any two neighbouring plugins with a free index
    in between: that of an existing probe (``now``), else the middle one. Of more than `MAX_PROBES`
    indices, some in between are omitted, evenly.
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
