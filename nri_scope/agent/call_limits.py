# SPDX-License-Identifier: Apache-2.0
"""Limits of calls, which grpclib lacks: the size of requests, their time, and their number."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from grpclib.const import Status
from grpclib.events import RecvRequest, listen
from grpclib.exceptions import GRPCError
from grpclib.server import Server

REQUEST_MAX = 64 << 10
"""Maximum number of bytes of a request. A cursor of 64 recordings has at most 11 kB."""
REQUEST_TIMEOUT_S = 10.0
"""Seconds in which a request must arrive after its call began."""
CALLS_MAX = 256
"""Maximum number of concurrent calls of all clients."""
_PREFIX = 5
"""Bytes before a message: whether it is compressed, and its length."""


def limit_calls(server: Server) -> None:
    """Let a server refuse calls above the limits with RESOURCE_EXHAUSTED."""
    running = 0

    async def on_request(event: RecvRequest) -> None:
        perform: Callable[[Any], Any] = event.method_func

        async def limited(stream: Any) -> None:
            nonlocal running
            if running >= CALLS_MAX:
                raise GRPCError(Status.RESOURCE_EXHAUSTED, f"more than {CALLS_MAX} calls")
            running += 1
            try:
                stream.recv_message = _Receiver(stream).receive
                await perform(stream)
            finally:
                running -= 1

        event.method_func = limited

    listen(server, RecvRequest, on_request)


class _Receiver:
    """Receives the messages of one call, of limited size and within a limited time."""

    def __init__(self, stream: Any) -> None:
        self._receive = stream.recv_message
        self._data = stream._stream

    async def receive(self) -> Any:
        original = self._data.recv_data

        async def recv_data(size: int) -> bytes:
            if size > REQUEST_MAX:
                raise GRPCError(
                    Status.RESOURCE_EXHAUSTED, f"a request of more than {REQUEST_MAX} bytes"
                )
            data: bytes = await original(size)
            return data

        self._data.recv_data = recv_data
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                return await self._receive()
        except TimeoutError:
            raise GRPCError(
                Status.DEADLINE_EXCEEDED, f"no request within {REQUEST_TIMEOUT_S:g} s"
            ) from None
        finally:
            self._data.recv_data = original


class CallSlots:
    """Number of calls of one kind that may run at the same time."""

    def __init__(self, most: int, what: str) -> None:
        self._most = most
        self._what = what
        self._running = 0

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Hold a slot in the block. Raises GRPCError (RESOURCE_EXHAUSTED) if there is none."""
        if self._running >= self._most:
            raise GRPCError(Status.RESOURCE_EXHAUSTED, f"more than {self._most} {self._what}")
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
