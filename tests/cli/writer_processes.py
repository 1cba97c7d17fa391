# SPDX-License-Identifier: Apache-2.0
"""Find the writer processes of running commands in /proc, and run commands on a terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import termios
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from pathlib import Path

from tests.runtime_emulation.scripts import is_running

from .running import PATIENCE, Running

POLL = 0.01
MODULES = (b"nri_scope.writer.main", b"nri_scope.cli.log_lines", b"nri_scope.cli.trace_printer")
"""Names of the modules that a writer process may run."""


def children(pid: int) -> list[int]:
    """Return the ids of a process's children; none if it has ended."""
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def cmdline(pid: int) -> bytes:
    """Return the command line of a process; b"" if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


async def wait_for_end_of(pid: int) -> None:
    """Wait until a process has ended."""
    async with asyncio.timeout(PATIENCE):
        while is_running(pid):
            await asyncio.sleep(POLL)


async def writer_of(command: Running, *, other_than: int = 0) -> int:
    """Wait for the writer process of a command, and return its id."""
    async with asyncio.timeout(PATIENCE):
        while True:
            for pid in children(command.process.pid):
                if pid != other_than and any(one in cmdline(pid) for one in MODULES):
                    return pid
            await asyncio.sleep(POLL)


@contextlib.asynccontextmanager
async def on_a_terminal(*command: str | Path) -> AsyncIterator[tuple[Process, int]]:
    """Run a command with a controlling terminal that stops background processes which write to it.

    Yield its process, and the terminal's master end.
    """
    master, slave = pty.openpty()
    modes = termios.tcgetattr(slave)
    modes[3] |= termios.TOSTOP
    termios.tcsetattr(slave, termios.TCSANOW, modes)
    process = await asyncio.create_subprocess_exec(
        # Replaces itself by the command, with this controlling terminal.
        *("setsid", "--ctty", *map(str, command)),
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    try:
        yield process, master
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
