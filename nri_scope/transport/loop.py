# SPDX-License-Identifier: Apache-2.0
"""The event loop of our processes, and the settings that keep their reply path short."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Coroutine
from typing import TypeVar

T = TypeVar("T")

SWITCH_INTERVAL = 0.00005
"""Seconds after which the writer thread yields the interpreter to a due reply. Python's default of
5 ms would be the longest pause by far.
"""


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return uvloop's factory if installed: it shortens the time that we add to an event."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def run(main: Coroutine[object, object, T]) -> T:
    """Run ``main`` to its end on a new event loop."""
    results: list[T] = []

    async def kept() -> None:
        # Up to Python 3.12 the runner formats its task when it restores SIGINT, and with it the
        # result, regardless of size.
        results.append(await main)

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(kept())
    return results[0]


def prepare_process() -> None:
    """Tune the interpreter for short pauses; call it once, after all imports."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    collect_rarely()


def collect_rarely(young: int = 50_000, middle: int = 20, old: int = 100) -> None:
    """Have Python look for cycles of objects rarely; call it once, after all imports.

    The numbers are those of `gc.set_threshold`.
    """
    # Existing objects stay; the collector need not check them again. Objects of an event are freed
    # by reference counting, so rare collections avoid pauses in the middle of a reply.
    gc.collect()
    gc.freeze()
    gc.set_threshold(young, middle, old)
