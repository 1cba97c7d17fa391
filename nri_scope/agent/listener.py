# SPDX-License-Identifier: Apache-2.0
"""Server sockets with limits: number of connections, time of TLS handshakes, unread data."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, cast

UNREAD_S = 20.0
"""Seconds in which a client must read what was sent; then its connection is closed."""
HANDSHAKE_S = 10.0
_RETRY_S = 0.1


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
        """Receiver of the data of the connection."""
        ...


class Listener:
    """Server socket. At its limit, a new connection replaces the oldest idle connection."""

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
        self._connections: dict[_CountedConnection, None] = {}
        """In the order in which they were accepted."""

    async def serve(self) -> None:
        """Accept connections until cancelled, then close all of them."""
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
                    connection = _CountedConnection(self._new, self._forget)
                    self._connections[connection] = None
                    connection.start(accepted, self._context)
                else:
                    accepted.close()
        finally:
            self._listening.close()
            for connection in list(self._connections):
                connection.close()

    def _has_room(self) -> bool:
        if len(self._connections) < self._most:
            return True
        idle = next((known for known in self._connections if known.is_idle), None)
        if idle is None:
            return False
        self._forget(idle)
        idle.close()
        return True

    def _forget(self, connection: _CountedConnection) -> None:
        self._connections.pop(connection, None)


class _CountedConnection(asyncio.Protocol):
    """Passes data to a protocol, and reads nothing while the peer does not read."""

    def __init__(
        self, new: Callable[[], Served], on_end: Callable[[_CountedConnection], None]
    ) -> None:
        self._new = new
        self._served: Served | None = None
        """None until a TLS handshake is complete."""
        self._on_end = on_end
        self._transport: asyncio.Transport | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._beginning: asyncio.Task[None] | None = None

    def start(self, accepted: socket.socket, context: ssl.SSLContext | None) -> None:
        """Start the TLS handshake, if there is one, and serve the connection, in a task."""
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
        """Close the connection at once."""
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
