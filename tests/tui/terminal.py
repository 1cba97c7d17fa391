# SPDX-License-Identifier: Apache-2.0
"""A real terminal: commands run in it, keys are typed, and its screen is read."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

TIMEOUT_S = 60.0
"""Timeout of a condition, sufficient on a busy machine."""

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")


class Terminal:
    """One tmux window with its own server."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket

    async def tmux(self, *arguments: str) -> str:
        """Run a tmux command; return its output."""
        process = await asyncio.create_subprocess_exec(
            "tmux",
            *("-S", str(self.socket), "-f", "/dev/null", *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
        return out.decode(errors="replace")

    async def screen(self) -> str:
        """Return the screen's text."""
        return await self.tmux("capture-pane", "-p")

    async def press(self, *keys: str) -> None:
        """Press keys by tmux name."""
        await self.tmux("send-keys", *keys)

    async def until(self, condition: Callable[[str], bool]) -> str:
        """Wait until a condition holds for the screen."""
        text = ""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while not condition(text := await self.screen()):
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"timed out; the screen shows:\n{text}") from None
        return text

    async def shows(self, *words: str) -> str:
        """Wait until all of ``words`` are on the screen."""
        return await self.until(lambda text: all(each in text for each in words))


@asynccontextmanager
async def terminal(
    folder: Path,
    command: str,
    size: tuple[int, int] = (100, 30),
    term: str = "tmux-256color",
    variables: Mapping[str, str] | None = None,
    program: str = "",
) -> AsyncIterator[Terminal]:
    """Run ``nri-scope COMMAND`` in a terminal, which then prints the exit status.

    ``program``: another one than ``nri-scope``.
    """
    # The path of a socket is limited to 107 bytes, which a test's folder may exceed.
    window = Terminal(Path(f"/tmp/nri-scope-tmux-{abs(hash(folder)):x}"))
    program = f"TERM={term} {program or f'{shlex.quote(sys.executable)} -m nri_scope'}"
    environment = [f"-e{name}={value}" for name, value in (variables or {}).items()]
    words = f"{program} {command}; echo ended with $?; exec cat"
    width, height = map(str, size)
    await window.tmux(
        *("new-session", "-d", "-x", width, "-y", height, "-c", str(folder)),
        *(*environment, "-e", f"XDG_CONFIG_HOME={folder}", words),
    )
    try:
        yield window
    finally:
        await window.tmux("kill-server")
        window.socket.unlink(missing_ok=True)
