# SPDX-License-Identifier: Apache-2.0
"""``tui --live`` under load: processor time of its three processes, memory, and lost events."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from benchmarks.findings import Finding, number
from benchmarks.recorder import command, drained, stored
from benchmarks.terminal import Terminal, children, peak_memory, work_of
from tests.interop.reference import ReferenceRuntime

RATE = 500
SIZE = (160, 50)
_TOTAL_SHARE_LIMIT = 0.3
"""Share of one processor, all processes together."""
_REQUEST_TIMEOUT_S = 2.0
"""Request deadline of containerd and CRI-O: a plugin that misses it is disconnected."""
_MIB = 1 << 20


async def measure(folder: Path, *, seconds: float) -> list[Finding]:
    """Play full lifecycles at a fixed rate, while the TUI's list follows them."""
    recording, socket = folder / "live.nriscope.db", folder / "live.sock"
    options = ("--live", "--socket", socket, "-o", recording, "--index", "10")
    async with (
        await ReferenceRuntime.listen(socket, request_timeout=_REQUEST_TIMEOUT_S) as runtime,
        await Terminal.start(command(), "tui", *options, size=SIZE, folder=folder) as shown,
    ):
        await runtime.admit()
        await shown.shows("following")
        drawing = shown.process.pid
        async with asyncio.timeout(_REQUEST_TIMEOUT_S):
            # The survey starts after the first rows.
            while len(started := children(drawing)) < 2:
                await asyncio.sleep(0.01)
        recorder, survey = sorted(started, key=_is_survey)
        begin_s, before = time.perf_counter(), [work_of(one) for one in (drawing, recorder, survey)]
        written = shown.written
        played = await runtime.play(seconds=seconds, rate=RATE)
        lasted = time.perf_counter() - begin_s
        now = [work_of(one) for one in (drawing, recorder, survey)]
        screen, recording_share, survey_share = (
            (after - earlier) / lasted for earlier, after in zip(before, now, strict=True)
        )
        written = shown.written - written
        memory = [peak_memory(one) for one in (drawing, recorder, survey)]
        await drained(recording, played.requests - played.failures)
        shown.press("q")
        if status := await shown.process.wait():
            raise RuntimeError(f"tui ended with exit status {status}: {shown.tail()}")
        await runtime.stop()
    found = stored(recording)
    where = f"at {RATE:,} events/s for {seconds:g} s"
    return [
        Finding(
            name=f"tui --live: one processor, all processes, {where}",
            value=screen + recording_share + survey_share,
            limit=_TOTAL_SHARE_LIMIT,
            detail=f"screen {screen:.1%}, {number(written / lasted / 1024)} KiB/s to the terminal; "
            f"recorder {recording_share:.1%}, survey {survey_share:.1%}",
        ),
        Finding(
            name=f"tui --live: gaps {where}",
            value=found.gaps,
            limit=0,
            detail=f"{played.requests} sent, {found.events} rows, {found.lost} counted as lost",
        ),
        Finding(
            name=f"tui --live: events missing {where}",
            value=max(0, played.requests - found.events),
            limit=0,
        ),
        Finding(name=f"tui --live: failed requests {where}", value=played.failures, limit=0),
        Finding(
            name="tui --live: memory",
            value=sum(memory) / _MIB,
            unit="MiB",
            limit=150 + 2 * 100,
            detail=f"peaks: screen {memory[0] / _MIB:.0f}, recorder {memory[1] / _MIB:.0f}, survey "
            f"{memory[2] / _MIB:.0f} MiB",
        ),
    ]


def _is_survey(pid: int) -> bool:
    return b"nri_scope.survey" in Path(f"/proc/{pid}/cmdline").read_bytes()
