# SPDX-License-Identifier: Apache-2.0
"""The real ``record`` command as a child process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

PATIENCE = 30.0
"""Seconds for anything that a busy machine may delay."""


class Record:
    """One running ``nri-scope record``."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.errors: list[str] = []

    async def said(self, words: str) -> str:
        """The next line on stderr that has ``words`` in it."""
        assert self.process.stderr is not None
        while True:
            async with asyncio.timeout(PATIENCE):
                line = (await self.process.stderr.readline()).decode().rstrip("\n")
            assert line, f"record ended without saying {words!r}; it said {self.errors}"
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
async def recording(
    *arguments: str | Path,
    environment: dict[str, str] | None = None,
    cwd: Path | None = None,
    prefix: tuple[str, ...] = (),
) -> AsyncIterator[Record]:
    """Start ``nri-scope record ARGUMENTS``; it is killed if it still runs in the end.

    ``prefix``: a command that runs it, and becomes it.
    """
    process = await asyncio.create_subprocess_exec(
        *(*prefix, sys.executable, "-m", "nri_scope", "record", *map(str, arguments)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **(environment or {})},
        cwd=cwd,
    )
    try:
        yield Record(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()
