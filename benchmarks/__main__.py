# SPDX-License-Identifier: Apache-2.0
"""Run every benchmark once and print the measured values next to their limits."""

from __future__ import annotations

import argparse
import asyncio
import compileall
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import nri_scope
from benchmarks import (
    agent,
    blame,
    cluster,
    containerd,
    diagnosis,
    latency,
    many,
    merging,
    redaction,
    replay,
    size,
    startup,
    sustained,
    tap,
    tui,
    tui_app,
    tui_live,
)
from benchmarks.findings import Finding, findings_table
from benchmarks.latency import Latency, latency_table
from benchmarks.machine import Machine, Watch
from tests.interop.build import Unavailable, Variant, build


@dataclass(frozen=True)
class Scale:
    """Numbers of rounds, events, containers and seconds of each benchmark."""

    rounds: int
    lifecycles: int
    seconds: float
    lifecycles_all_different: int
    events: int
    starts: int
    replay_rounds: int
    replay_lifecycles: int
    mergers: int
    blamed_containers: int
    blames: int
    blame_rounds: int
    diagnosed_events: int
    tui_events: int
    tui_starts: int
    live_seconds: float
    secrets: int
    secret_places: int
    redacted_megabytes: float
    redacted_containers: int
    creations: int
    creation_rounds: int
    nodes: int
    followed_events: int


FULL = Scale(
    rounds=7,
    lifecycles=500,
    seconds=60,
    lifecycles_all_different=1000,
    events=10_000,
    starts=15,
    replay_rounds=7,
    replay_lifecycles=1000,
    mergers=2000,
    blamed_containers=1000,
    blames=1000,
    blame_rounds=5,
    diagnosed_events=500_000,
    tui_events=1_000_000,
    tui_starts=7,
    live_seconds=20,
    secrets=2,
    secret_places=11,
    redacted_megabytes=4,
    redacted_containers=1000,
    creations=40,
    creation_rounds=7,
    nodes=200,
    followed_events=4000,
)
SHORT = Scale(
    rounds=2,
    lifecycles=40,
    seconds=2,
    lifecycles_all_different=50,
    events=1_000,
    starts=1,
    replay_rounds=1,
    replay_lifecycles=100,
    mergers=100,
    blamed_containers=100,
    blames=20,
    blame_rounds=1,
    diagnosed_events=10_000,
    tui_events=10_000,
    tui_starts=2,
    live_seconds=2,
    secrets=1,
    secret_places=1,
    redacted_megabytes=0.05,
    redacted_containers=40,
    creations=3,
    creation_rounds=1,
    nodes=8,
    followed_events=1000,
)


@dataclass(frozen=True)
class Results:
    """Measured values of a run."""

    latencies: dict[str, Latency]
    findings: list[Finding]
    machine: Machine

    @property
    def reached(self) -> bool:
        """Whether every value is within its limit."""
        return all(finding.reached is not False for finding in self.findings)

    def text(self) -> str:
        """Return the results as text for a terminal."""
        details = [f"{one.name}: {one.detail}" for one in self.findings if one.detail]
        load = (
            f"Other processes used {self.machine.others:.0%} of the processor time "
            f"({self.machine.cpus} processors) during this run."
        )
        parts = [findings_table(self.findings), "\n".join(details), load]
        if self.latencies:
            parts.insert(0, latency_table(self.latencies))
        return "\n\n".join(filter(None, parts))

    def json(self, *, short: bool) -> str:
        """Return the results as a JSON document."""
        document = {
            "schema_version": 1,
            "short": short,
            "machine": asdict(self.machine),
            "latency_us": {name: asdict(one) for name, one in self.latencies.items()},
            "findings": [finding.as_json() for finding in self.findings],
        }
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


PARTS = (
    "latency",
    "containerd",
    "sustained",
    "size",
    "startup",
    "replay",
    "merging",
    "blame",
    "diagnosis",
    "tap",
    "tui",
    "redaction",
    "agent",
    "cluster",
)
WITHOUT_GO = {"redaction", "agent", "cluster"}


