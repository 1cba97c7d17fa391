# SPDX-License-Identifier: Apache-2.0
"""What was relayed waits here until there is time to look at it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic_ns

from nri_scope.transport.relay import OnPiece

WAIT_S = 0.01
"""How long a piece waits. Looking at it at once would take microseconds in which the peer that it
was written to may be waiting for this very processor; measured with a busy plugin on two of them,
half of what a tap adds to an event."""
TURN_NS = 60_000
"""How long pieces are looked at before sockets are again: hardly more than one of them takes."""
WAITING_BYTES_MAX = 16 << 20
"""More than this is not kept: it is looked at in between, which slows the relaying down."""


class Later:
    """Hands pieces on, in order, when nothing else is to be done. For one event loop's thread."""

    def __init__(self, heard: OnPiece, failed: Callable[[Exception], None]) -> None:
        """``failed`` is told of the error that ended the hearing; the relay never learns of it."""
        self._heard: OnPiece | None = heard
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[bool, bytes, int, int]] = deque()
        self._bytes = 0
        self._due = False

    def put(self, forth: bool, data: bytes, arrived_ns: int, passed_ns: int) -> None:
        """An `OnPiece` that takes no time."""
        self._waiting.append((forth, data, arrived_ns, passed_ns))
        self._bytes += len(data)
        if not self._due:
            self._due = True
            self._loop.call_later(WAIT_S, self._turn)
        elif self._bytes > WAITING_BYTES_MAX:
            self.finish()

    def finish(self) -> None:
        """Hand everything on now."""
        while self._waiting:
            self._next()

    def _turn(self) -> None:
        until = monotonic_ns() + TURN_NS
        while self._waiting:
            self._next()
            if monotonic_ns() >= until:
                break
        if self._waiting:
            self._loop.call_soon(self._turn)
        else:
            self._due = False

    def _next(self) -> None:
        piece = self._waiting.popleft()
        self._bytes -= len(piece[1])
        if self._heard is None:
            return
        try:
            self._heard(*piece)
        except Exception as error:  # noqa: BLE001 - what a peer said must not end the relaying
            self._heard = None
            self._failed(error)
