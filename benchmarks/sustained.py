# SPDX-License-Identifier: Apache-2.0
"""Sustained load of thousands of events per second: gaps, memory and size of the recording."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.findings import Finding
from benchmarks.recorder import Record, processor_time, size_on_disk, stored
from tests.interop.reference import Played, ReferenceRuntime

RATE = 7000
# Timer precision of the Go runtime and the incomplete last second keep the rate below 7,000.
_RATE_TOLERANCE = 0.99
# Request deadline of containerd and CRI-O: a plugin that misses it is disconnected.
_REQUEST_TIMEOUT_S = 2.0
# More environments than containers, so that no two containers share a value.
_ALL_DIFFERENT = 1_000_000


async def measure(folder: Path, *, seconds: float) -> list[Finding]:
    """Play full lifecycles to `record` at a set rate."""
    recording = folder / "sustained.nriscope.db"
    socket = folder / "sustained.sock"
    async with (
        await ReferenceRuntime.listen(socket, request_timeout=_REQUEST_TIMEOUT_S) as runtime,
        await Record.start(socket, recording) as record,
    ):
        await runtime.admit()
        before, begin = processor_time(record.process.pid), time.monotonic()
        played = await runtime.play(seconds=seconds, rate=RATE)
        drained = await record.drained(played.requests - played.failures)
        processors = (processor_time(record.process.pid) - before) / (time.monotonic() - begin)
        memory = record.peak_memory()
        await record.stop()
        await runtime.stop()
    found = stored(recording)
    where = f"at {RATE:,} events/s for {seconds:g} s"
    return [
        Finding(
            name=f"events/s {where}",
            value=played.events_per_s,
            limit=RATE * _RATE_TOLERANCE,
            sense="at least",
            detail=f"at most {played.lag_ns / 1e6:.0f} ms behind schedule",
        ),
        Finding(
            name=f"gaps {where}",
            value=found.gaps,
            limit=0,
            detail=f"{played.requests} sent, {found.events} rows, {found.lost} counted as lost",
        ),
        Finding(name=f"failed requests {where}", value=played.failures, limit=0),
        Finding(name="peak memory of record, all processes", value=memory, unit="MiB", limit=110),
        Finding(name="processors of record, all processes", value=processors, limit=1),
        Finding(name="last event on disk after", value=drained, unit="s"),
        size_finding("disk ÷ wire, this workload", recording, played),
    ]


async def measure_all_different(folder: Path, *, lifecycles: int) -> Finding:
    """Return the size ratio for containers that share no environment values."""
    recording = folder / "different.nriscope.db"
    socket = folder / "different.sock"
    async with (
        await ReferenceRuntime.listen(socket) as runtime,
        await Record.start(socket, recording) as record,
    ):
        await runtime.admit()
        played = await runtime.play(lifecycles, workloads=_ALL_DIFFERENT)
        await record.drained(played.events)
        await record.stop()
        await runtime.stop()
    return size_finding("disk ÷ wire, every environment different", recording, played)


def size_finding(name: str, recording: Path, played: Played, limit: float = 0.1) -> Finding:
    """Return the bytes on disk after the end ÷ the bytes that the runtime wrote to the socket."""
    disk = size_on_disk(recording)
    return Finding(
        name=name,
        value=disk / played.wire_bytes,
        limit=limit,
        detail=f"{disk:,} bytes for {played.wire_bytes:,} bytes of {played.events:,} events",
    )
