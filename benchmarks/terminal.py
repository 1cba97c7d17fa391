# SPDX-License-Identifier: Apache-2.0
"""A terminal as wide as is wished for, whose other end is us: keys go in, and what is drawn comes
out, with the moment that it came.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import struct
import termios
import time
from asyncio.subprocess import Process
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

_PATIENCE = 120.0
_CHUNK = 1 << 16
_LONGEST = 200
"""Bytes of what is waited for, at most."""


class Terminal:
    """A program that runs in it, and what it has written since it was last asked."""

    def __init__(self, process: Process, descriptor: int, began: float) -> None:
        """Use `start`."""
        self.process = process
        self._descriptor = descriptor
        self._began = began
        self._last = began
        self._written = bytearray()
        self.written = 0
        """Bytes that it has written altogether."""
        self._came = asyncio.Event()
        asyncio.get_running_loop().add_reader(descriptor, self._read)

    @classmethod
    async def start(
        cls, *command: str | Path, size: tuple[int, int] = (160, 50), folder: Path
    ) -> Self:
        """Run a command in a new terminal. Its configuration would be in ``folder``."""
        ours, its = pty.openpty()
        columns, lines = size
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        environment = {
            **os.environ,
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "XDG_CONFIG_HOME": str(folder),
        }
        for name in ("NO_COLOR", "COLUMNS", "LINES"):
            environment.pop(name, None)
        os.set_blocking(ours, False)
        began = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            *command, stdin=its, stdout=its, stderr=its, env=environment, start_new_session=True
        )
        os.close(its)
        return cls(process, ours, began)

    def press(self, keys: str) -> None:
        """Send what a terminal sends for keys. Times are counted from here."""
        self.forget()
        os.write(self._descriptor, keys.encode())

    def forget(self) -> None:
        """Count from here."""
        self._written.clear()
        self._began = self._last = time.perf_counter()

    async def shows(self, pattern: str, *, times: int = 1) -> float:
        """Seconds until it had written something that matches, so many times."""
        wanted = re.compile(pattern.encode())
        found = begin = 0
        async with asyncio.timeout(_PATIENCE):
            while True:
                for match in wanted.finditer(self._written, begin):
                    found, begin = found + 1, match.end()
                if found >= times:
                    break
                if self.process.returncode is not None:
                    raise RuntimeError(f"it ended with {self.process.returncode}: {self.tail()}")
                # Not all of it again with each piece that comes.
                begin = max(begin, len(self._written) - _LONGEST)
                self._came.clear()
                await self._came.wait()
        return self._last - self._began

    async def settled(self, quiet: float = 0.15) -> float:
        """Seconds until the last that it wrote before it was quiet for so long."""
        async with asyncio.timeout(_PATIENCE):
            while True:
                self._came.clear()
                try:
                    await asyncio.wait_for(self._came.wait(), quiet)
                except TimeoutError:
                    return self._last - self._began

    def tail(self) -> str:
        """Return its last output, without control sequences."""
        plain = re.sub(rb"\x1b\[[0-9;?<>$]*[a-zA-Z]", b"", bytes(self._written))
        return plain[-500:].decode(errors="replace")

    def _read(self) -> None:
        try:
            chunk = os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            # How a terminal says that its other end is not open any more.
            chunk = b""
        if not chunk:
            asyncio.get_running_loop().remove_reader(self._descriptor)
        self._last = time.perf_counter()
        self._written += chunk
        self.written += len(chunk)
        self._came.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
        os.close(self._descriptor)


def work_of(pid: int) -> float:
    """Processor time of a process and all its threads without its children, in seconds.

    By the scheduler's own count, as ticks are far longer than what is measured.
    """
    nanoseconds = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            nanoseconds += int(path.read_text().split()[0])
    return nanoseconds / 1e9


def children(pid: int) -> Sequence[int]:
    """Return the processes that a process has begun and that run."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for path in tasks for child in path.read_text().split()]


def peak_memory(pid: int) -> int:
    """Bytes that a process had in memory at most."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the kernel does not tell VmHWM")
