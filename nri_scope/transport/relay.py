# SPDX-License-Identifier: Apache-2.0
"""Two sockets as one: bytes from each are written to the other, and reported to a listener.

Bytes are not changed, merged or held. A piece is written in the same callback in which it came, and
inspected only afterwards. The relay reproduces the behaviour between two ends of one socket:

- if a peer does not read, its buffer fills and the other is no longer read: we hold at most one
  piece;
- an end that only stops writing (``shutdown``) still receives data;
- if an end is gone, the other end is closed, after it has received all data.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
from collections import deque
from collections.abc import Callable
from time import monotonic_ns
from typing import NamedTuple, Protocol

PIECE_MAX = 256 << 10
"""Bytes read at once: slightly more than a unix socket's default buffer."""

_GONE = select.EPOLLHUP | select.EPOLLERR

OnPiece = Callable[[bool, bytes, int, int], None]
"""Called with the direction (True: from the first socket to the second), the bytes passed on, and
the monotonic times (ns) when they had come and when all were written to the other socket.
"""


class RelayEnd(NamedTuple):
    """The end of a relay, with its reason."""

    first: bool | None
    """Whether the first socket's peer ended it; None: neither peer, it was closed here."""
    words: str
    """The system's error, or why it was closed here; "" for a normal end."""


class FaultHook(Protocol):
    """A hook in one direction of a relay, for faults. It decides which bytes `pass_on` gets."""

    def take(self, relay: Relay, forth: bool, data: bytes, arrived_ns: int) -> None:
        """Take received bytes."""
        ...

    def ended(self, relay: Relay, forth: bool) -> None:
        """Pass on the bytes held: no more will come."""
        ...


