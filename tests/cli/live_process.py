# SPDX-License-Identifier: Apache-2.0
"""The real ``diff --live`` command as a child process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from tests.cli.running import PATIENCE, Running

__all__ = ["PATIENCE", "Live", "live"]


class Live(Running):
    """One running ``nri-scope diff --live``."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        super().__init__(process)
        self.lines: list[str] = []

    async def wait_for_text(self, words: str) -> str:
        """Wait for a line on stderr that contains ``words``, and return it."""
        assert self.process.stderr is not None
        return await self._wait_for_line(self.process.stderr, self.errors, words)

    async def wait_for_output(self, words: str) -> str:
        """Wait for a line on stdout that contains ``words``, and return it."""
        assert self.process.stdout is not None
        return await self._wait_for_line(self.process.stdout, self.lines, words)

    async def _wait_for_line(
        self, stream: asyncio.StreamReader, lines: list[str], words: str
    ) -> str:
        while True:
            async with asyncio.timeout(PATIENCE):
                line = (await stream.readline()).decode().rstrip("\n")
            assert line or not stream.at_eof(), f"no {words!r} in {self.errors} {self.lines}"
            lines.append(line)
            if words in line:
                return line

    async def wait_for_exit(self) -> tuple[int, str, str]:
        """Wait for the end; return the exit status, and all of stdout and stderr."""
        status, out, errors = await super().wait_for_exit()
        return status, "\n".join([*self.lines, out]), errors


@contextlib.asynccontextmanager
async def live(
    *arguments: str | Path,
    folder: Path,
    stdout: int = asyncio.subprocess.PIPE,
    prefix: tuple[str, ...] = (),
) -> AsyncIterator[Live]:
    """Start ``nri-scope diff --live ARGUMENTS``; kill it at the end if it still runs.

    It is the leader of a process group. Its temporary files are in ``folder``. ``prefix``: a
    command that replaces itself by it, such as ``nohup``.
    """
    process = await asyncio.create_subprocess_exec(
        *(*prefix, sys.executable, "-m", "nri_scope", "diff", "--live", *map(str, arguments)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=stdout,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(folder), "COLUMNS": "100"},
        start_new_session=True,
    )
    try:
        yield Live(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await process.communicate()
