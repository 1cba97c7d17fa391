# SPDX-License-Identifier: Apache-2.0
"""Load by other processes during a run: results from a busy machine mean little."""

from __future__ import annotations

import os
import platform
import resource
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Machine:
    """The machine of a run, and its load by other processes."""

    cpus: int
    kernel: str
    python: str
    others: float
    """Share of the available processor time used by processes outside this run."""


class Watch:
    """Measurement of the load from construction to the call of `machine`."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._busy = _busy_seconds()
        self._own = _own_seconds()

    def machine(self) -> Machine:
        """Return the machine with its load so far. Child processes count once they have ended."""
        available = (time.monotonic() - self._begin) * (os.cpu_count() or 1)
        others = _busy_seconds() - self._busy - (_own_seconds() - self._own)
        return Machine(
            cpus=len(os.sched_getaffinity(0)),
            kernel=platform.release(),
            python=platform.python_version(),
            # The kernel counts both in ticks: a small negative share means none.
            others=max(0.0, others / available),
        )


def _busy_seconds() -> float:
    """Return the time that all processors were not idle, in seconds."""
    # cpu user nice system idle iowait irq softirq steal …, in ticks; guests are part of user.
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields)
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    own = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in own)