class Relay:
    """Relays between two connected stream sockets, which it then owns.

    An error in ``on_piece`` ends the reports, never the relaying; ``on_failure`` gets the error.
    """

    def __init__(
        self,
        first: socket.socket,
        second: socket.socket,
        on_piece: OnPiece,
        *,
        through: FaultHook | None = None,
        on_failure: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        """Start relaying at once; call it in a running event loop."""
        self._loop = asyncio.get_running_loop()
        self._closed: asyncio.Future[RelayEnd] = self._loop.create_future()
        self._on_piece: OnPiece | None = on_piece
        self._on_failure = on_failure
        self._end: RelayEnd | None = None
        self._sockets = (first, second)
        for sock in self._sockets:
            sock.setblocking(False)
            sock.set_inheritable(False)
        buffer = memoryview(bytearray(PIECE_MAX))
        self._forth = forth = _Way(self, True, first, second, buffer, through)
        self._back = back = _Way(self, False, second, first, buffer, through)
        self._ways = {first.fileno(): (forth, back), second.fileno(): (back, forth)}
        """The direction that reads from a descriptor, and the one that writes to it."""
        # An epoll of our own rather than two readers of the loop: the latter do not distinguish a
        # closed peer from one that has finished writing, and libuv gives up on a socket that was
        # reset.
        self._epoll = select.epoll()
        for sock in self._sockets:
            self._epoll.register(sock, select.EPOLLIN)
        self._loop.add_reader(self._epoll.fileno(), self._ready)

    @property
    def closed(self) -> bool:
        """Whether the relay has ended."""
        return self._closed.done()

    async def wait_closed(self) -> RelayEnd:
        """Wait for the end, and return its reason."""
        return await asyncio.shield(self._closed)

    def close(self, words: str = "closed here") -> None:
        """Close both sockets at once."""
        self._end = self._end or RelayEnd(None, words)
        self._finish()

    def pass_on(self, forth: bool, data: bytes, arrived_ns: int) -> None:
        """Write ``data`` as if it had come in this direction, for a `FaultHook`. May queue it."""
        if not self.closed:
            (self._forth if forth else self._back).write(data, arrived_ns)

    def notify(self, forth: bool, data: bytes, arrived_ns: int, passed_ns: int) -> None:
        """Notify the listener."""
        if self._on_piece is None:
            return
        try:
            self._on_piece(forth, data, arrived_ns, passed_ns)
        except Exception as error:  # noqa: BLE001 - what a peer said must not end the relaying
            self._on_piece = None
            with contextlib.suppress(Exception):
                self._on_failure(error)

    # -- callbacks of a direction -------------------------------------------------------------

    def source_ended(self, way: _Way, error: OSError | None) -> None:
        """Record that the source has ended and that all its bytes were passed on."""
        self._ended_by(way.forth, error)
        with contextlib.suppress(OSError):
            way.target.shutdown(socket.SHUT_WR)
        # A source that is gone, rather than just finished writing, is detected in `_ready`.
        if error is not None or (self._forth.over and self._back.over):
            self._finish()

    def target_gone(self, way: _Way, error: OSError) -> None:
        """Record that the target cannot be written to; it may have sent bytes before that."""
        self._ended_by(not way.forth, None if isinstance(error, BrokenPipeError) else error)
        with contextlib.suppress(OSError):
            # The source notices when it writes again, as it would without a relay.
            way.source.shutdown(socket.SHUT_RD)
        if self._forth.over and self._back.over:
            self._finish()

    def wants(self, sock: socket.socket) -> None:
        """Poll the socket for the events needed now: bytes to read, space to write, or neither."""
        reading, writing = self._ways[sock.fileno()]
        events = (select.EPOLLIN if reading.reading else 0) | (
            select.EPOLLOUT if writing.waiting else 0
        )
        try:
            self._epoll.modify(sock, events)
        except FileNotFoundError:
            self._epoll.register(sock, events)

    def _ready(self) -> None:
        for descriptor, events in self._epoll.poll(0, 2):
            if self.closed:
                return
            reading, writing = self._ways[descriptor]
            if writing.waiting:
                writing.writable()
            if reading.reading:
                reading.readable()
            elif events & _GONE and not self.closed:
                if reading.over:
                    # No end is left to write to, and no bytes are left to pass on.
                    self._ended_by(reading.forth, None)
                    self._finish()
                elif not writing.waiting:
                    # Its last bytes still wait for the other end. Meanwhile the system would report
                    # the end again and again, regardless of the requested events.
                    self._epoll.unregister(descriptor)

    def _ended_by(self, first: bool, error: OSError | None) -> None:
        words = "" if error is None else (error.strerror or str(error)).lower()
        self._end = self._end or RelayEnd(first, words)

    def _finish(self) -> None:
        if self.closed:
            return
        self._forth.stop()
        self._back.stop()
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()
        for sock in self._sockets:
            sock.close()
        # Remaining references wait for Python's garbage collector, which may take a while.
        self._forth.buffer = self._back.buffer = memoryview(b"")
        self._closed.set_result(self._end or RelayEnd(None, ""))


class _Way:
    """One direction."""

    def __init__(
        self,
        relay: Relay,
        forth: bool,
        source: socket.socket,
        target: socket.socket,
        buffer: memoryview,
        through: FaultHook | None,
    ) -> None:
        self.forth = forth
        self.source = source
        self.target = target
        self.reading = True
        """Whether the source is to be read."""
        self.waiting: deque[tuple[bytes, int]] = deque()
        """Pieces that the target has not accepted yet, each with its time of arrival. At most one,
        unless a `FaultHook` adds more.
        """
        self.over = False
        """Whether no more bytes will be passed on in this direction."""
        self._relay = relay
        self.buffer = buffer
        """Buffer for reading, shared by both directions."""
        self._through = through
        self._written = 0
        """Bytes of the first waiting piece that the target has accepted."""
        self._source_over = False
        self._error: OSError | None = None

    def stop(self) -> None:
        """Stop reading and writing."""
        self.over = True
        self.reading = False
        self.waiting.clear()

    def write(self, data: bytes, arrived_ns: int) -> None:
        """Write, or queue behind waiting pieces until it can be written."""
        if self.over:
            return
        if self.waiting:
            self.waiting.append((data, arrived_ns))
            return
        sent = self._send(memoryview(data))
        if sent == len(data):
            self._relay.notify(self.forth, data, arrived_ns, monotonic_ns())
        elif sent >= 0:
            self._wait(data, arrived_ns, sent)

    def readable(self) -> None:
        """Read the bytes that came, or record that the source has ended."""
        buffer = self.buffer
        try:
            size = self.source.recv_into(buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._source_ended(error)
            return
        arrived_ns = monotonic_ns()
        if not size:
            self._source_ended(None)
        elif self._through is not None:
            self._through.take(self._relay, self.forth, bytes(buffer[:size]), arrived_ns)
        else:
            sent = self._send(buffer[:size])
            if sent == size:
                passed_ns = monotonic_ns()
                self._relay.notify(self.forth, bytes(buffer[:size]), arrived_ns, passed_ns)
            elif sent >= 0:
                self._wait(bytes(buffer[:size]), arrived_ns, sent)

    def writable(self) -> None:
        """Write waiting pieces until the target is full."""
        while self.waiting:
            data, arrived_ns = self.waiting[0]
            sent = self._send(memoryview(data)[self._written :])
            if sent < 0:
                return
            self._written += sent
            if self._written < len(data):
                return
            passed_ns = monotonic_ns()
            self.waiting.popleft()
            self._written = 0
            self._relay.notify(self.forth, data, arrived_ns, passed_ns)
        if self.over:
            return
        self._relay.wants(self.target)
        if self._source_over:
            self._end()
        else:
            self._read(True)

    def _send(self, data: memoryview) -> int:
        """Send to the target, and return how many bytes it accepted; -1 if it is gone."""
        try:
            return self.target.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            self.stop()
            self._relay.wants(self.source)
            self._relay.wants(self.target)
            self._relay.target_gone(self, error)
            return -1

    def _wait(self, data: bytes, arrived_ns: int, written: int) -> None:
        self.waiting.append((data, arrived_ns))
        self._written = written
        self._relay.wants(self.target)
        if not self._source_over:
            self._read(False)

    def _source_ended(self, error: OSError | None) -> None:
        self._source_over = True
        self._error = error
        self._read(False)
        if self._through is not None:
            self._through.ended(self._relay, self.forth)
        if not self.waiting and not self.over:
            self._end()

    def _end(self) -> None:
        self.over = True
        self._relay.source_ended(self, self._error)

    def _read(self, wanted: bool) -> None:
        self.reading = wanted
        self._relay.wants(self.source)
