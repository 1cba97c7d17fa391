# SPDX-License-Identifier: Apache-2.0
"""Options of a playback, and the objects that take part in it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from math import inf

from nri_scope.runtime import Pace, Runtime

from .applied_replies import Effects
from .faults import NONE, Faults, InjectedFaults
from .progress import ReplayProgress
from .recording_clock import RecordingClock
from .reply_verdict import Judge
from .script import ReplayStep
from .step_control import StepControl
from .world import World

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


@dataclass(frozen=True, slots=True)
class PlaybackOptions:
    """Options for playing a script."""

    wait: Wait = field(default=no_wait)
    faults: Faults = NONE
    effects: bool = True
    """Whether replies affect later requests; otherwise each request is sent as recorded."""
    max_took_ns: int = 0
    """Maximum response time that the user accepts; 0 for no limit but the deadline."""
    control: StepControl | None = None
    """Decides on each event, if set; it needs ``effects``."""
    timeout_s: float | None = None
    """Deadline of each request, in seconds; None for the recorded ones, infinity for none."""


@dataclass(frozen=True, slots=True)
class ReplayParts:
    """Objects that a player uses."""

    runtime: Runtime
    world: World
    effects: Effects
    judge: Judge
    progress: ReplayProgress
    clock: RecordingClock
    faults: InjectedFaults
    restart: Callable[[], Awaitable[None]]
    """Restart the runtime; return once the plugins have reconnected."""
    drop_connections: Callable[[str], Awaitable[None]]
    """Close all connections for the given reason; return once external plugins have reconnected."""
    meanwhile: Callable[[Callable[[], None]], None]
    """Set a callback to run each time a request was sent, while the plugin works on its reply."""
    lost: Callable[[str], Awaitable[str]]
    """Wait until a plugin's connection has ended, and return the reason."""
    read_output: Callable[[], None]
    """Read the available output of plugins."""
