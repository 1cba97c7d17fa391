# SPDX-License-Identifier: Apache-2.0
"""End the connection of a validator without failing the creation of a container.

NRI 0.10 to 0.12.4 removes a closed connection at the end of the next event, or once another plugin
is synchronized (``removeClosedPlugins`` in ``pkg/adaptation``). A creation before that asks the
validator, although it is gone, and fails. So another, passive connection registers, and the
validator's is closed before the reply to its Synchronize, for which runtimes delay all events.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from nri_scope.errors import NriScopeError
from nri_scope.nri.events import SYNCHRONIZE, EventKind
from nri_scope.nri.no_change import no_change
from nri_scope.nri.runtime_setup import ConfigureRequest, parse_state_part
from nri_scope.nri.versions import asks_closed_validators
from nri_scope.wire import RequestReceived

from .session import (
    AnswerLater,
    Connect,
    HandledCall,
    Identity,
    PluginSession,
    SessionEnd,
    UnixSocket,
)

CONFIGURE_S = 6.0
"""Maximum seconds until Configure. A runtime waits up to 5 s for each plugin that connected before.
"""
SYNCHRONIZE_S = 0.5
"""Maximum seconds from Configure to Synchronize. containerd ends all CRI requests in progress
before it, and begins no other. A StopContainer takes as long as its container: if that is ours, it
waits for our end.
"""
CLOSED_S = 0.5
"""Maximum seconds until the runtime has closed its end of the validator's connection."""
NOTICED_S = 0.05
"""Seconds after that: a Go runtime marks the plugin as closed shortly after it closed the socket.
"""
SETTLED_S = 0.25
"""Seconds from the reply to Synchronize until the passive connection is closed: if it is closed
before a Go runtime has read the reply, the reply may be lost.
"""


class _PassivePlugin:
    """Plugin that subscribes to one harmless event, and awaits ``close`` in its Synchronize."""

    def __init__(self, close: Callable[[], Awaitable[None]]) -> None:
        self._close = close
        self._reply: asyncio.Future[bytes] | None = None
        """Reply to the last part of Synchronize."""
        self.on_configured: Callable[[], None] = lambda: None
        self.on_synchronized: Callable[[], None] = lambda: None

    def configure(self, request: ConfigureRequest) -> int:
        self.on_configured()
        return EventKind.RemovePodSandbox.bit

    def answer(self, request: RequestReceived) -> bytes:
        reply = no_change(request.method, request.payload, request.service)
        part = parse_state_part(request.payload) if request.method == SYNCHRONIZE else None
        if part is not None and not part.more:
            if self._reply is None:
                self._reply = asyncio.ensure_future(self._closed(reply))
            if not self._reply.done():
                raise AnswerLater(self._reply)
        return reply

    def answered(self, exchange: HandledCall) -> None:
        if self._reply is not None and self._reply.done():
            self.on_synchronized()

    def noticed(self, text: str) -> None:
        """Ignore protocol violations."""

    async def _closed(self, reply: bytes) -> bytes:
        await self._close()
        return reply


async def _noticed() -> None:
    await asyncio.sleep(NOTICED_S)


async def deregister(
    connect: Connect, identity: Identity, close: Callable[[], Awaitable[None]] = _noticed
) -> str:
    """Register a passive plugin and end it, so that the runtime removes closed connections.

    ``close`` is awaited at the moment to close one, and until the runtime has noticed that. Return
    why the runtime may not have removed them; "" if it has. Never raises `NriScopeError`.
    """
    loop = asyncio.get_running_loop()
    plugin = _PassivePlugin(close)
    session = PluginSession(identity, plugin)
    synchronized = False
    try:
        async with asyncio.timeout(CONFIGURE_S) as limit:

            def settle() -> None:
                nonlocal synchronized
                synchronized = True
                limit.reschedule(None)
                loop.call_later(SETTLED_S, session.close, "deregistered")

            plugin.on_configured = lambda: limit.reschedule(loop.time() + SYNCHRONIZE_S)
            plugin.on_synchronized = settle
            end = await session.run(connect)
    except TimeoutError:
        return "the runtime has not synchronized another connection yet"
    except NriScopeError as error:
        return str(error)
    return "" if synchronized else end.reason


class ValidatorSession(PluginSession):
    """A session that is deregistered, if it is a validator's, when it is closed."""

    _connect: Connect | None = None
    _leaving: asyncio.Task[str] | None = None

    async def run(self, connect: Connect, *, require_configure: bool = False) -> SessionEnd:
        """See `PluginSession.run`; then await `left`, before the event loop ends."""
        self._connect = connect
        return await super().run(connect, require_configure=require_configure)

    def close(self, reason: str) -> None:
        """Close the connection after pending replies; if called again, without delay."""
        if (
            self._leaving is None
            and isinstance(self._connect, UnixSocket)
            and self.synchronized
            and self.mask & EventKind.ValidateContainerAdjustment.bit
            and asks_closed_validators(self.nri_version)
        ):
            self._leaving = asyncio.create_task(self._leave(self._connect, reason))
        else:
            super().close(reason)

    @property
    def open(self) -> bool:
        """Whether the link is open, or the runtime has not removed it yet."""
        return super().open or (self._leaving is not None and not self._leaving.done())

    async def left(self) -> str:
        """Wait until the runtime has removed a closed validator.

        Return a warning if it may not have; "" otherwise.
        """
        problem = await self._leaving if self._leaving is not None else ""
        return f"the next creation of a container may fail once: {problem}" if problem else ""

    async def _leave(self, connect: UnixSocket, reason: str) -> str:
        try:
            return await deregister(connect, self.identity, lambda: self._finish(reason))
        finally:
            super().close(reason)

    async def _finish(self, reason: str) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSED_S):
                await self.finish(reason)
        await _noticed()
