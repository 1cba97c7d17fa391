# SPDX-License-Identifier: Apache-2.0
"""Event rate of replays compared with the Go reference runtime, and time of a minimal replay.

Both runtimes send the same events to the same no-op Go plugin, restarted for each turn: the
replayed recording contains the events that the reference runtime sends in each of its turns. A
replay reads events from the recording and tracks every reply; the reference runtime generates its
events and discards the replies. The turns are interleaved, so that other load on the machine
affects both; the result is the median of the rounds' ratios.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from asyncio import create_subprocess_exec
from asyncio.subprocess import PIPE
from pathlib import Path
from statistics import median

from benchmarks.findings import Finding, number
from benchmarks.recorder import Record, command
from tests.interop.build import Variant, build
from tests.interop.reference import ReferencePlugin, ReferenceRuntime

_BUNDLED = Path(__file__).parents[1] / "recordings" / "containerd-1.7.nriscope.db"
_ADJUSTER = Path(__file__).with_name("adjuster.py")


async def measure(folder: Path, *, rounds: int, lifecycles: int) -> Finding:
    """Return the event rate of a replay of ``lifecycles`` lifecycles ÷ the reference runtime's."""
    recording = folder / "replay.nriscope.db"
    await _record(folder, recording, lifecycles)
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(rounds):
        theirs.append(await _play(folder, lifecycles))
        ours.append(await _replay(recording))
    return Finding(
        name="events/s, replay ÷ Go runtime",
        value=median(our / their for our, their in zip(ours, theirs, strict=True)),
        limit=0.75,
        sense="at least",
        detail=f"{number(round(median(ours)))} and {number(round(median(theirs)))} events/s,"
        f" medians of {rounds} rounds of {11 * lifecycles:,} events",
    )


async def _record(folder: Path, recording: Path, lifecycles: int) -> None:
    socket = folder / "replay.sock"
    async with (
        await ReferenceRuntime.listen(socket) as runtime,
        await Record.start(socket, recording) as record,
    ):
        await runtime.admit()
        played = await runtime.play(lifecycles)
        if played.failures or played.requests < played.events:
            raise RuntimeError(f"the recording is incomplete: {played}")
        await record.drained(played.events)
        await record.stop()
        await runtime.stop()


async def _play(folder: Path, lifecycles: int) -> float:
    socket = folder / "reference.sock"
    async with (
        await ReferenceRuntime.listen(socket) as runtime,
        await ReferencePlugin.connect(socket) as plugin,
    ):
        await runtime.admit()
        played = await runtime.play(lifecycles)
        if played.failures or played.requests < played.events:
            raise RuntimeError(f"the runtime disconnected the reference plugin: {played}")
        await runtime.stop()
        await plugin.ended()
    return played.events_per_s


async def _replay(recording: Path) -> float:
    """Run the `replay` command and return its event rate, in replies per second."""
    plugin = build(Variant.NRI_0_12).plugin
    process = await create_subprocess_exec(
        *(command(), "replay", str(recording), "--plugin", f"10={plugin}", "--format", "json"),
        stdout=PIPE,
    )
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"nri-scope replay ended with exit status {process.returncode}")
    result = json.loads(output)
    replies = sum(len(event["replies"]) for event in result["events"])
    playing_ms: int = result["times"]["playing_ms"]
    return replies / playing_ms * 1000


def measure_bundled(runs: int) -> Finding:
    """Return the median wall time of a replay to a Python plugin, after a warm-up run."""
    times = []
    for _ in range(runs + 1):
        begin = time.perf_counter()
        subprocess.run(
            [command(), "replay", str(_BUNDLED), "--", sys.executable, str(_ADJUSTER)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        times.append(time.perf_counter() - begin)
    name = "replay of the bundled recording, whole process"
    return Finding(name=name, value=median(times[1:]), unit="s", limit=1)
