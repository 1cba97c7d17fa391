# SPDX-License-Identifier: Apache-2.0
"""A real command as a child process that runs until it is stopped."""

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
    """A running command."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.errors: list[str] = []

    async def wait_for_text(self, words: str) -> str:
        """Wait for a line on stderr that contains ``words``, and return it."""
        assert self.process.stderr is not None
        while True:
            async with asyncio.timeout(PATIENCE):
                line = (await self.process.stderr.readline()).decode().rstrip("\n")
            assert line, f"it ended without printing {words!r}; it printed {self.errors}"
            self.errors.append(line)
            if words in line:
                return line

    async def wait_for_exit(self) -> tuple[int, str, str]:
        """Wait for the end; return the exit status, the rest of stdout if piped, and stderr."""
        async with asyncio.timeout(PATIENCE):
            out, rest = await self.process.communicate()
        assert self.process.returncode is not None
        errors = "\n".join([*self.errors, *rest.decode().splitlines()])
        return self.process.returncode, (out or b"").decode(), errors

    async def interrupt(self, number: signal.Signals = signal.SIGINT) -> tuple[int, str, str]:
        """Send a signal, and wait for the end."""
        self.process.send_signal(number)
        return await self.wait_for_exit()


@contextlib.asynccontextmanager
async def running(
    *arguments: str | Path,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    prefix: tuple[str, ...] = (),
) -> AsyncIterator[Running]:
    """Start ``nri-scope ARGUMENTS``; kill it at the end if it still runs.

    ``prefix``: a command that replaces itself by it, such as ``nohup``.
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
