# SPDX-License-Identifier: Apache-2.0
"""Serve metrics and the agent's state over HTTP.

``/metrics`` is for Prometheus, ``/healthz`` and ``/readyz`` are for the kubelet. This is not
`http.server`, which has a thread for each connection: idle clients would exhaust them.
"""

from __future__ import annotations

import asyncio
from email import message_from_bytes
from http import HTTPStatus
from time import monotonic
from typing import cast

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

CONNECTIONS_MAX = 64
"""Maximum number of concurrent connections; a new one replaces the oldest."""
TIMEOUT_S = 10.0
"""Seconds for a request and its answer."""
HEAD_MAX = 16 << 10
"""Maximum number of bytes of a request."""
_TEXT = "text/plain; charset=utf-8"
STALE_S = 30.0
"""Seconds without an update of the metrics after which the agent is not healthy."""


class AgentState:
    """What the HTTP server answers, set by the thread that reads the recordings."""

    def __init__(self) -> None:
        self._updated = monotonic()
        self._problem = "the recordings have not been read yet"
        self._not_ready = self._problem

    def update(self, problem: str, not_ready: str) -> None:
        """Set why the recordings cannot be read, and why the recorder is not ready; "" for none."""
        if not problem:
            self._updated = monotonic()
        self._problem, self._not_ready = problem, not_ready

    @property
    def unhealthy(self) -> str:
        """Why the agent does not work; "" if it does."""
        age = monotonic() - self._updated
        why = f": {self._problem}" if self._problem else ""
        return f"the recordings were last read {age:.0f} s ago{why}" if age > STALE_S else ""

    @property
    def not_ready(self) -> str:
        """Why the recorder is not synchronised with the runtime; "" if it is."""
        return self.unhealthy or self._problem or self._not_ready


class HttpConnection(asyncio.Protocol):
    """One request for metrics or the state, and its answer. Bodies are not read."""

    is_idle = True
    is_overlong = False

    def __init__(self, registry: CollectorRegistry, state: AgentState) -> None:
        self._registry = registry
        self._state = state
        self._head = b""
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def protocol(self) -> HttpConnection:
        """The receiver of the data of the connection."""
        return self

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request."""
        # uvloop's transports are no subclass.
        self._transport = cast(asyncio.Transport, transport)
        self._timer = asyncio.get_running_loop().call_later(TIMEOUT_S, self._transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timeout."""
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Answer when the request's head is complete."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._head += data
        if b"\r\n\r\n" in self._head or len(self._head) > HEAD_MAX:
            status, kind, body = self._answer()
            head = (
                f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            )
            transport.write(head.encode("ascii") + (b"" if self._head[:5] == b"HEAD " else body))
            transport.close()

    def _answer(self) -> tuple[HTTPStatus, str, bytes]:
        line, _, rest = self._head.partition(b"\r\n")
        method, _, target = line.partition(b" ")
        path = target.partition(b" ")[0].partition(b"?")[0]
        if len(self._head) > HEAD_MAX:
            return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, _TEXT, b"too long\n"
        if method not in (b"GET", b"HEAD"):
            return HTTPStatus.METHOD_NOT_ALLOWED, _TEXT, b"only GET\n"
        if path == b"/metrics":
            accept = str(message_from_bytes(rest).get("Accept", ""))
            try:
                encode, kind = choose_encoder(accept)
            except (TypeError, ValueError):
                # choose_encoder expects versions to be numbers.
                encode, kind = choose_encoder("")
            return HTTPStatus.OK, kind, encode(self._registry)
        if path in (b"/healthz", b"/readyz"):
            state = self._state
            problem = state.unhealthy if path == b"/healthz" else state.not_ready
            status = HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK
            return status, _TEXT, f"{problem or 'ok'}\n".encode()
        return HTTPStatus.NOT_FOUND, _TEXT, b"not found\n"
