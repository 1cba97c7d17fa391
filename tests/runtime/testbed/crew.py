# SPDX-License-Identifier: Apache-2.0
"""Plugins in separate processes, in the chain of one containerd."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.interop.build import Unavailable, Variant, build

from . import actor, meddler
from .containerd import Containerd
from .deeds import Answers
from .packages import TestbedError
from .record import PATIENCE

GO_EVENTS = 0x07FF
"""Events of NRI 0.6 to 0.8; with another bit, the runtime disconnects the plugin."""

GO_ADJUSTMENT = json.dumps(
    {
        "env": [{"key": "-SHARED"}, {"key": "SHARED", "value": "of-go"}],
        "mounts": [
            {"destination": "/etc/go", "source": "/etc/hostname", "type": "bind"}
            | {"options": ["rbind", "ro"]},
            {"destination": "/etc/shared", "source": "/usr/sbin", "type": "bind"}
            | {"options": ["rbind"]},
        ],
        "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1000, "soft": 500}],
        "hooks": {"createRuntime": [{"path": "/bin/true", "args": ["true", "of-go"]}]},
        "linux": {"devices": [{"path": "/dev/go", "type": "c", "major": 1, "minor": 5}]},
    }
)


class Member:
    """A plugin process."""

    def __init__(self, process: Process, answers: Answers) -> None:
        self.process = process
        self.answers = answers

    @property
    def plugin(self) -> str:
        """``NN-name``."""
        return self.answers.plugin

    async def kill(self) -> None:
        """Kill the process with SIGKILL, and wait for its end."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


class Crew:
    """Plugins of one containerd; created by :func:`crew`."""

    def __init__(self, containerd: Containerd, folder: Path) -> None:
        self._containerd = containerd
        self._folder = folder
        self.members: dict[str, Member] = {}
        """All plugins started so far, by index."""

    async def join(self, index: str) -> Member:
        """Start a meddler at this index, and wait until it is in the chain."""
        notes = self._folder / f"notes-{index}"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, meddler.__file__, "--index", index, "--once"),
            *("--socket", self._containerd.nri_socket),
            env={**os.environ, "NOTES": str(notes), "INDEX": index},
            stdout=DEVNULL,
        )
        return await self._joined(process, index, Answers(f"{index}-meddler", notes, is_go=False))

    async def join_go(self, index: str) -> Member:
        """Start the reference plugin, or a meddler without Go."""
        try:
            program = build(Variant.NRI_0_8).plugin
        except Unavailable:
            return await self.join(index)
        notes = self._folder / f"notes-{index}"
        process = await asyncio.create_subprocess_exec(
            *(program, f"-socket={self._containerd.nri_socket}", "-name=reference"),
            *(f"-index={index}", f"-events={GO_EVENTS}", f"-requests={notes}"),
            *(f"-adjust={GO_ADJUSTMENT}", "-annotation=go.example.com/name", "-env=GO"),
            stdin=PIPE,
            stdout=DEVNULL,
        )
        return await self._joined(process, index, Answers(f"{index}-reference", notes, is_go=True))

    async def join_slow(self, index: str) -> None:
        """Start a plugin that replies too late when a container named ``app`` is created."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, actor.__file__, "--index", index, "--once"),
            *("--socket", self._containerd.nri_socket),
            env={**os.environ, "PART": "slow"},
            stdout=DEVNULL,
        )
        notes = self._folder / f"notes-{index}"
        await self._joined(process, index, Answers(f"{index}-actor", notes, is_go=False))

    async def end(self) -> None:
        """Kill the remaining plugins."""
        for member in self.members.values():
            await member.kill()

    async def _joined(self, process: Process, index: str, answers: Answers) -> Member:
        member = self.members[index] = Member(process, answers)
        try:
            async with asyncio.timeout(PATIENCE):
                while not self._containerd.connections(answers.plugin):
                    if process.returncode is not None:
                        raise TestbedError(f"{answers.plugin} exited before it connected")
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise TestbedError(f"{answers.plugin} was not connected in {PATIENCE:g} s") from None
        return member


@asynccontextmanager
async def crew(containerd: Containerd, folder: Path) -> AsyncIterator[Crew]:
    """Provide a crew for the duration of a block, and kill its plugins afterwards."""
    one = Crew(containerd, folder)
    try:
        yield one
    finally:
        await one.end()
