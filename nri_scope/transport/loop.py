# SPDX-License-Identifier: Apache-2.0
"""Which event loop our processes run on, and the settings that keep their reply path short."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Coroutine
from typing import TypeVar

T = TypeVar("T")

SWITCH_INTERVAL = 0.00005
"""Seconds after which the writer thread hands the interpreter over to a reply that is due.
Python's default of 5 ms would be the longest pause by far."""


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return uvloop's factory where it is installed: it shortens the time that we add
    to an event.
    """
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def run(main: Coroutine[object, object, T]) -> T:
    """Run ``main`` to its end on a new event loop."""
    results: list[T] = []

    async def kept() -> None:
        # Up to Python 3.12 the runner makes a text of its task when it gives SIGINT back, and in
        # that of the result, however large it is.
        results.append(await main)

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(kept())
    return results[0]


def prepare_process() -> None:
    """Tune the interpreter for short pauses; call it once, when everything is imported."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    # What exists now stays; the collector need not look at it again. What an event leaves behind
    # is freed by counting references, so collecting rarely spares pauses in the middle of a reply.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
