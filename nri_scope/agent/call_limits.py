# SPDX-License-Identifier: Apache-2.0
"""Limits of connections and calls, which grpclib lacks.

These are their number, the size of messages, the time of TLS handshakes and calls, unread data, and
temporary copies.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, cast

from grpclib.const import Status
from grpclib.events import RecvRequest, listen
from grpclib.exceptions import GRPCError, StreamTerminatedError
from grpclib.server import Server

from nri_scope.recording.temporary_files import temporary_bytes

from .node_recordings import NodeRecordings

UNREAD_S = 20.0
"""Seconds in which a client must read what was sent; then its connection is closed."""
HANDSHAKE_S = 10.0
_RETRY_S = 0.1

REQUEST_MAX = 64 << 10
"""Maximum number of bytes of a request. A cursor of 64 recordings has at most 16 kB."""
REQUEST_TIMEOUT_S = 10.0
"""Seconds in which a request must arrive after its call began."""
WAITING_MAX = 256
"""Maximum number of calls that wait for their requests; the oldest ones make room."""
CALLS_MAX = 64
"""Maximum number of concurrent calls of one method."""
STALL_S = 20.0
"""Seconds in which a client must accept a message."""


def limit_calls(server: Server) -> None:
    """Let a server refuse calls above the limits."""
    running: Counter[str] = Counter()
    waiting: dict[_Call, asyncio.Timeout] = {}

    async def on_request(event: RecvRequest) -> None:
        perform = event.method_func
        method = event.method_name

        async def limited(stream: Any) -> None:
            call = _Call(stream, method, running, waiting)
            stream.recv_message, stream.send_message = call.receive, call.send
            try:
                await perform(stream)
            finally:
                call.end()

        event.method_func = limited

    listen(server, RecvRequest, on_request)


class _Call:
    """Receives and sends the messages of one call."""

    def __init__(
        self,
        stream: Any,
        method: str,
        running: Counter[str],
        waiting: dict[_Call, asyncio.Timeout],
    ) -> None:
        self._receive, self._send = stream.recv_message, stream.send_message
        self._data = stream._stream
        self._method = method
        self._running = running
        self._waiting = waiting
        self._is_counted = False

    async def receive(self) -> Any:
        """Return the next message. Raises GRPCError."""
        original = self._data.recv_data
        self._data.recv_data = self._checked(original)
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S) as limit:
                self._wait(limit)
                message = await self._receive()
        except TimeoutError:
            text = f"no request within {REQUEST_TIMEOUT_S:g} s, or too many calls without one"
            raise GRPCError(Status.DEADLINE_EXCEEDED, text) from None
        except (GRPCError, StreamTerminatedError):
            raise
        except Exception as error:
            # grpclib and the decoder raise anything for malformed messages.
            raise GRPCError(Status.INVALID_ARGUMENT, "malformed request") from error
        finally:
            self._data.recv_data = original
            self._waiting.pop(self, None)
        if not self._is_counted:
            if message is None:
                raise GRPCError(Status.INVALID_ARGUMENT, "a call without a request")
            if self._running[self._method] >= CALLS_MAX:
                raise GRPCError(Status.RESOURCE_EXHAUSTED, f"more than {CALLS_MAX} such calls")
            self._running[self._method] += 1
            self._is_counted = True
        return message

    def _wait(self, limit: asyncio.Timeout) -> None:
        if len(self._waiting) >= WAITING_MAX:
            oldest = next(iter(self._waiting))
            self._waiting.pop(oldest).reschedule(0)
        self._waiting[self] = limit

    @staticmethod
    def _checked(recv_data: Any) -> Any:
        # Five bytes before the message: whether it is compressed, and its length.
        is_prefix = True

        async def receive(size: int) -> bytes:
            nonlocal is_prefix
            if size > REQUEST_MAX:
                text = f"a request of more than {REQUEST_MAX} bytes"
                raise GRPCError(Status.RESOURCE_EXHAUSTED, text)
            data: bytes = await recv_data(size)
            if is_prefix and data[:1] not in (b"", b"\0"):
                raise GRPCError(Status.UNIMPLEMENTED, "compressed requests are not supported")
            is_prefix = False
            return data

        return receive

    async def send(self, message: Any) -> None:
        """Send a message. Raises GRPCError if the client does not read."""
        try:
            async with asyncio.timeout(STALL_S):
                await self._send(message)
        except TimeoutError:
            text = f"the client did not read for {STALL_S:g} s"
            raise GRPCError(Status.UNAVAILABLE, text) from None

    def end(self) -> None:
        """Make room for another call."""
        if self._is_counted:
            self._running[self._method] -= 1


class Slots:
    """Number of threads that may do the same work, which can go on after their calls."""

    def __init__(self, most: int, what: str) -> None:
        self._slots = threading.BoundedSemaphore(most)
        self._problem = f"more than {most} {what}"

    def take(self) -> None:
        """Take a slot. Raises GRPCError (RESOURCE_EXHAUSTED) if there is none."""
        if not self._slots.acquire(blocking=False):
            raise GRPCError(Status.RESOURCE_EXHAUSTED, self._problem)

    def release(self, _: object = None) -> None:
        """Give a slot back."""
        self._slots.release()


COPIES_FACTOR = 2
"""Maximum size of all copies as a multiple of the size of all recordings."""
COPIES_ALWAYS = 128 << 20
"""Number of bytes that copies may have however small the recordings are."""


class Copies(threading.Semaphore):
    """Slots for calls that make temporary copies, and a limit of the size of all copies."""

    def __init__(self, most: int, recordings: NodeRecordings) -> None:
        super().__init__(most)
        self._recordings = recordings

    def check(self) -> None:
        """Raise GRPCError (RESOURCE_EXHAUSTED) if the copies of all calls are too large."""
        copied = temporary_bytes()
        if copied <= COPIES_ALWAYS:
            return
        if copied > COPIES_FACTOR * sum(one.size for one in self._recordings.all()):
            text = "temporary copies for all calls are too large; select less, or try again later"
            raise GRPCError(Status.RESOURCE_EXHAUSTED, text)


class Served(Protocol):
    """Protocol of one connection."""

    @property
    def is_idle(self) -> bool:
        """Whether it may be closed to make room."""
        ...

    @property
    def is_overlong(self) -> bool:
        """Whether it buffers more of a message than allowed."""
        ...

    @property
    def protocol(self) -> asyncio.Protocol:
        """What handles its data."""
        ...


class Listener:
    """Server socket. At its limit of connections, a new one replaces the oldest that is idle."""

    def __init__(
        self,
        listening: socket.socket,
        new: Callable[[], Served],
        most: int,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """``most``: number of connections. ``context``: for TLS."""
        listening.setblocking(False)
        self._listening = listening
        self._new = new
        self._most = most
        self._context = context
        self._connections: dict[_Connection, None] = {}
        """In the order of their beginnings."""

    async def serve(self) -> None:
        """Accept connections until it is cancelled; then all are closed."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    accepted, _ = await loop.sock_accept(self._listening)
                except OSError:
                    # Too many open files, or a client that went away.
                    await asyncio.sleep(_RETRY_S)
                    continue
                if self._has_room():
                    one = _Connection(self._new, self._forget)
                    self._connections[one] = None
                    one.start(accepted, self._context)
                else:
                    accepted.close()
        finally:
            self._listening.close()
            for one in list(self._connections):
                one.close()

    def _has_room(self) -> bool:
        if len(self._connections) < self._most:
            return True
        idle = next((one for one in self._connections if one.is_idle), None)
        if idle is None:
            return False
        self._forget(idle)
        idle.close()
        return True

    def _forget(self, one: _Connection) -> None:
        self._connections.pop(one, None)


