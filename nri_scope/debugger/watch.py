# SPDX-License-Identifier: Apache-2.0
"""Wait until a watched file is saved, and run the build."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nri_scope.errors import UsageError
from nri_scope.process.child import describe_exit
from nri_scope.text.escape import safe

POLL_S = 0.3
"""Seconds between two looks at the files."""
MAX_FILES = 50_000
"""Maximum number of watched files."""
OUTPUT_MAX = 64 << 10
"""Maximum bytes of a build's output that are stored, from its beginning."""
LINES_SHOWN = 20
"""Maximum number of lines of a failed build that are shown."""
_LINE_MAX = 400

_SKIPPED_FOLDERS = frozenset({".git", ".hg", ".svn", "__pycache__", "node_modules"})
_TEMPORARY = re.compile(r".*~|\.#.*|#.*#|4913|.*\.sw[a-z]|.*\.tmp|\.goutputstream-.*|.*___jb_.*")
"""Names of files that editors write beside the one that is saved."""

_Times = dict[str, tuple[int, int, int]]
"""Time of change, size and number of each file, by path."""


@dataclass(frozen=True, slots=True)
class BuildResult:
    """The end of a build."""

    problem: str
    """``exit status 2``; "" if it succeeded."""
    lines: tuple[str, ...]
    """The first lines of its output, escaped."""

    @property
    def is_ok(self) -> bool:
        """Whether it succeeded."""
        return not self.problem


class Watch:
    """Watched files and the command that builds the plugin from them.

    A file that each build writes, such as its result, does not cause another build.
    """

    def __init__(self, paths: Sequence[Path], command: str) -> None:
        """Look at the files. Raises UsageError if one does not exist."""
        for path in paths:
            if not path.exists():
                raise UsageError(f"--watch {path}: no such file or folder", "correct the path")
        self._paths = paths
        self.command = command
        self._seen = self._look()
        self._built: set[str] = set()
        """Files that changed during the newest build."""

    async def saved(self) -> None:
        """Return when a file has been saved."""
        while True:
            now = await asyncio.to_thread(self._look)
            if _changed(self._seen, now):
                # A save may be several writes; wait until they are over.
                while now != (later := await self._later()):
                    now = later
                self._seen = now
                return
            await asyncio.sleep(POLL_S)

    async def build(self) -> BuildResult:
        """Run the command in a shell."""
        result = await _run(self.command)
        now = await asyncio.to_thread(self._look)
        changed = _changed(self._seen, now)
        # Another change during the build may be a save.
        for path in changed & self._built:
            if path in now:
                self._seen[path] = now[path]
            else:
                del self._seen[path]
        self._built = changed
        return result

    async def _later(self) -> _Times:
        await asyncio.sleep(POLL_S / 3)
        return await asyncio.to_thread(self._look)

    def _look(self) -> _Times:
        times: _Times = {}
        for path in self._paths:
            if not path.is_dir():
                _note(times, str(path))
                continue
            for folder, folders, files in os.walk(path):
                folders[:] = [name for name in folders if name not in _SKIPPED_FOLDERS]
                for name in files:
                    if _TEMPORARY.fullmatch(name) is None:
                        _note(times, f"{folder}/{name}")
                if len(times) > MAX_FILES:
                    raise UsageError(
                        f"--watch {path}: contains more than {MAX_FILES:,} files",
                        "watch the folder of the sources",
                    )
        return times


def _note(times: _Times, path: str) -> None:
    with suppress(OSError):
        status = Path(path).stat()
        times[path] = status.st_mtime_ns, status.st_size, status.st_ino


def _changed(before: _Times, now: _Times) -> set[str]:
    return {path for path in before.keys() | now.keys() if before.get(path) != now.get(path)}


async def _run(command: str) -> BuildResult:
    process = await asyncio.create_subprocess_shell(
        command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    output = bytearray()
    try:
        while piece := await process.stdout.read(64 << 10):
            output += piece[: OUTPUT_MAX - len(output)]
        code = await process.wait()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        raise
    lines = output.decode(errors="replace").splitlines()
    shown = [safe(line, _LINE_MAX) for line in lines[:LINES_SHOWN]]
    if len(lines) > LINES_SHOWN:
        shown.append(f"… and {len(lines) - LINES_SHOWN} more lines")
    return BuildResult(describe_exit(code) if code else "", tuple(shown))
