# SPDX-License-Identifier: Apache-2.0
"""The time of a replayed recording, and the timers that plugins set by it."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import NamedTuple

from nri_scope.errors import ConnectionClosed, DeadlineExceeded, NriScopeError, RpcError
from nri_scope.nri import recording_clock
from nri_scope.runtime import Plugin
from nri_scope.wire import Code

from .playback import ReplayProgress
from .result import PlayedEvent

TIMERS_MAX = 100_000
"""Maximum number of pending timers of all plugins."""

FIRE_TIMEOUT_S = 10.0
"""Real seconds to wait for a timer's callback, before the replay continues; the deadline of
requests if that is longer."""

_EVENT = "call_later"


class _Timer(NamedTuple):
    due_ns: int
    order: int
    """Order in which timers were set, for those due at the same time."""
    number: int
    delay_ns: int
    plugin: Plugin
    set_at: int
    """Number of the recorded event during which it was set; 0 if before all events."""


class RecordingClock:
    """Clock that advances from one recorded event to the next, and fires timers in between.

    Timers of a plugin end with its connection.
    """

    def __init__(
        self, progress: ReplayProgress, read_output: Callable[[], None], request_timeout_ms: int
    ) -> None:
        self._progress = progress
        self._timeout_s = max(FIRE_TIMEOUT_S, request_timeout_ms / 1000)
        self._read_output = read_output
        self._now_ns = 0
        self._order = 0
        self._timers: list[_Timer] = []
        """Heap of timers, including those that are no longer pending."""
        self._pending: dict[tuple[Plugin, int], _Timer] = {}
        """Pending timers by plugin and number."""

    def reset(self, now_ns: int) -> None:
        """Set the time to the start of the recording, without any timers."""
        self._now_ns = now_ns
        self._timers.clear()
        self._pending.clear()

    def pass_to(self, at_ns: int) -> None:
        """Set the time, which never runs backwards, without firing timers."""
        self._now_ns = max(self._now_ns, at_ns)

    def change_timer(self, plugin: Plugin, method: str, number: int, delay_ns: int) -> None:
        """Handle a plugin's request to start or cancel a timer. Raises `RpcError`."""
        if method == recording_clock.CANCEL:
            self._pending.pop((plugin, number), None)
            return
        if method != recording_clock.START:
            raise RpcError(Code.UNIMPLEMENTED, f"no method {method!r} here")
        if len(self._timers) >= TIMERS_MAX:
            raise RpcError(Code.RESOURCE_EXHAUSTED, f"{TIMERS_MAX} timers are pending already")
        self._order += 1
        due_ns = self._now_ns + delay_ns
        timer = _Timer(due_ns, self._order, number, delay_ns, plugin, self._progress.last_id)
        self._pending[plugin, number] = timer
        heapq.heappush(self._timers, timer)

    def is_due(self, at_ns: int) -> bool:
        """Return whether a timer may be due at ``at_ns``."""
        return bool(self._timers) and self._timers[0].due_ns <= at_ns

    async def fire_until(self, at_ns: int) -> None:
        """Fire the timers that are due up to ``at_ns``, in the order of their times."""
        while (timer := self._next()) is not None and timer.due_ns <= at_ns:
            self._remove_first()
            self.pass_to(timer.due_ns)
            await self._fire(timer)

    def end(self) -> None:
        """Report timers that are due after the last event, and so did not fire."""
        first = self._next()
        if first is None:
            return
        late = _seconds(first.due_ns - self._now_ns)
        count = sum(not plugin.link.closed for plugin, _ in self._pending)
        others = f", and {count - 1} more later" if count > 1 else ""
        words = f"due {late} after the last event{others}"
        self._progress.tell(PlayedEvent(0, _EVENT, first.plugin.id, 0, skipped=words))

    def _next(self) -> _Timer | None:
        """Return the first pending timer; remove others, and those of closed connections."""
        while self._timers:
            timer = self._timers[0]
            pending = self._pending.get((timer.plugin, timer.number))
            if pending is timer and not timer.plugin.link.closed:
                return timer
            self._remove_first()
        return None

    def _remove_first(self) -> None:
        timer = heapq.heappop(self._timers)
        key = timer.plugin, timer.number
        if self._pending.get(key) is timer:
            del self._pending[key]

    async def _fire(self, timer: _Timer) -> None:
        plugin = timer.plugin
        since = f"event {timer.set_at}" if timer.set_at else "the start"
        note = f"{_seconds(timer.delay_ns)} after {since}"
        self._progress.settle()
        self._progress.begin(PlayedEvent(0, _EVENT, plugin.id, 0, note=note))
        self._progress.end()
        problem = ""
        try:
            await plugin.link.call(
                recording_clock.SERVICE,
                recording_clock.FIRE,
                recording_clock.pack(timer.number),
                timeout=self._timeout_s,
            )
        except DeadlineExceeded:
            problem = f"it is still running after {self._timeout_s:g} s"
        except RpcError as error:
            problem = f"error: {error.message}"
        except ConnectionClosed:
            # Reported as the end of the plugin.
            return
        except NriScopeError as error:
            problem = str(error)
        self._read_output()
        if problem:
            self._progress.result.tally.fail(f"{_EVENT}: {plugin.id}: {problem}")
            self._progress.tell(PlayedEvent(0, _EVENT, plugin.id, 0, failure=problem))


def _seconds(time_ns: int) -> str:
    text = f"{time_ns / 1e9:.3f}".rstrip("0").rstrip(".")
    return f"{text} s"