class _Connection(asyncio.Protocol):
    """Passes data to a protocol, and reads nothing while the peer does not read."""

    def __init__(self, new: Callable[[], Served], on_end: Callable[[_Connection], None]) -> None:
        self._new = new
        self._served: Served | None = None
        """None until a TLS handshake is complete."""
        self._on_end = on_end
        self._transport: asyncio.Transport | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._beginning: asyncio.Task[None] | None = None

    def start(self, accepted: socket.socket, context: ssl.SSLContext | None) -> None:
        """Begin, in a task."""
        self._beginning = asyncio.create_task(self._begin(accepted, context))

    async def _begin(self, accepted: socket.socket, context: ssl.SSLContext | None) -> None:
        timeout = None if context is None else HANDSHAKE_S
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self, accepted, ssl=context, ssl_handshake_timeout=timeout
            )
        except (OSError, asyncio.CancelledError):
            # A failed handshake; ssl.SSLError is an OSError.
            with suppress(OSError):
                accepted.close()
            self._on_end(self)

    @property
    def is_idle(self) -> bool:
        return self._served is None or self._served.is_idle

    def close(self) -> None:
        """Close it at once."""
        if self._transport is not None:
            self._transport.abort()
        elif self._beginning is not None:
            self._beginning.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass.
        self._transport = cast(asyncio.Transport, transport)
        self._served = self._new()
        self._served.protocol.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        assert self._served is not None
        try:
            self._served.protocol.data_received(data)
            is_bad = self._served.is_overlong
        except Exception:  # noqa: BLE001 - h2 and grpclib raise anything for malformed frames
            is_bad = True
        if is_bad:
            self.close()

    def eof_received(self) -> bool | None:
        assert self._served is not None
        return self._served.protocol.eof_received()

    def pause_writing(self) -> None:
        assert self._transport is not None and self._served is not None
        self._served.protocol.pause_writing()
        # Otherwise answers, such as to pings, would be buffered without limit.
        self._transport.pause_reading()
        self._stalled = asyncio.get_running_loop().call_later(UNREAD_S, self.close)

    def resume_writing(self) -> None:
        assert self._transport is not None and self._served is not None
        self._not_stalled()
        self._transport.resume_reading()
        self._served.protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._not_stalled()
        if self._served is not None:
            self._served.protocol.connection_lost(exc)
        self._on_end(self)

    def _not_stalled(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
