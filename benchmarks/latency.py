# SPDX-License-Identifier: Apache-2.0
"""Latency that plugins add to an event: `record` and probes compared with Go plugins.

Each plugin has its own reference runtime, which sends it full lifecycles, one event at a time as
every runtime does, and measures the duration of each event call. The turns are interleaved, so
that other load on the machine affects all plugins alike; a value is the median of the rounds. A
turn begins when all events of the previous one have been stored, and displayed if they are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.cri_server import serving
from benchmarks.findings import Finding, number, table
from benchmarks.recorder import Record, processor_time
from tests.interop.reference import Played, ReferencePlugin, ReferenceRuntime

NOTHING = "no plugin"
NOOP = "Go, no-op"
YAML = "Go, logs YAML"
RECORD = "nri-scope record"
REDACT = "nri-scope record --redact"
CRI = "nri-scope record --cri"
THREE_NOOP = "three Go, no-op"
THREE_PROBES = "diff, three probes"
_INDICES = ("10", "50", "90")


@dataclass(frozen=True)
class Latency:
    """Medians of one plugin's rounds, in µs and events/s, and its processor time."""

    p50: float
    p99: float
    rate: float
    slowest: float
    rounds: int
    processor: float
    """Processor time of the plugin's processes per event in µs, including work after the reply."""


@dataclass
class Contestant:
    """A plugin with its own runtime."""

    runtime: ReferenceRuntime
    settle: Callable[[int], Awaitable[float]] | None = None
    """Function that waits until the given number of requests since the start is on disk."""
    connections: int = 1
    pid: int = 0
    """Plugin process whose processor time is measured, 0 for none."""
    requests: int = 0

    async def turn(self, lifecycles: int) -> Played:
        """Play one round."""
        played = await self.runtime.play(lifecycles)
        if played.failures or played.requests < played.events * self.connections:
            raise RuntimeError(f"the runtime disconnected a plugin: {played}")
        self.requests += played.requests
        if self.settle is not None:
            await self.settle(self.requests)
        return played

    def processor_time(self) -> float:
        """Return the processor time of the plugin's processes so far, in seconds."""
        return processor_time(self.pid) if self.pid else 0


async def measure(folder: Path, *, rounds: int, lifecycles: int) -> dict[str, Latency]:
    """Play ``rounds`` rounds of ``lifecycles`` lifecycles to each plugin, after a warm-up round."""
    async with AsyncExitStack() as stack:
        contestants = await _contestants(stack, folder)
        turns: dict[str, list[Played]] = {name: [] for name in contestants}
        worked = dict.fromkeys(contestants, 0.0)
        for number_of_round in range(rounds + 1):
            for name, contestant in contestants.items():
                before = contestant.processor_time()
                played = await contestant.turn(lifecycles)
                if number_of_round:
                    turns[name].append(played)
                    worked[name] += contestant.processor_time() - before
        for contestant in contestants.values():
            await contestant.runtime.stop()
    return {name: _medians(played, worked[name]) for name, played in turns.items()}


