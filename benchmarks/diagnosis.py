# SPDX-License-Identifier: Apache-2.0
"""Time of `report --diagnose` of a large recording, which must be read to its end."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from benchmarks import many
from benchmarks.findings import Finding
from benchmarks.recorder import command


def measure(folder: Path, *, events: int) -> Finding:
    """Return the time of one command for a recording with this number of events, in s."""
    path = folder / "many.nriscope.db"
    many.write(path, events)
    begin = time.perf_counter()
    done = subprocess.run(
        [command(), "report", "--diagnose", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - begin
    path.unlink()
    if done.returncode != 1 or done.stderr:
        raise RuntimeError(f"report --diagnose exited with {done.returncode}: {done.stderr}")
    return Finding(
        name=f"report --diagnose of {events:,} events",
        value=seconds,
        unit="s",
        limit=20,
        detail="one connection; the command's own start is included",
    )
