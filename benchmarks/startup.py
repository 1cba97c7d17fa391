# SPDX-License-Identifier: Apache-2.0
"""Startup time of the command."""

from __future__ import annotations

import subprocess
import time
from statistics import median

from benchmarks.findings import Finding
from benchmarks.recorder import command


def measure(runs: int) -> Finding:
    """Return the median wall time of ``runs`` runs of `nri-scope --version`, after a warm-up."""
    times = []
    for _ in range(runs + 1):
        begin = time.perf_counter()
        subprocess.run([command(), "--version"], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - begin)
    return Finding(name="nri-scope --version", value=median(times[1:]), unit="s", limit=0.2)
