# SPDX-License-Identifier: Apache-2.0
"""Timers of a session, which a replay fires by the recording's time."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from nri_scope.errors import ConnectionClosed, RpcError, UsageError
from nri_scope.nri import recording_clock
from nri_scope.wire import Code

from .handler_errors import log_failure, words_of
from .session import PluginSession


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
