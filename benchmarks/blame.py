# SPDX-License-Identifier: Apache-2.0
"""Time of `blame` for one container of a large recording, and for all its containers."""

from __future__ import annotations

import random
import time
from pathlib import Path
from statistics import median, quantiles

from benchmarks import node
from benchmarks.findings import Finding, number
from nri_scope.differ.attribution.history import History
from nri_scope.differ.recording_differ import histories, history_of
from nri_scope.recording.reading.reader import Recording


def measure(folder: Path, *, containers: int, runs: int, rounds: int) -> list[Finding]:
    """Return the median time for one container, in ms, and for all containers, in s.

    The first is the median of ``runs`` containers chosen at random, the second of ``rounds`` runs.
    """
    path = folder / "node.nriscope.db"
    events = node.write(path, containers)
    with Recording.open(path) as recording:
        totals: list[float] = []
        everything: dict[str, History] = {}
        for _ in range(rounds):
            begin = time.perf_counter()
            everything = histories(recording)
            totals.append(time.perf_counter() - begin)
        # Containers from before the recording have no steps, and would lower the median.
        created = [one for one in recording.containers() if everything[one.id].created_event]
        if len(created) < containers:
            raise RuntimeError(f"{len(created)} creations instead of {containers}")
        times = []
        for container in random.Random(1).choices(created, k=runs):
            begin = time.perf_counter()
            found = history_of(recording, container)
            times.append((time.perf_counter() - begin) * 1000)
            if found.steps != everything[container.id].steps:
                raise RuntimeError(
                    f"{found.name} has different steps alone and among all containers"
                )
    where = f"of a recording with {containers:,} containers"
    return [
        Finding(
            name=f"blame of one container {where}",
            value=median(times),
            unit="ms",
            limit=5,
            detail=f"p99 {number(quantiles(times, n=100)[98])} ms of {runs:,} runs",
        ),
        Finding(
            name=f"blame of all {where}",
            value=median(totals),
            unit="s",
            limit=3,
            detail=f"{events:,} events of 5 connections, "
            f"{sum(len(one.steps) for one in everything.values()):,} steps",
        ),
    ]
