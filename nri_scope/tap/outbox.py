# SPDX-License-Identifier: Apache-2.0
"""What is to be told to another process, when nothing else is to be done."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Callable

WAIT_S = 0.02
"""How long a piece waits. To tell of it at once would take microseconds in which the peer that it
was written to may be waiting for this very processor."""
TURN_BYTES = 16 << 10
"""What is told before sockets are looked at again: some microseconds."""
WAITING_BYTES_MAX = 64 << 20
"""More than this does not wait; the other process stands still, or is far behind."""
ITEM_BYTES = 64
"""What anything that waits takes beside its bytes: a peer may write them one by one."""


class Outbox:
    """Tells in the order in which it was asked to, and never waits. For one event loop."""

    def __init__(self, sock: socket.socket, on_gone: Callable[[], None]) -> None:
        """``on_gone`` is called when nobody listens any more."""
        sock.setblocking(False)
        self._socket = sock
        self._on_gone = on_gone
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._due = False
        self._gone = False

    @property
    def is_full(self) -> bool:
        """More waits than should."""
        return self._bytes > WAITING_BYTES_MAX

    def put(self, data: bytes) -> None:
        """Tell this."""
        self._waiting.append(data)
        self._bytes += len(data) + ITEM_BYTES
        if not self._due:
            self._due = True
            self._loop.call_later(WAIT_S, self._turn)

    async def drain(self, seconds: float) -> None:
        """Wait until all is told, but not for ever."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._waiting and not self._gone:
                    await asyncio.sleep(WAIT_S)

    def _turn(self) -> None:
        if self._gone:
            return
        parts = [self._waiting.popleft()]
        size = len(parts[0])
        while self._waiting and size + len(self._waiting[0]) <= TURN_BYTES:
            parts.append(self._waiting.popleft())
            size += len(parts[-1])
        data = b"".join(parts)
        try:
            sent = self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self._gone = True
            self._waiting.clear()
            self._on_gone()
            return
        self._bytes -= sent + len(parts) * ITEM_BYTES
        if sent < len(data):
            self._waiting.appendleft(data[sent:])
            self._bytes += ITEM_BYTES
            self._loop.add_writer(self._socket, self._writable)
        elif self._waiting:
            self._loop.call_soon(self._turn)
        else:
            self._due = False

    def _writable(self) -> None:
        self._loop.remove_writer(self._socket)
        self._turn()
