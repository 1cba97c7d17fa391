# SPDX-License-Identifier: Apache-2.0
"""Latency added by `nri-scope tap` to a no-op Go plugin.

The tapped and the untapped plugin have separate Go reference runtimes, with interleaved turns as
in `latency`.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median

from benchmarks.findings import Finding
from benchmarks.latency import Contestant
from benchmarks.recorder import Tap
from tests.interop.reference import Played, ReferencePlugin, ReferenceRuntime

P50_LIMIT = 1.35
P99_LIMIT = 1.6
_LISTEN_TIMEOUT_S = 30.0


async def measure(folder: Path, *, rounds: int, lifecycles: int) -> list[Finding]:
    """Play ``rounds`` rounds of ``lifecycles`` lifecycles to each plugin, after a warm-up round."""
    async with AsyncExitStack() as stack:
        untapped, tapped = await _contestants(stack, folder)
        turns: tuple[list[Played], list[Played]] = ([], [])
        for number in range(rounds + 1):
            for contestant, played in zip((untapped, tapped), turns, strict=True):
                one = await contestant.turn(lifecycles)
                if number:
                    played.append(one)
        for contestant in (untapped, tapped):
            await contestant.runtime.stop()
    without, with_tap = turns
    return [
        _ratio("p50, tapped ÷ untapped", P50_LIMIT, [one.p50_ns for one in with_tap],
               [one.p50_ns for one in without]),
        _ratio("p99, tapped ÷ untapped", P99_LIMIT, [one.p99_ns for one in with_tap],
               [one.p99_ns for one in without]),
    ]  # fmt: skip


def _ratio(name: str, limit: float, tapped: list[int], untapped: list[int]) -> Finding:
    with_tap, without = median(tapped) / 1000, median(untapped) / 1000
    return Finding(
        name=name,
        value=with_tap / without,
        limit=limit,
        detail=f"{with_tap:.0f} µs with the tap, {without:.0f} µs without",
    )


async def _contestants(stack: AsyncExitStack, folder: Path) -> tuple[Contestant, Contestant]:
    socket = folder / "untapped.sock"
    runtime = await stack.enter_async_context(await ReferenceRuntime.listen(socket))
    await stack.enter_async_context(await ReferencePlugin.connect(socket))
    await runtime.admit()
    untapped = Contestant(runtime)

    socket, tap_socket = folder / "tapped.sock", folder / "tap.sock"
    runtime = await stack.enter_async_context(await ReferenceRuntime.listen(socket))
    tap = await stack.enter_async_context(
        await Tap.listen(tap_socket, socket, folder / "tap.nriscope.db")
    )
    await _exists(tap_socket)
    await stack.enter_async_context(await ReferencePlugin.connect(tap_socket))
    await runtime.admit()
    return untapped, Contestant(runtime, tap.drained)


async def _exists(path: Path) -> None:
    begin = time.monotonic()
    while not os.access(path, os.F_OK):
        if time.monotonic() - begin > _LISTEN_TIMEOUT_S:
            raise TimeoutError(f"the tap does not listen at {path}")
        await asyncio.sleep(0.02)
