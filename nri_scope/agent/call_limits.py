# SPDX-License-Identifier: Apache-2.0
"""Limits of calls, which grpclib lacks: number, size of messages, time, and temporary copies; and
who may call.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

from grpclib.const import Status
from grpclib.events import RecvRequest, listen
from grpclib.exceptions import GRPCError, StreamTerminatedError
from grpclib.server import Server

from nri_scope.recording.file.temporary_files import temporary_bytes

from .authorization import SERVICE, Authorizer, Caller
from .node_recordings import NodeRecordings

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


def limit_calls(server: Server, authorizer: Authorizer | None) -> None:
    """Let a server refuse calls above the limits, and those that ``authorizer`` refuses."""
    running: Counter[str] = Counter()
    waiting: dict[_Call, asyncio.Timeout] = {}

    async def on_request(event: RecvRequest) -> None:
        perform = event.method_func
        method = event.method_name
        caller = None
        if authorizer is not None and method.startswith(SERVICE):
            caller = Caller(authorizer, event)

        async def limited(stream: Any) -> None:
            call = _Call(stream, method, running, waiting, caller)
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
        caller: Caller | None,
    ) -> None:
        self._receive, self._send = stream.recv_message, stream.send_message
        self._data = stream._stream
        self._method = method
        self._running = running
        self._waiting = waiting
        self._caller = caller
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
            if self._caller is not None:
                await self._caller.begin(message)
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
        """Send a message. Raises GRPCError if the client does not read, or may no longer."""
        if self._caller is not None:
            await self._caller.go_on()
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
    """Limit of the threads that do the same work, which can go on after their calls."""

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


class CopyLimit:
    """Limit of the calls that make temporary copies, and of the size of all copies."""

    def __init__(self, most: int, recordings: NodeRecordings) -> None:
        self.calls = threading.Semaphore(most)
        """Acquire it before copying, and release it after the copy was made."""
        self._recordings = recordings

    def check(self) -> None:
        """Raise GRPCError (RESOURCE_EXHAUSTED) if the copies of all calls are too large."""
        copied = temporary_bytes()
        if copied <= COPIES_ALWAYS:
            return
        if copied > COPIES_FACTOR * sum(file.size for file in self._recordings.all()):
            text = "temporary copies for all calls are too large; select less, or try again later"
            raise GRPCError(Status.RESOURCE_EXHAUSTED, text)
