# SPDX-License-Identifier: Apache-2.0
"""A real command as a child process that goes on until it is told to end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

PATIENCE = 60.0
"""Seconds for anything that a busy machine may delay."""


class Running:
    """A command that runs until it is told to end."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.errors: list[str] = []

    async def said(self, words: str) -> str:
        """The next line on stderr that has ``words`` in it."""
        assert self.process.stderr is not None
        while True:
            async with asyncio.timeout(PATIENCE):
                line = (await self.process.stderr.readline()).decode().rstrip("\n")
            assert line, f"it ended without saying {words!r}; it said {self.errors}"
            self.errors.append(line)
            if words in line:
                return line

    async def ended(self) -> tuple[int, str, str]:
        """Exit status, what is left of stdout where that is a pipe, and all of stderr."""
        async with asyncio.timeout(PATIENCE):
            out, rest = await self.process.communicate()
        assert self.process.returncode is not None
        errors = "\n".join([*self.errors, *rest.decode().splitlines()])
        return self.process.returncode, (out or b"").decode(), errors

    async def interrupt(self, number: signal.Signals = signal.SIGINT) -> tuple[int, str, str]:
        """Send a signal and wait for the end."""
        self.process.send_signal(number)
        return await self.ended()


@contextlib.asynccontextmanager
async def running(
    *arguments: str | Path,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    prefix: tuple[str, ...] = (),
) -> AsyncIterator[Running]:
    """Start ``nri-scope ARGUMENTS``; it is killed if it still runs in the end.

    ``prefix``: a command that runs it, and becomes it.
    """
    process = await asyncio.create_subprocess_exec(
        *(*prefix, sys.executable, "-m", "nri_scope", *map(str, arguments)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **(environment or {})},
        cwd=cwd,
    )
    try:
        yield Running(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()
