# SPDX-License-Identifier: Apache-2.0
"""Relay between two sockets: bytes from each are written to the other, and reported to a listener.

Bytes are not changed, merged or delayed. A piece is written in the callback that received it, and
reported only afterwards. The relay behaves as if the peers were connected directly:

- if a peer does not read, its socket's buffer fills, and the other peer is no longer read; at most
  one piece is queued;
- a peer that only stops writing (``shutdown``) still receives data;
- if a peer is gone, the other's socket is closed after it has received all data, or after
  `LAST_S` seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic_ns
from typing import NamedTuple

from nri_scope.errors import reason_of

PIECE_MAX = 256 << 10
"""Maximum bytes per read: slightly more than a unix socket's default buffer."""

LAST_S = 5.0
"""Seconds in which a peer may receive queued data after the other peer has gone."""

_GONE = select.EPOLLHUP | select.EPOLLERR

OnPiece = Callable[[bool, bytes, int, int], None]
"""Callback for relayed bytes: the direction (True: from the first socket to the second), the bytes,
and the monotonic times (ns) when they arrived and when all were written to the other socket.
"""


class RelayEnd(NamedTuple):
    """The end of a relay, with its reason."""

    by_first: bool | None
    """Whether the first socket's peer ended the relay; None if `Relay.close` did."""
    reason: str
    """The system's error, or the reason for `Relay.close`; "" for a normal end."""


