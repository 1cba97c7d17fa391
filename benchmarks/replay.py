# SPDX-License-Identifier: Apache-2.0
"""Replays: how fast events come beside the Go reference runtime, and how long the least one takes.

Both runtimes drive the same no-op Go plugin, started anew for each turn, with the same events: the
recording that is replayed was made from what the reference runtime sends in each of its turns. A
replay reads its events from the recording and accounts for every reply; the reference runtime
makes its events and forgets them. The turns are interleaved, so that a disturbance of the machine
meets both: what counts is the median of the rounds' ratios.
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
    """Events a second of a replay of so many lifecycles, over those of the reference runtime."""
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
            raise RuntimeError(f"not everything was recorded: {played}")
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
            raise RuntimeError(f"the reference plugin was lost: {played}")
        await runtime.stop()
        await plugin.ended()
    return played.events_per_s


async def _replay(recording: Path) -> float:
    """As users get it: the command, in a process of its own."""
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
    """Wall time of a whole replay into a plugin in Python: the median, after one to warm up."""
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
