# SPDX-License-Identifier: Apache-2.0
"""Pace of a replay: without pauses, as recorded, or controlled by the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from math import inf

from nri_scope.runtime import Pace

from .script import ReplayStep

Wait = Callable[[ReplayStep], Awaitable[None]]
"""Coroutine function that returns when the event may be sent."""


async def no_wait(step: ReplayStep) -> None:
    """Return immediately."""


def paced(speed: float, max_idle: float = inf) -> Wait:
    """Return a `Wait` for the recorded pauses divided by ``speed``, up to ``max_idle`` seconds."""
    pace = Pace(speed)
    before_ns: int | None = None

    async def wait(step: ReplayStep) -> None:
        nonlocal before_ns
        at_ns = step.recorded.at_ns
        if before_ns is not None:
            await asyncio.sleep(min(pace.pause(before_ns, at_ns), max_idle))
        before_ns = at_ns

    return wait
