# SPDX-License-Identifier: Apache-2.0
"""Which event loop our processes run on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TypeVar

T = TypeVar("T")


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
