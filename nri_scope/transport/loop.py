# SPDX-License-Identifier: Apache-2.0
"""Event loops that signals end, and settings that keep delays in the reply path short."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Coroutine
from typing import TypeVar

from nri_scope.process.signals import END_SIGNALS, stop_signals

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)

SWITCH_INTERVAL_S = 0.00005
"""Seconds after which another thread, such as the reader of a spool of NRI 0.1, yields the
interpreter to a due reply. Python's default of 5 ms would be the longest pause by far.
"""


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return uvloop's factory if it is installed, as uvloop replies faster; else asyncio's."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def run(main: Coroutine[object, object, T]) -> T:
    """Run ``main`` on a new event loop and return its result."""
    results: list[T] = []

    async def store_result() -> None:
        # Up to Python 3.12, the runner formats its task when it restores SIGINT, including the
        # task's result, however large.
        results.append(await main)

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(store_result())
    return results[0]


def prepare_process() -> None:
    """Tune the interpreter for short pauses; call it once, after all imports."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    collect_rarely()


def collect_rarely(young: int = 50_000, middle: int = 20, old: int = 100) -> None:
    """Make collections of cyclic garbage rare; call it once, after all imports.

    The arguments are those of `gc.set_threshold`.
    """
    # Existing objects are permanent, so the collector need not check them again. Objects of an
    # event are freed by reference counting; rare collections avoid pauses in the middle of a reply.
    gc.collect()
    gc.freeze()
    gc.set_threshold(young, middle, old)


def run_interruptibly(work: Callable[[], Coroutine[object, object, T]]) -> T:
    """Run ``work``; SIGTERM and SIGHUP end it as SIGINT does, with KeyboardInterrupt.

    Raises its errors, and OSErrors of a group.
    """
    is_interrupted = False
    running: tuple[asyncio.AbstractEventLoop, asyncio.Task[object]] | None = None

    def interrupt(*_: object) -> None:
        nonlocal is_interrupted
        is_interrupted = True
        if running is not None:
            loop, task = running
            loop.call_soon_threadsafe(task.cancel)

    async def main() -> T:
        nonlocal running
        task = asyncio.current_task()
        assert task is not None
        running = asyncio.get_running_loop(), task
        try:
            if is_interrupted:
                raise asyncio.CancelledError
            return await work()
        finally:
            # The loop may be closed.
            running = None

    try:
        # Also while the loop begins and ends, where an exception of a handler would be a traceback.
        with stop_signals(interrupt, signals=END_SIGNALS):
            result = run(main())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    except BaseExceptionGroup as group:
        # An error of writing output, including a broken pipe, which the output handles.
        write_error = _first(group, OSError)
        if write_error is None:
            raise
        raise write_error from None
    if is_interrupted:
        raise KeyboardInterrupt
    return result


def _first(group: BaseExceptionGroup[BaseException], kind: type[E]) -> E | None:
    for error in group.exceptions:
        inner = _first(error, kind) if isinstance(error, BaseExceptionGroup) else error
        if isinstance(inner, kind):
            return inner
    return None