class Relay:
    """Relay between two connected stream sockets, which it closes at the end.

    If ``on_piece`` raises, ``on_failure`` gets the error; relaying continues without reports.
    """

    def __init__(
        self,
        first: socket.socket,
        second: socket.socket,
        on_piece: OnPiece,
        *,
        on_failure: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        """Start relaying in the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._closed: asyncio.Future[RelayEnd] = self._loop.create_future()
        self._on_piece: OnPiece | None = on_piece
        self._on_failure = on_failure
        self._end: RelayEnd | None = None
        self._last_timer: asyncio.TimerHandle | None = None
        self._sockets = (first, second)
        for sock in self._sockets:
            sock.setblocking(False)
            sock.set_inheritable(False)
        buffer = memoryview(bytearray(PIECE_MAX))
        self._forth = forth = _Direction(self, True, first, second, buffer)
        self._back = back = _Direction(self, False, second, first, buffer)
        self._directions = {first.fileno(): (forth, back), second.fileno(): (back, forth)}
        """By descriptor: the direction that reads from it, and the direction that writes to it."""
        # A separate epoll rather than two readers of the loop: the latter do not distinguish a
        # closed peer from one that has finished writing, and libuv stops polling a socket that was
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
        """Wait for the end of the relay and return it."""
        return await asyncio.shield(self._closed)

    def close(self, reason: str = "closed here") -> None:
        """Close both sockets immediately."""
        self._end = self._end or RelayEnd(None, reason)
        self._finish()

    def notify(self, forth: bool, data: bytes, arrived_ns: int, passed_ns: int) -> None:
        """Report relayed bytes to the listener."""
        if self._on_piece is None:
            return
        try:
            self._on_piece(forth, data, arrived_ns, passed_ns)
        except Exception as error:  # noqa: BLE001 - a peer's data must not end the relay
            self._on_piece = None
            with contextlib.suppress(Exception):
                self._on_failure(error)

    # -- callbacks of a direction -------------------------------------------------------------

    def source_ended(self, direction: _Direction, error: OSError | None) -> None:
        """Record that the source has ended and that all its bytes were passed on."""
        self._set_end(direction.forth, error)
        with contextlib.suppress(OSError):
            direction.target.shutdown(socket.SHUT_WR)
        # A source that is gone, rather than just finished writing, is detected in `_ready`.
        if error is not None or (self._forth.is_over and self._back.is_over):
            self._finish()

    def target_gone(self, direction: _Direction, error: OSError) -> None:
        """Record that the target cannot be written to; bytes it sent before may still arrive."""
        self._set_end(not direction.forth, None if isinstance(error, BrokenPipeError) else error)
        with contextlib.suppress(OSError):
            # The source notices when it writes again, as it would without a relay.
            direction.source.shutdown(socket.SHUT_RD)
        if self._forth.is_over and self._back.is_over:
            self._finish()

    def update_polling(self, sock: socket.socket) -> None:
        """Poll the socket only for the events needed now: readable, writable, or neither."""
        incoming, outgoing = self._directions[sock.fileno()]
        events = (select.EPOLLIN if incoming.is_reading else 0) | (
            select.EPOLLOUT if outgoing.queued else 0
        )
        try:
            self._epoll.modify(sock, events)
        except FileNotFoundError:
            self._epoll.register(sock, events)

    def _ready(self) -> None:
        for descriptor, events in self._epoll.poll(0, 2):
            if self.closed:
                return
            incoming, outgoing = self._directions[descriptor]
            if outgoing.queued:
                outgoing.on_writable()
            if incoming.is_reading:
                incoming.on_readable()
            elif events & _GONE and not self.closed:
                if incoming.is_over:
                    # This peer can no longer be written to, and all its bytes were passed on.
                    self._set_end(incoming.forth, None)
                    self._finish()
                elif not outgoing.queued:
                    # The peer is gone, but its last bytes are queued for the other one. The system
                    # would report its end repeatedly, regardless of the requested events.
                    self._epoll.unregister(descriptor)
                    self._last_timer = self._last_timer or self._loop.call_later(
                        LAST_S, self._give_up, incoming.forth
                    )

    def _give_up(self, by_first: bool) -> None:
        """End the relay, as one peer has gone and the other does not receive the last data."""
        self._set_end(by_first, None)
        self._finish()

    def _set_end(self, by_first: bool, error: OSError | None) -> None:
        reason = "" if error is None else reason_of(error)
        self._end = self._end or RelayEnd(by_first, reason)

    def _finish(self) -> None:
        if self.closed:
            return
        self._forth.stop()
        self._back.stop()
        if self._last_timer is not None:
            self._last_timer.cancel()
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()
        for sock in self._sockets:
            sock.close()
        # Free the buffer now: the directions themselves may wait for the garbage collector.
        self._forth.buffer = self._back.buffer = memoryview(b"")
        self._closed.set_result(self._end or RelayEnd(None, ""))


@dataclass(slots=True, eq=False)
class _Direction:
    """One direction of a relay: reads from the source and writes to the target."""

    relay: Relay
    forth: bool
    source: socket.socket
    target: socket.socket
    buffer: memoryview
    """Buffer for reading, shared by both directions."""
    is_reading: bool = True
    """Whether the source is polled for data."""
    queued: tuple[bytes, int] | None = None
    """Piece that the target has not accepted yet, with its time of arrival."""
    is_over: bool = False
    """Whether no more bytes will be passed on in this direction."""
    _written: int = 0
    """Bytes of the queued piece that the target has accepted."""
    _has_source_ended: bool = False
    _error: OSError | None = None

    def stop(self) -> None:
        """Stop reading and writing."""
        self.is_over = True
        self.is_reading = False
        self.queued = None

    def on_readable(self) -> None:
        """Read and relay bytes, or record that the source has ended."""
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
        else:
            sent = self._send(buffer[:size])
            if sent == size:
                passed_ns = monotonic_ns()
                self.relay.notify(self.forth, bytes(buffer[:size]), arrived_ns, passed_ns)
            elif sent >= 0:
                self._enqueue(bytes(buffer[:size]), arrived_ns, sent)

    def on_writable(self) -> None:
        """Write the queued piece, or as much of it as the target accepts."""
        assert self.queued is not None
        data, arrived_ns = self.queued
        sent = self._send(memoryview(data)[self._written :])
        if sent < 0:
            return
        self._written += sent
        if self._written < len(data):
            return
        passed_ns = monotonic_ns()
        self.queued = None
        self.relay.notify(self.forth, data, arrived_ns, passed_ns)
        if self.is_over:
            return
        self.relay.update_polling(self.target)
        if self._has_source_ended:
            self._end()
        else:
            self._set_reading(True)

    def _send(self, data: memoryview) -> int:
        """Send to the target; return the number of bytes accepted, or -1 if the target is gone."""
        try:
            return self.target.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            self.stop()
            self.relay.update_polling(self.source)
            self.relay.update_polling(self.target)
            self.relay.target_gone(self, error)
            return -1

    def _enqueue(self, data: bytes, arrived_ns: int, written: int) -> None:
        self.queued = data, arrived_ns
        self._written = written
        self.relay.update_polling(self.target)
        if not self._has_source_ended:
            self._set_reading(False)

    def _source_ended(self, error: OSError | None) -> None:
        self._has_source_ended = True
        self._error = error
        self._set_reading(False)
        if not self.queued and not self.is_over:
            self._end()

    def _end(self) -> None:
        self.is_over = True
        self.relay.source_ended(self, self._error)

    def _set_reading(self, is_reading: bool) -> None:
        self.is_reading = is_reading
        self.relay.update_polling(self.source)
