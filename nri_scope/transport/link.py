# SPDX-License-Identifier: Apache-2.0
"""The asyncio protocol for either end of an NRI connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import cast

from nri_scope.end_reasons import closed_by, protocol_error
from nri_scope.errors import ConnectionClosed, DeadlineExceeded, ProtocolViolated, RpcError
from nri_scope.wire import (
    Connection,
    ConnectionFailed,
    FrameIgnored,
    MessageIgnored,
    MessageRejected,
    PeerClosed,
    RequestReceived,
    ResponseReceived,
)

UNSENT_MAX = 16 << 20
"""Bytes of unsent responses above which the peer's requests are no longer read.

Far more than a peer that waits for responses can cause: with a small limit, two ends that both stop
reading would wait for each other forever.
"""

Notice = FrameIgnored | MessageIgnored | MessageRejected
"""A protocol violation by the peer that does not end the connection."""

RequestHandler = Callable[["Link", RequestReceived, int], None]
"""Callback for a request: the link, the request, and the monotonic time (ns) when its last byte
arrived.

It runs inside the socket's read callback, so its duration delays the response.
"""


class Link(asyncio.Protocol):
    """Asyncio shell around a `Connection` that only moves bytes and waits for responses."""

    def __init__(
        self,
        connection: Connection,
        on_request: RequestHandler,
        on_notice: Callable[[Notice], None] = lambda notice: None,
        peer: str = "the peer",
    ) -> None:
        """Wrap ``connection``. ``peer``: its name in the reason for the end of the connection."""
        self._connection = connection
        self._peer = peer
        self._ended: type[ConnectionClosed] = ConnectionClosed
        """The error of calls after the end of the connection."""
        self._on_request = on_request
        self._on_notice = on_notice
        self._transport: asyncio.Transport | None = None
        self._calls: dict[int, asyncio.Future[bytes]] = {}
        self._closed = asyncio.get_running_loop().create_future()
        self._reason = ""
        self._finished = False

    # -- asyncio.Protocol -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport and set its write buffer limit."""
        # Not an assertion: uvloop's transports do not derive from asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=UNSENT_MAX)

    def data_received(self, data: bytes) -> None:
        """Pass requests to the callback, and wake the callers whose responses arrived."""
        arrived_ns = monotonic_ns()
        self._connection.receive_data(data)
        self._handle_events(arrived_ns)

    def eof_received(self) -> None:
        """Record that the peer has closed its end; asyncio then closes this end."""
        self._connection.receive_eof()
        self._handle_events(monotonic_ns())

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all pending calls."""
        self._connection.receive_eof()
        self._handle_events(monotonic_ns())
        if exc is not None and not self._reason:
            self._reason = f"connection lost: {exc}"
        reason = self._reason or "connection closed"
        for future in self._calls.values():
            if not future.done():
                future.set_exception(self._ended(reason))
        self._calls.clear()
        if not self._closed.done():
            self._closed.set_result(reason)

    def pause_writing(self) -> None:
        """Stop reading requests while the peer does not read responses."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Continue reading requests."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    # -- public methods ---------------------------------------------------------------------

    def respond(self, stream_id: int, payload: bytes = b"") -> None:
        """Answer a request. The response is written at once unless the socket's buffer is full."""
        self._connection.send_response(stream_id, payload)
        self._flush()

    def respond_error(self, stream_id: int, code: int, message: str) -> None:
        """Answer a request with an error status."""
        self._connection.send_error(stream_id, code, message)
        self._flush()

    async def call(
        self,
        service: str,
        method: str,
        payload: bytes,
        *,
        timeout: float | None = None,
        metadata: Sequence[tuple[str, str]] = (),
        on_sent: Callable[[], None] | None = None,
    ) -> bytes:
        """Call the peer and return the reply's payload.

        ``timeout``, in seconds, is also sent to the peer. ``on_sent`` is called after the request
        was written, while the peer works on its reply. Raises `RpcError` for an error status,
        `DeadlineExceeded` or `ConnectionClosed`.
        """
        stream_id, future = self.begin_call(
            service, method, payload, timeout=timeout, metadata=metadata
        )
        loop = future.get_loop()
        # Much cheaper than asyncio.timeout, which matters because every event has a deadline.
        timer = (
            None if timeout is None else loop.call_later(timeout, _expire, future, method, timeout)
        )
        try:
            if on_sent is not None:
                on_sent()
            return await future
        finally:
            if timer is not None:
                timer.cancel()
            self._calls.pop(stream_id, None)
            self._connection.forget_request(stream_id)

    def begin_call(
        self,
        service: str,
        method: str,
        payload: bytes,
        *,
        timeout: float | None = None,
        metadata: Sequence[tuple[str, str]] = (),
    ) -> tuple[int, asyncio.Future[bytes]]:
        """Send a request; return its stream id and the future of the reply's payload.

        Raises `ConnectionClosed`. The future gets the exceptions of `call`, except for a deadline,
        which is only sent.
        """
        if self.closed:
            raise self._ended(self._reason or "connection closed")
        stream_id = self._connection.send_request(
            service, method, payload, timeout_ns=round((timeout or 0) * 1e9), metadata=metadata
        )
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._calls[stream_id] = future
        self._flush()
        return stream_id, future

    @property
    def closed(self) -> bool:
        """Whether the link is closed or closing, so that nothing can be sent."""
        return self._transport is None or self._finished or self._transport.is_closing()

    def close(self, reason: str = "closed by us") -> None:
        """Close once all queued bytes are written."""
        if self._transport is not None and not self._transport.is_closing():
            self._reason = self._reason or reason
            self._transport.close()

    def finish(self, reason: str) -> None:
        """Close our end once all queued bytes are written; the peer then closes its end."""
        if self._transport is not None and not self.closed:
            self._reason = self._reason or reason
            self._finished = True
            self._transport.write_eof()

    def abort(self, reason: str = "closed by us") -> None:
        """Close immediately; queued bytes are lost."""
        if self._transport is not None:
            self._reason = self._reason or reason
            self._transport.abort()

    async def wait_closed(self) -> str:
        """Wait for the end of the connection and return its reason."""
        return await asyncio.shield(self._closed)

    # -- internal ---------------------------------------------------------------------------

    def _flush(self) -> None:
        data = self._connection.data_to_send()
        if data and self._transport is not None:
            self._transport.write(data[0] if len(data) == 1 else b"".join(data))

    def _handle_events(self, arrived_ns: int) -> None:
        for event in self._connection.events_received():
            match event:
                case RequestReceived():
                    if not self.closed:
                        self._on_request(self, event, arrived_ns)
                case ResponseReceived(stream_id, code, message, payload):
                    future = self._calls.pop(stream_id, None)
                    if future is None or future.done():
                        continue
                    if code:
                        future.set_exception(RpcError(code, message))
                    else:
                        future.set_result(payload)
                case ConnectionFailed(error):
                    self._ended = ConnectionClosed if self._reason else ProtocolViolated
                    self.abort(protocol_error(self._peer, str(error)))
                case PeerClosed(mid_message):
                    self._reason = self._reason or closed_by(self._peer, in_message=mid_message)
                case _:
                    self._on_notice(event)
        self._flush()


def _expire(future: asyncio.Future[bytes], method: str, timeout: float) -> None:
    if not future.done():
        future.set_exception(DeadlineExceeded(method, timeout))
