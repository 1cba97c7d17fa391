# SPDX-License-Identifier: Apache-2.0
"""Moves probes when the plugins that are there are others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from .probe_indices import places

PAUSE = 5.0
"""Seconds between two moves: each new connection has the runtime send all its containers, and a
plugin that crashes again and again must not make that happen each time."""


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