async def _contestants(stack: AsyncExitStack, folder: Path) -> dict[str, Contestant]:
    async def runtime(name: str) -> tuple[ReferenceRuntime, Path]:
        socket = folder / f"{name}.sock"
        return await stack.enter_async_context(await ReferenceRuntime.listen(socket)), socket

    bare, _ = await runtime("bare")
    contestants = {NOTHING: Contestant(bare, connections=0)}
    for name, yaml in ((NOOP, None), (YAML, folder / "events.yaml")):
        peer, socket = await runtime("yaml" if yaml else "noop")
        plugin = await stack.enter_async_context(await ReferencePlugin.connect(socket, yaml=yaml))
        await peer.admit()
        contestants[name] = Contestant(peer, pid=plugin.process.pid)

    cri = folder / "cri.sock"
    await stack.enter_async_context(serving(cri))
    for name, options in (
        (RECORD, ()),
        (REDACT, ("--redact",)),
        (CRI, ("--cri", str(cri))),
    ):
        title = "".join(options[:1])
        peer, socket = await runtime(f"record{title}")
        recording = folder / f"latency{title}.nriscope.db"
        record = await stack.enter_async_context(await Record.start(socket, recording, *options))
        await peer.admit()
        # Configure and Synchronize may be rows too, so the wait can end a few events early.
        contestants[name] = Contestant(peer, record.settled, pid=record.process.pid)

    peer, socket = await runtime("three")
    for index in _INDICES:
        await stack.enter_async_context(await ReferencePlugin.connect(socket, index=index))
    await peer.admit(len(_INDICES))
    contestants[THREE_NOOP] = Contestant(peer, connections=len(_INDICES))

    peer, socket = await runtime("probes")
    recording = folder / "probes.nriscope.db"
    probes = await stack.enter_async_context(await Record.probes(socket, recording, _INDICES))
    await peer.admit(len(_INDICES))
    contestants[THREE_PROBES] = Contestant(peer, probes.settled, len(_INDICES))
    return contestants


def _medians(rounds: list[Played], worked: float) -> Latency:
    return Latency(
        p50=median(played.p50_ns for played in rounds) / 1000,
        p99=median(played.p99_ns for played in rounds) / 1000,
        rate=median(played.events_per_s for played in rounds),
        slowest=max(played.max_ns for played in rounds) / 1000,
        rounds=len(rounds),
        processor=worked / sum(played.events for played in rounds) * 1e6,
    )


def findings(latencies: dict[str, Latency]) -> list[Finding]:
    """Return the ratios that have limits, and the processor time."""
    record, redact, noop, yaml = (latencies[name] for name in (RECORD, REDACT, NOOP, YAML))
    cri = latencies[CRI]
    probes, three = latencies[THREE_PROBES], latencies[THREE_NOOP]
    return [
        Finding(name="p50, record ÷ no-op", value=record.p50 / noop.p50, limit=0.55),
        Finding(name="p50, record ÷ YAML logger", value=record.p50 / yaml.p50, limit=0.1),
        Finding(name="p99, record ÷ no-op", value=record.p99 / noop.p99, limit=0.9),
        Finding(name="p50, record --redact ÷ no-op", value=redact.p50 / noop.p50, limit=0.6),
        Finding(name="p50, record --redact ÷ YAML logger", value=redact.p50 / yaml.p50, limit=0.1),
        Finding(name="p99, record --redact ÷ no-op", value=redact.p99 / noop.p99, limit=1.0),
        Finding(
            name="p50, record --cri ÷ record",
            value=cri.p50 / record.p50,
            limit=1.1,
            detail=f"p50 {cri.p50:.0f} and {record.p50:.0f} µs, p99 {cri.p99:.0f} and"
            f" {record.p99:.0f} µs; processor time of an event {cri.processor:.0f} and"
            f" {record.processor:.0f} µs",
        ),
        Finding(name="p99, record --cri ÷ no-op", value=cri.p99 / noop.p99, limit=1.0),
        Finding(name="p50, three probes ÷ three no-ops", value=probes.p50 / three.p50, limit=0.5),
        Finding(name="p99, three probes ÷ three no-ops", value=probes.p99 / three.p99, limit=1.0),
        Finding(
            name="processor time of an event, record ÷ YAML logger",
            value=record.processor / yaml.processor,
            detail=f"{record.processor:.0f} and {yaml.processor:.0f} µs, all processes of each;"
            f" {redact.processor:.0f} µs with --redact, {noop.processor:.0f} µs of the no-op",
        ),
    ]


def latency_table(latencies: dict[str, Latency]) -> str:
    """Format the latencies as a table with one line for each plugin."""
    rows: list[tuple[str, ...]] = [
        ("time of an event call", "p50 µs", "p99 µs", "max µs", "events/s")
    ]
    for name, one in latencies.items():
        numbers = (one.p50, one.p99, one.slowest, one.rate)
        rows.append((name, *map(number, map(round, numbers))))
    return table(rows)
