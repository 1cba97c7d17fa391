# SPDX-License-Identifier: Apache-2.0
"""Measure every command with every hostile recording. This takes hours; patterns select some.

A command may take 500 MiB and 30 seconds of processor time for a file of up to 10 MB. Commands
that take more, print a traceback, or exit with a status other than 0 to 2 are marked ``!!!``, and
this program then exits with 1. Usage: ``python -m tests.bombs [BOMBS [COMMANDS]]``, both regular
expressions.
"""

from __future__ import annotations

import os
import re
import resource
import sys
import tempfile
import time
from pathlib import Path

from tests.bombs.commands import COMMANDS, PEAK_MIB, TUI, run_command
from tests.bombs.recordings import BOMBS, make, make_bundle
from tests.in_memory import MEMORY

_MAX_CPU_S = 30
_MAX_FILE_BYTES = 10_000_000
_KILL_CPU_S = 4 * _MAX_CPU_S


def _is_allowed(name: str, path: Path, folder: Path) -> bool:
    """Run a command in a separate process, print its resource use, and check the limits."""
    stderr, cpu_time = folder / "stderr", folder / "cpu_time"
    cpu_time.write_text("inf")
    start = time.monotonic()
    child = os.fork()
    if not child:
        status = 99
        try:
            for number in (1, 2):
                os.dup2(
                    os.open(stderr if number == 2 else os.devnull, os.O_WRONLY | os.O_CREAT), number
                )
            resource.setrlimit(resource.RLIMIT_CPU, (_KILL_CPU_S, _KILL_CPU_S))
            status = run_command(name, path, folder)
        finally:
            # RUSAGE_SELF excludes child processes: the time of a plugin does not count.
            used = resource.getrusage(resource.RUSAGE_SELF)
            cpu_time.write_text(str(used.ru_utime + used.ru_stime))
            sys.stderr.flush()
            os._exit(status)
    _, ended, usage = os.wait4(child, 0)
    seconds, peak = float(cpu_time.read_text()), usage.ru_maxrss / 1024
    status = os.waitstatus_to_exitcode(ended)
    lines = stderr.read_text(errors="replace").splitlines()
    stderr.unlink()
    passed = status in (0, 1, 2) and not any("Traceback" in line for line in lines)
    passed = passed and seconds <= _MAX_CPU_S and peak <= PEAK_MIB
    print(
        f"{'   ' if passed else '!!!'} {seconds:6.1f} s CPU {time.monotonic() - start:6.1f} s "
        f"{peak:6.0f} MiB  status {status}  {name}: {lines[-1][:100] if lines else ''}",
        flush=True,
    )
    return passed


def _files(bomb: str, folder: Path) -> list[Path]:
    """Return the recording or, if it is too large, its bundle and a smaller recording."""
    path = make(folder / "r.nriscope.db", BOMBS[bomb])
    size = path.stat().st_size
    if size <= _MAX_FILE_BYTES:
        return [path]
    bundle = make_bundle(folder / "r.nriscope.zip", BOMBS[bomb])
    return [bundle, make(path, BOMBS[bomb], 0.9 * _MAX_FILE_BYTES / size)]


def main() -> int:
    """Run the selected commands with the selected recordings."""
    bombs, commands = (*sys.argv[1:], "", "")[:2]
    passed = True
    for bomb in (name for name in BOMBS if re.search(bombs, name)):
        with tempfile.TemporaryDirectory(dir=MEMORY) as temporary:
            folder = Path(temporary)
            (out := folder / "out").mkdir()
            for path in _files(bomb, folder):
                size = path.stat().st_size
                print(f"== {bomb}: {path.name}, {size / 1e6:.1f} MB", flush=True)
                assert size <= _MAX_FILE_BYTES
                for name in (name for name in (*COMMANDS, TUI) if re.search(commands, name)):
                    passed &= _is_allowed(name, path, out)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
