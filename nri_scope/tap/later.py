# SPDX-License-Identifier: Apache-2.0
"""What was relayed waits here until there is time to look at it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic_ns
from typing import ClassVar
from weakref import WeakKeyDictionary, ref

from nri_scope.transport.relay import OnPiece

_Piece = tuple[bool, bytes, int, int]

WAIT_S = 0.02
"""How long a piece waits. Looking at it at once would take microseconds in which the peer that it
was written to may be waiting for this very processor; measured with a busy plugin on two of them,
half of what a tap adds to an event."""
TURN_NS = 60_000
"""How long pieces are looked at before sockets are again: hardly more than one of them takes."""
WAITING_BYTES_MAX = 16 << 20
"""More than this is not kept: it is looked at in between, which slows the relaying down."""

PIECE_COST = 200
"""Bytes that a piece takes beside what is in it, about: a peer may write them one by one."""


class Later:
    """Hands pieces on when nothing else is to be done. For one event loop's thread.

    All of one loop have one queue: a runtime asks one plugin of its chain after the other, and what
    is made of a recording rests on that order.
    """

    def __init__(self, heard: OnPiece, failed: Callable[[Exception], None]) -> None:
        """``failed`` is told of the error that ended the hearing; the relay never learns of it."""
        self._heard: OnPiece | None = heard
        self._failed = failed
        self._queue = _Queue.of(asyncio.get_running_loop())

    def put(self, forth: bool, data: bytes, arrived_ns: int, passed_ns: int) -> None:
        """An `OnPiece` that takes no time."""
        self._queue.put(self._hear, (forth, data, arrived_ns, passed_ns))

    def finish(self) -> None:
        """Hand everything on now, also that of others."""
        self._queue.finish()

    def _hear(self, forth: bool, data: bytes, arrived_ns: int, passed_ns: int) -> None:
        if self._heard is None:
            return
        try:
            self._heard(forth, data, arrived_ns, passed_ns)
        except Exception as error:  # noqa: BLE001 - what a peer said must not end the relaying
            self._heard = None
            self._failed(error)


class _Queue:
    """What waits in one loop, in the order in which it was passed on."""

    _of_loops: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue]] = WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # The loop holds the queue, which must not hold the loop for ever.
        self._loop = ref(loop)
        self._waiting: deque[tuple[OnPiece, _Piece]] = deque()
        self._bytes = 0
        self._due = False

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> _Queue:
        """The loop's only one."""
        found = cls._of_loops.get(loop)
        if found is None:
            found = cls._of_loops[loop] = cls(loop)
        return found

    def put(self, heard: OnPiece, piece: _Piece) -> None:
        self._waiting.append((heard, piece))
        self._bytes += len(piece[1]) + PIECE_COST
        loop = self._loop()
        if not self._due and loop is not None:
            self._due = True
            loop.call_later(WAIT_S, self._turn)
        elif self._bytes > WAITING_BYTES_MAX:
            self.finish()

    def finish(self) -> None:
        while self._waiting:
            self._next()

    def _turn(self) -> None:
        until = monotonic_ns() + TURN_NS
        while self._waiting:
            self._next()
            if monotonic_ns() >= until:
                break
        loop = self._loop()
        if self._waiting and loop is not None:
            loop.call_soon(self._turn)
        else:
            self._due = False

    def _next(self) -> None:
        heard, piece = self._waiting.popleft()
        self._bytes -= len(piece[1]) + PIECE_COST
        heard(*piece)
