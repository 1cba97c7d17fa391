# SPDX-License-Identifier: Apache-2.0
"""Emulated terminal of any size that sends keys to a program and times its output."""

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

from tests.tui.emulator import Emulator

_TIMEOUT_S = 120.0
_CHUNK = 1 << 16


class Terminal:
    """A program in a pseudo-terminal, and its output since the last key."""

    def __init__(
        self, process: Process, descriptor: int, began: float, size: tuple[int, int]
    ) -> None:
        """Use `start`."""
        self.process = process
        self.screen = Emulator(*size)
        self._descriptor = descriptor
        self._began = began
        self._last = began
        self._written = bytearray()
        self.written = 0
        """Number of bytes written by the program since its start."""
        self._has_output = asyncio.Event()
        asyncio.get_running_loop().add_reader(descriptor, self._read)

    @classmethod
    async def start(
        cls, *command: str | Path, size: tuple[int, int] = (160, 50), folder: Path
    ) -> Self:
        """Run a command in a new terminal, with ``folder`` as its configuration folder."""
        controller, terminal = pty.openpty()
        columns, lines = size
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        environment = {
            **os.environ,
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "XDG_CONFIG_HOME": str(folder),
        }
        for name in ("NO_COLOR", "COLUMNS", "LINES"):
            environment.pop(name, None)
        os.set_blocking(controller, False)
        began = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env=environment,
            start_new_session=True,
        )
        os.close(terminal)
        return cls(process, controller, began, size)

    def press(self, keys: str) -> None:
        """Write the input for a key press, and restart the timer."""
        self.forget()
        os.write(self._descriptor, keys.encode())

    def forget(self) -> None:
        """Discard the output so far, and restart the timer."""
        self._written.clear()
        self.screen.written.clear()
        self._began = self._last = time.perf_counter()

    async def shows(self, pattern: str, *, times: int = 1) -> float:
        """Wait for ``times`` lines that match a pattern, of those with output since the timer
        started; return the seconds since then.
        """
        expression = re.compile(pattern)
        async with asyncio.timeout(_TIMEOUT_S):
            while True:
                lines = map(self.screen.line, self.screen.written)
                if sum(map(bool, map(expression.search, lines))) >= times:
                    break
                if self.process.returncode is not None:
                    raise RuntimeError(
                        f"the program ended with {self.process.returncode}: {self.tail()}"
                    )
                self._has_output.clear()
                await self._has_output.wait()
        return self._last - self._began

    async def settled(self, quiet: float = 0.15) -> float:
        """Wait until there is no output for ``quiet`` seconds; return the last output's time."""
        async with asyncio.timeout(_TIMEOUT_S):
            while True:
                self._has_output.clear()
                try:
                    await asyncio.wait_for(self._has_output.wait(), quiet)
                except TimeoutError:
                    return self._last - self._began

    def tail(self) -> str:
        """Return the end of the output without control sequences."""
        plain = re.sub(rb"\x1b\[[0-9;?<>$]*[a-zA-Z]", b"", bytes(self._written))
        return plain[-500:].decode(errors="replace")

    def _read(self) -> None:
        try:
            chunk = os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            # Linux reports EIO once the program has closed the terminal.
            chunk = b""
        if not chunk:
            asyncio.get_running_loop().remove_reader(self._descriptor)
        self._last = time.perf_counter()
        self._written += chunk
        self.screen.feed(chunk)
        self.written += len(chunk)
        self._has_output.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
        os.close(self._descriptor)


def work_of(pid: int) -> float:
    """Return the processor time of all threads of a process, without its children, in seconds.

    Uses the scheduler's statistics: clock ticks are too coarse.
    """
    nanoseconds = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            nanoseconds += int(path.read_text().split()[0])
    return nanoseconds / 1e9


def children(pid: int) -> Sequence[int]:
    """Return the running child processes of a process."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for path in tasks for child in path.read_text().split()]


def peak_memory(pid: int) -> int:
    """Return the peak resident memory of a process in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the kernel does not report VmHWM")
