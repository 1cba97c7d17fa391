# SPDX-License-Identifier: Apache-2.0
"""Run commands that read a recording, in a process whose memory is measured.

The process runs ``python -m tests.bombs.commands FILE FOLDER NAME...``.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from benchmarks import adjuster
from tests.in_memory import MEMORY

PEAK_MIB = 500
"""Memory limit of a command for a file of up to 10 MB, in MiB."""
_ADDRESS_SPACE = 3 << 30
"""Bytes; larger allocations fail, which protects the machine."""
_CPU_LIMIT_S = 600
"""Processor time after which a hanging process is killed."""
_PLUGIN = str(Path(adjuster.__file__))
_CONTAINER = "shop/web-0/app-0"

COMMANDS: dict[str, tuple[str, ...]] = {
    "log": ("log", "FILE", "--printed"),
    "log jsonl": ("log", "FILE", "--format", "jsonl"),
    "stats": ("report", "FILE"),
    "stats json": ("report", "FILE", "--format", "json"),
    "show an event": ("show", "FILE", "3"),
    "show an event json": ("show", "FILE", "3", "--format", "json"),
    "show Synchronize": ("show", "FILE", "1"),
    "show a container": ("show", "FILE", _CONTAINER),
    "diff": ("diff", "FILE"),
    "diff json": ("diff", "FILE", "--format", "json"),
    "diff a container": ("diff", "FILE", _CONTAINER),
    "diff two": ("diff", "FILE", "FILE"),
    "blame": ("blame", "FILE", _CONTAINER),
    "blame json": ("blame", "FILE", _CONTAINER, "--full", "--format", "json"),
    "report": ("report", "FILE", "-o", "OUT/r.html", "--force"),
    "report markdown": ("report", "FILE", "-o", "OUT/r.md", "--force"),
    "diagnose": ("report", "FILE", "--diagnose"),
    "sql": ("sql", "FILE", "SELECT * FROM log"),
    "sql json": ("sql", "FILE", "SELECT nri_json(id), nri_json(id, 'reply') FROM event LIMIT 9"),
    "preview": ("export", "FILE", "--preview"),
    "redact": ("export", "FILE", "-o", "OUT/r.nriscope.db", "--force", "--redact"),
    "export": ("export", "FILE", "-o", "OUT/r.nriscope.zip", "--force"),
    "export redacted": ("export", "FILE", "-o", "OUT/s.nriscope.zip", "--force", "--redact"),
    "export jsonl": ("export", "FILE", "--format", "jsonl"),
    "export otlp": ("export", "FILE", "--format", "otlp-json"),
    "export perfetto": ("export", "FILE", "--format", "perfetto"),
    "export tables": ("export", "FILE", "--format", "sqlite-expanded", "-o", "OUT/e", "--force"),
    "replay": ("replay", "FILE", "--", "/bin/true"),
    "replay a plugin": ("replay", "FILE", "--", sys.executable, _PLUGIN),
    "scenario": ("scenario", "from-recording", "FILE", "-o", "OUT/s.yaml", "--force"),
    "change": ("replay", "FILE", "--set", "shop/web-0:labels.a=b", "--", "/bin/true"),
}  # fmt: skip
"""Command lines by name. FILE is the recording, OUT a folder."""
TUI = "tui"
"""Name of the terminal interface, which runs without a terminal."""


class Measured(NamedTuple):
    """Result of a measured process."""

    status: int
    peak_mib: float
    stderr: str
    """Contains a line ``NAME: STATUS`` for each command."""


def measure(path: Path, *names: str) -> Measured:
    """Run commands, by default all but the terminal interface, and measure the peak memory."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        errors = Path(folder) / "stderr"
        with errors.open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(path), folder, *(names or COMMANDS)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )
            _, status, usage = os.wait4(process.pid, 0)
        # os.wait4 has reaped the process: Popen must not wait again.
        process.returncode = os.waitstatus_to_exitcode(status)
        text = errors.read_text(errors="replace")
        return Measured(process.returncode, usage.ru_maxrss / 1024, text)


async def _browse(path: Path) -> None:
    from tests.tui.screen import showing

    async with showing(path, size=(120, 40)) as screen:
        if screen.app.failure is None:
            for key in ("end", "enter", *"]]]]", "2", "down", "enter", "3", "4", "5", "1", "home"):
                await screen.press(key)
                await screen.pilot.pause(0.05)


def run_command(name: str, path: Path, folder: Path) -> int:
    """Run a command of COMMANDS, or the terminal interface, and return its exit status."""
    from nri_scope.cli.main import run

    if name == TUI:
        asyncio.run(_browse(path))
        return 0
    words = (word.replace("OUT", str(folder)) for word in COMMANDS[name])
    return run([str(path) if word == "FILE" else word for word in words])


def main() -> None:
    """Run the commands named on the command line."""
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_LIMIT_S, _CPU_LIMIT_S))
    path, folder, *names = sys.argv[1:]
    for name in names:
        status = run_command(name, Path(path), Path(folder))
        used = resource.getrusage(resource.RUSAGE_SELF)
        words = f"{used.ru_maxrss // 1024} MiB, {used.ru_utime + used.ru_stime:.1f} s so far"
        print(f"{name}: {status} ({words})", file=sys.stderr, flush=True)
        assert status in (0, 1, 2)


if __name__ == "__main__":
    main()
