# SPDX-License-Identifier: Apache-2.0
"""The runtime of a session, as an object for handlers."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import ParamSpec

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import ConnectionClosed, NriScopeError, UsageError
from nri_scope.nri.runtime_setup import Introduction

from .request import unanswered
from .session import PluginSession
from .timers import Timer, Timers
from .update import Eviction, Update

P = ParamSpec("P")

UPDATE_TIMEOUT = 30.0
"""Seconds to wait for the reply to UpdateContainers: the runtime first finishes other events."""

log = logging.getLogger("nri_scope.plugin")


class RuntimeHandle:
    """Runtime of one session, as passed to `configure`; unusable after the session."""

    def __init__(self, session: PluginSession, introduction: Introduction) -> None:
        self._session = session
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers = Timers(session)
        self.name = introduction.runtime_name
        """The runtime's own name; iSulad's is ``v2``."""
        self.version = introduction.runtime_version
        self.nri_version = "" if introduction.version is None else str(introduction.version)
        """NRI version, received or inferred; "" if unknown."""
        self.request_timeout = introduction.request_timeout_ms / 1000
        """Deadline of requests in seconds; 0 if the runtime does not send it. See `time_left`."""

    async def update_containers(
        self, updates: Iterable[Update], evictions: Iterable[Eviction] = ()
    ) -> list[str]:
        """Request changes outside of an event; return the ids of containers for which it failed.

        For the plugin's own tasks. Handlers return their updates instead: the runtime accepts no
        request while it waits for a handler, so the two would wait for each other until the runtime
        disconnects the plugin. Awaited in a handler, it raises `UsageError`. Also raises
        `ConnectionClosed`, `RpcError` and `DeadlineExceeded`.
        """
        request = unanswered()
        if request is not None:
            raise UsageError(
                f"update_containers called in {request.handler} would deadlock",
                "return the updates, or use update_soon",
            )
        return await self._send(_request(updates, evictions))

    def update_soon(self, updates: Iterable[Update], evictions: Iterable[Eviction] = ()) -> None:
        """Request changes without waiting, from any handler, task or thread.

        Nothing is sent without updates and evictions. Failures are logged. Raises
        `ConnectionClosed` only after the event loop has ended.
        """
        request = _request(updates, evictions)
        if not (request.update or request.evict):
            return
        # Use a new context: the current one may be a handler's.
        context = contextvars.Context()
        try:
            self._loop.call_soon_threadsafe(self._start, request, context=context)
        except RuntimeError as error:
            raise ConnectionClosed("the plugin's event loop has ended") from error

    def call_later(
        self, delay: float, callback: Callable[P, object], *args: P.args, **kwargs: P.kwargs
    ) -> Timer:
        """Call ``callback``, a function or a coroutine function, in ``delay`` seconds.

        In a replay, these are seconds of the recording: the call is made before the first event
        that was recorded at that time or later, and the replay waits for it and its updates.
        Otherwise it is the event loop's clock. Call it in the event loop's thread. At the end of
        the session, pending calls are cancelled, so set timers again in `synchronize`. Exceptions
        are logged. Raises `ConnectionClosed` after the session.
        """
        return self._timers.start(delay, partial(callback, *args, **kwargs))

    async def fire(self, number: int) -> None:
        """Run a timer's callback in a replay, and wait for the updates that it requested."""
        try:
            await self._timers.fire(number)
        finally:
            # `update_soon` starts its task in the next iteration of the event loop.
            await asyncio.sleep(0)
            while self._tasks:
                await asyncio.wait(self._tasks)

    def _start(self, request: api.UpdateContainersRequest) -> None:
        task = self._loop.create_task(self._send_and_log(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_and_log(self, request: api.UpdateContainersRequest) -> None:
        try:
            failed = await self._send(request)
        except NriScopeError as error:
            log.error("update_containers: %s", error)
        else:
            for container_id in failed:
                log.error("update_containers: failed for container %s", container_id)

    async def _send(self, request: api.UpdateContainersRequest) -> list[str]:
        reply = await self._session.update_containers(request, UPDATE_TIMEOUT)
        return [update.container_id for update in reply.failed]

    def end(self) -> None:
        """Cancel pending requests and timers at the end of the session."""
        self._timers.end()
        for task in self._tasks:
            task.cancel()


def _request(
    updates: Iterable[Update], evictions: Iterable[Eviction]
) -> api.UpdateContainersRequest:
    return api.UpdateContainersRequest(
        update=[one.message for one in updates], evict=[one.message for one in evictions]
    )
