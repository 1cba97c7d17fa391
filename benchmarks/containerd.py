# SPDX-License-Identifier: Apache-2.0
"""Latency of CreateContainer on a real containerd, from the CRI request to its reply.

A container is created every 50 ms, in turns without a plugin, with a no-op Go plugin and with
`record`, on an idle machine and next to busy loops. Requires root.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from statistics import median, quantiles

from benchmarks.findings import Finding, number
from benchmarks.recorder import Record
from tests.interop.build import Variant
from tests.interop.reference import ReferencePlugin
from tests.runtime.testbed.containerd import Containerd, running
from tests.runtime.testbed.driver import Driver, Pod
from tests.runtime.testbed.packages import TestbedError, check_machine, containerd_binaries

SERIES = "2.1"
BUSY = (0, 2, 5)
"""Numbers of busy loops that run next to containerd."""
INTERVAL = 0.05
NOTHING = "no plugin"
NOOP = "a no-op Go plugin"
RECORD = "record"
_REGISTRATION_SECONDS = 60.0
_PLUGINS = {NOOP: "10-reference", RECORD: "10-nri-scope"}


async def measure(folder: Path, *, rounds: int, creations: int) -> list[Finding]:
    """Create ``creations`` containers in each turn; return no findings without a containerd."""
    try:
        check_machine()
        binaries = containerd_binaries(SERIES)
    except TestbedError as error:
        print(f"benchmarks: no containerd {SERIES}: {error}", file=sys.stderr)
        return []
    times: dict[tuple[int, str], list[float]] = {}
    async with running(binaries) as containerd:
        driver = Driver(containerd)
        pod = await driver.run_pod("bench", "pod")
        # Warm up.
        await _turn(driver, pod, 1)
        for busy in BUSY:
            with _busy(busy):
                for round_number in range(rounds):
                    for name in (NOTHING, NOOP, RECORD):
                        recording = folder / f"containerd-{busy}-{round_number}.nriscope.db"
                        async with _plugin(name, containerd, recording):
                            turn = await _turn(driver, pod, creations)
                        times.setdefault((busy, name), []).extend(turn)
    return [_finding(busy, times) for busy in BUSY]


@asynccontextmanager
async def _plugin(name: str, containerd: Containerd, recording: Path) -> AsyncIterator[None]:
    if name == NOTHING:
        yield
        return
    connections = containerd.connections(_PLUGINS[name])
    async with (
        await ReferencePlugin.connect(containerd.nri_socket, Variant.NRI_0_8)
        if name == NOOP
        else await Record.start(containerd.nri_socket, recording)
    ) as plugin:
        async with asyncio.timeout(_REGISTRATION_SECONDS):
            while containerd.connections(_PLUGINS[name]) == connections:
                await asyncio.sleep(0.01)
        yield
        if isinstance(plugin, Record):
            await plugin.stop()


@contextmanager
def _busy(processes: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


async def _turn(driver: Driver, pod: Pod, creations: int) -> list[float]:
    """Return the duration of each creation in seconds."""
    durations = []
    due = time.monotonic()
    for count in range(creations):
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        began = time.monotonic()
        await driver.create(pod, f"c{count}")
        durations.append(time.monotonic() - began)
        due = max(due + INTERVAL, time.monotonic())
    for container in list(pod.containers):
        await driver.remove(container)
    return durations


def _finding(busy: int, times: dict[tuple[int, str], list[float]]) -> Finding:
    load = f", next to {busy} busy loops" if busy else ""
    noop, record = times[busy, NOOP], times[busy, RECORD]
    return Finding(
        name=f"p50 of creations by containerd {SERIES}, record ÷ no-op{load}",
        value=median(record) / median(noop),
        detail="; ".join(
            f"{name}: p50 {_ms(median(some))}, p99 {_ms(quantiles(some, n=100)[98])}"
            for name in (NOTHING, NOOP, RECORD)
            for some in (times[busy, name],)
        )
        + f"; {len(record)} creations each",
    )


def _ms(seconds: float) -> str:
    return f"{number(seconds * 1000)} ms"
