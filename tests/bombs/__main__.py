# SPDX-License-Identifier: Apache-2.0
"""Measure every command on every hostile recording; all of them take hours, patterns choose some.

A command may take 500 MiB and 30 seconds of processor time on a file of up to 10 MB. What takes
more, ends with a traceback or with another status than 0 to 2 is marked ``!!!``, and makes this
program end with 1. Usage: ``python -m tests.bombs [BOMBS [COMMANDS]]``, both regular expressions.
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
from tests.recording.traffic import MEMORY

_SECONDS = 30
_LARGEST = 10_000_000
_STOPPED = 4 * _SECONDS


def _is_allowed(name: str, path: Path, folder: Path) -> bool:
    """Run a command in a process of its own, and print what it took."""
    said, took = folder / "said", folder / "took"
    took.write_text("inf")
    start = time.monotonic()
    child = os.fork()
    if not child:
        status = 99
        try:
            for number in (1, 2):
                os.dup2(
                    os.open(said if number == 2 else os.devnull, os.O_WRONLY | os.O_CREAT), number
                )
            resource.setrlimit(resource.RLIMIT_CPU, (_STOPPED, _STOPPED))
            status = run_command(name, path, folder)
        finally:
            # Without the processes that it started: a plugin's time is its own.
            used = resource.getrusage(resource.RUSAGE_SELF)
            took.write_text(str(used.ru_utime + used.ru_stime))
            sys.stderr.flush()
            os._exit(status)
    _, ended, usage = os.wait4(child, 0)
    seconds, peak = float(took.read_text()), usage.ru_maxrss / 1024
    status = os.waitstatus_to_exitcode(ended)
    lines = said.read_text(errors="replace").splitlines()
    said.unlink()
    sound = status in (0, 1, 2) and not any("Traceback" in line for line in lines)
    sound = sound and seconds <= _SECONDS and peak <= PEAK_MIB
    print(
        f"{'   ' if sound else '!!!'} {seconds:6.1f} s processor {time.monotonic() - start:6.1f} s "
        f"{peak:6.0f} MiB  status {status}  {name}: {lines[-1][:100] if lines else ''}",
        flush=True,
    )
    return sound


def _files(bomb: str, folder: Path) -> list[Path]:
    """Return the recording or, if it is too large, its bundle and a smaller recording."""
    path = make(folder / "r.nriscope.db", BOMBS[bomb])
    size = path.stat().st_size
    if size <= _LARGEST:
        return [path]
    bundle = make_bundle(folder / "r.nriscope.zip", BOMBS[bomb])
    return [bundle, make(path, BOMBS[bomb], 0.9 * _LARGEST / size)]


def main() -> int:
    """Run what the patterns choose."""
    bombs, commands = (*sys.argv[1:], "", "")[:2]
    sound = True
    for bomb in (name for name in BOMBS if re.search(bombs, name)):
        with tempfile.TemporaryDirectory(dir=MEMORY) as temporary:
            folder = Path(temporary)
            (out := folder / "out").mkdir()
            for path in _files(bomb, folder):
                size = path.stat().st_size
                print(f"== {bomb}: {path.name}, {size / 1e6:.1f} MB", flush=True)
                assert size <= _LARGEST
                for name in (name for name in (*COMMANDS, TUI) if re.search(commands, name)):
                    sound &= _is_allowed(name, path, out)
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
