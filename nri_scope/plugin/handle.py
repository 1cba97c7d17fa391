# SPDX-License-Identifier: Apache-2.0
"""The runtime of a session, as an object for handlers, with the running request and timers."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import math
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from time import monotonic_ns
from typing import ParamSpec

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import ConnectionClosed, NriScopeError, RpcError, UsageError
from nri_scope.nri import recording_clock
from nri_scope.nri.runtime_setup import Introduction
from nri_scope.wire import Code

from .resources import Eviction, Update
from .session import PluginSession

log = logging.getLogger("nri_scope.plugin")


def log_failure(where: str, error: Exception) -> None:
    """Log an exception as one line, and at level DEBUG with its traceback."""
    log.error("%s: %s", where, words_of(error))
    log.debug("%s", where, exc_info=error)


def words_of(error: Exception) -> str:
    """Return the text of an exception for a log or an error status."""
    if isinstance(error, RpcError):
        return error.message
    # Errors of nri-scope are sentences; other errors need their type.
    return str(error) if isinstance(error, NriScopeError) else f"{type(error).__name__}: {error}"


class Request:
    """One request to a handler."""

    def __init__(self, handler: str, subject: str, timeout_ns: int) -> None:
        self.handler = handler
        self.subject = subject
        """``namespace/pod/container``; parts that the request lacks are omitted."""
        self.answered = False
        self._deadline_ns = monotonic_ns() + timeout_ns if timeout_ns else None

    def __str__(self) -> str:
        return f"{self.handler} {self.subject}".rstrip()

    @property
    def time_left(self) -> float | None:
        """Seconds until the deadline, negative after it; None without a deadline."""
        if self._deadline_ns is None:
            return None
        return (self._deadline_ns - monotonic_ns()) / 1e9


CURRENT: ContextVar[Request | None] = ContextVar("nri_scope_plugin_request", default=None)


def unanswered() -> Request | None:
    """Return the unanswered request of the running handler; also in tasks that it started."""
    request = CURRENT.get()
    return None if request is None or request.answered else request


def time_left() -> float | None:
    """Return the seconds until the running handler's deadline; None without handler or deadline.

    A runtime disconnects a plugin that misses the deadline, and continues without it.
    """
    request = unanswered()
    return None if request is None else request.time_left


@dataclass(eq=False)
class Timer:
    """A scheduled call, returned by `RuntimeHandle.call_later`."""

    _timers: Timers
    _number: int
    _callback: Callable[[], object]
    _context: contextvars.Context = field(default_factory=contextvars.copy_context)
    _scheduled: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        """Cancel the call; does nothing once it has begun, or the session has ended."""
        self._timers.cancel(self)


class Timers:
    """Timers of one session: on the event loop's clock or, in a replay, on the recording's."""

    def __init__(self, session: PluginSession) -> None:
        self._session = session
        self._loop = asyncio.get_running_loop()
        self._pending: dict[int, Timer] = {}
        self._last = 0
        self._ended = False
        self._running: set[asyncio.Task[None]] = set()

    def start(self, delay: float, callback: Callable[[], object]) -> Timer:
        """Start a timer of ``delay`` seconds."""
        if self._ended:
            raise ConnectionClosed("the session has ended")
        if not math.isfinite(delay):
            raise UsageError(f"call_later: {delay} is not a number of seconds")
        self._last += 1
        timer = Timer(self, self._last, callback)
        self._pending[timer._number] = timer
        if self._session.has_recording_clock:
            self._tell(recording_clock.START, timer, max(0, round(delay * 1e9)))
        else:
            timer._scheduled = self._loop.call_later(delay, self._start_run, timer)
        return timer

    def cancel(self, timer: Timer) -> None:
        """See `Timer.cancel`."""
        if self._pending.pop(timer._number, None) is None:
            return
        if timer._scheduled is None:
            self._tell(recording_clock.CANCEL, timer)
        else:
            timer._scheduled.cancel()

    async def fire(self, number: int) -> None:
        """Run the callback of a timer on the recording's clock. Raises `RpcError` if it raises."""
        timer = self._pending.pop(number, None)
        if timer is None:
            return
        task = self._start_task(timer)
        await task

    def end(self) -> None:
        """Cancel all timers at the end of the session."""
        self._ended = True
        for timer in self._pending.values():
            if timer._scheduled is not None:
                timer._scheduled.cancel()
        self._pending.clear()
        for task in self._running:
            task.cancel()

    def _tell(self, method: str, timer: Timer, delay_ns: int = 0) -> None:
        payload = recording_clock.pack(timer._number, delay_ns)
        self._session.begin_call(recording_clock.SERVICE, method, payload)

    def _start_run(self, timer: Timer) -> None:
        del self._pending[timer._number]
        # Retrieve the exception, which is logged.
        self._start_task(timer).add_done_callback(lambda task: task.cancelled() or task.exception())

    def _start_task(self, timer: Timer) -> asyncio.Task[None]:
        task = self._loop.create_task(_run(timer._callback), context=timer._context)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task


async def _run(callback: Callable[[], object]) -> None:
    try:
        value = callback()
        if inspect.isawaitable(value):
            await value
    except Exception as error:  # noqa: BLE001 - any error of the plugin's code
        log_failure("call_later", error)
        raise RpcError(Code.UNKNOWN, words_of(error)) from None


P = ParamSpec("P")

UPDATE_TIMEOUT = 30.0
"""Seconds to wait for the reply to UpdateContainers: the runtime first finishes other events."""


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
