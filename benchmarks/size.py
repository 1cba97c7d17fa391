# SPDX-License-Identifier: Apache-2.0
"""The size of recordings of real traffic."""

from __future__ import annotations

from pathlib import Path

from benchmarks.findings import Finding
from benchmarks.recorder import Record
from benchmarks.sustained import size_finding
from benchmarks.traffic import CHAINS, captured, repeated, write
from tests.interop.build import Variant
from tests.interop.reference import ReferenceRuntime

_LIMIT = 0.25
# A passive plugin with index 00, at the head of the chain like `record`.
_PLUGIN = "00-probe-a"


async def measure(folder: Path, *, events: int) -> list[Finding]:
    """Feed the captured traffic of each runtime, repeated, to a separate `record`."""
    findings = []
    for capture in CHAINS:
        findings.append(await _measure(folder, capture, events))
    return findings


async def _measure(folder: Path, capture: Path, events: int) -> Finding:
    name = capture.name.removesuffix(".jsonl.gz")
    stream = captured(capture, _PLUGIN)
    requests = folder / f"{name}.jsonl"
    write(repeated(stream, events), requests)
    old = any(method == "StateChange" for method, _ in stream)
    recording = folder / f"{name}.nriscope.db"
    socket = folder / f"{name}.sock"
    async with (
        await ReferenceRuntime.listen(
            socket, Variant.NRI_0_8 if old else Variant.NRI_0_12
        ) as runtime,
        await Record.start(socket, recording) as record,
    ):
        await runtime.admit()
        fed = await runtime.feed(requests)
        if fed.failures or fed.errors or fed.requests != events:
            raise RuntimeError(f"{name}: the recording is incomplete: {fed}")
        await record.drained(events)
        await record.stop()
        await runtime.stop()
    return size_finding(f"disk ÷ wire, {events:,} events of {name}", recording, fed, _LIMIT)
