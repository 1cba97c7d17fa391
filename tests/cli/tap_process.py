# SPDX-License-Identifier: Apache-2.0
"""The real ``tap`` command as a child process, and plugins for it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from tests.runtime_role.scripts import ROOT

PATIENCE = 30.0
"""Seconds for anything that a busy machine may delay."""


class Tap:
    """One running ``nri-scope tap``."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.errors: list[str] = []

    async def said(self, words: str) -> str:
        """The next line on stderr that has ``words`` in it."""
        assert self.process.stderr is not None
        while True:
            async with asyncio.timeout(PATIENCE):
                line = (await self.process.stderr.readline()).decode().rstrip("\n")
            assert line, f"tap ended without saying {words!r}; it said {self.errors}"
            self.errors.append(line)
            if words in line:
                return line

    async def ended(self) -> tuple[int, str, str]:
        """Exit status, stdout and all of stderr."""
        async with asyncio.timeout(PATIENCE):
            out, rest = await self.process.communicate()
        assert self.process.returncode is not None
        errors = "\n".join([*self.errors, *rest.decode().splitlines()])
        return self.process.returncode, out.decode(), errors

    async def interrupt(self, number: signal.Signals = signal.SIGINT) -> tuple[int, str, str]:
        """Send a signal and wait for the end."""
        self.process.send_signal(number)
        return await self.ended()


@contextlib.asynccontextmanager
async def tapping(
    *arguments: str | Path,
    environment: Mapping[str, str] | None = None,
    file_max: int = 0,
    prefix: Sequence[str] = (),
) -> AsyncIterator[Tap]:
    """Start ``nri-scope tap ARGUMENTS``; it is killed if it still runs in the end.

    No file that it writes may get larger than ``file_max`` bytes, if that is not 0. ``prefix``:
    a command that runs it, and becomes it.
    """
    limit = ("prlimit", f"--fsize={file_max}") if file_max else prefix
    process = await asyncio.create_subprocess_exec(
        *(*limit, sys.executable, "-m", "nri_scope", "tap", *map(str, arguments)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **(environment or {})},
    )
    try:
        yield Tap(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


def plugin_file(path: Path, body: str = "", *, name: str = "thing", start: str = "") -> Path:
    """An executable plugin that runs ``start`` and has the methods ``body``, in Python."""
    methods = body or "    def post_start_container(self, pod, container):\n        pass"
    path.write_text(
        f"""#!{sys.executable}
import os, sys
sys.path.insert(0, {str(ROOT)!r})
{start}
from nri_scope.plugin import Adjustment, run

class Thing:
{methods}

run(Thing(), name={name!r}, index="33")
"""
    )
    path.chmod(0o755)
    return path