async def run(scale: Scale, folder: Path, parts: Sequence[str]) -> Results:
    """Run the benchmarks named by ``parts``, one after the other."""

    def log(step: str) -> None:
        print(f"… {step}", file=sys.stderr, flush=True)

    watch = Watch()
    latencies: dict[str, Latency] = {}
    findings: list[Finding] = []
    if "latency" in parts:
        log(f"latency: {scale.rounds} rounds of {scale.lifecycles} lifecycles")
        latencies = await latency.measure(folder, rounds=scale.rounds, lifecycles=scale.lifecycles)
        findings += latency.findings(latencies)
    if "containerd" in parts:
        log(f"containerd {containerd.SERIES}: {scale.creations} creations per turn")
        findings += await containerd.measure(
            folder, rounds=scale.creation_rounds, creations=scale.creations
        )
    if "sustained" in parts:
        log(f"{sustained.RATE:,} events/s for {scale.seconds:g} s")
        findings += await sustained.measure(folder, seconds=scale.seconds)
    if "size" in parts:
        log(f"{scale.lifecycles_all_different:,} lifecycles without repeated values")
        findings.append(
            await sustained.measure_all_different(folder, lifecycles=scale.lifecycles_all_different)
        )
        log(f"{scale.events:,} events of each runtime's real traffic")
        findings += await size.measure(folder, events=scale.events)
    if "startup" in parts:
        findings.append(startup.measure(scale.starts))
    if "replay" in parts:
        log(f"replay: {scale.replay_rounds} rounds of {scale.replay_lifecycles:,} lifecycles")
        findings.append(
            await replay.measure(
                folder, rounds=scale.replay_rounds, lifecycles=scale.replay_lifecycles
            )
        )
        findings.append(replay.measure_bundled(scale.starts))
    if "merging" in parts:
        findings.append(merging.measure(scale.mergers))
    if "blame" in parts:
        log(f"blame: {scale.blamed_containers:,} containers")
        findings += blame.measure(
            folder,
            containers=scale.blamed_containers,
            runs=scale.blames,
            rounds=scale.blame_rounds,
        )
    if "diagnosis" in parts:
        log(f"report --diagnose: {scale.diagnosed_events:,} events")
        findings.append(diagnosis.measure(folder, events=scale.diagnosed_events))
    if "tap" in parts:
        log(f"tap: {scale.rounds} rounds of {scale.lifecycles} lifecycles")
        findings += await tap.measure(folder, rounds=scale.rounds, lifecycles=scale.lifecycles)
    if "tui" in parts:
        log(f"tui: a recording of {scale.tui_events:,} events")
        path = folder / "many.nriscope.db"
        many.write(path, scale.tui_events)
        findings += await tui_app.measure(path, events=scale.tui_events, starts=scale.tui_starts)
        findings += tui.measure(path)
        path.unlink()
        log(f"tui --live: {tui_live.RATE} events/s for {scale.live_seconds:g} s")
        findings += await tui_live.measure(folder, seconds=scale.live_seconds)
    if "redaction" in parts:
        log("redaction: a labelled corpus")
        findings += redaction.measure(
            samples=scale.secrets,
            in_places=scale.secret_places,
            megabytes=scale.redacted_megabytes,
            containers=scale.redacted_containers,
        )
    if "agent" in parts:
        log(f"agent: {scale.followed_events:,} events followed")
        findings += await agent.measure(folder, events=scale.followed_events)
    if "cluster" in parts:
        log(f"kubectl nri-scope status: {scale.nodes} agents")
        findings += await cluster.measure(folder, nodes=scale.nodes)
    return Results(latencies, findings, watch.machine())


def main() -> int:
    """Return the exit status: 1 if a limit is exceeded and ``--strict`` was passed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--short", action="store_true", help="smaller workloads: about a minute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results as JSON")
    parser.add_argument("--strict", action="store_true", help="exit 1 if a limit is exceeded")
    parser.add_argument("--folder", type=Path, help="where to write recordings: a disk, no tmpfs")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="run only these")
    options = parser.parse_args()
    try:
        for variant in Variant if set(options.only) - WITHOUT_GO else ():
            build(variant)
    except Unavailable as error:
        print(f"benchmarks: the Go reference cannot be built: {error}", file=sys.stderr)
        return 2
    # As in an installed package. Otherwise, with PYTHONDONTWRITEBYTECODE, each start would compile
    # hundreds of modules.
    compileall.compile_dir(Path(nri_scope.__file__).parent, quiet=1)
    # Keep the path short: socket paths are limited to 107 bytes.
    with tempfile.TemporaryDirectory(prefix="nri-", dir=options.folder) as folder:
        scale = SHORT if options.short else FULL
        results = asyncio.run(run(scale, Path(folder), options.only))
    print(results.text())
    if options.json is not None:
        options.json.write_text(results.json(short=options.short))
    return 1 if options.strict and not results.reached else 0


if __name__ == "__main__":
    sys.exit(main())
