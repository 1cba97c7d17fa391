# SPDX-License-Identifier: Apache-2.0
"""A node with an emulated runtime, a real recorder, and an agent that can be killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from nri_scope.errors import RecordingError
from nri_scope.recording.reading.reader import Recording
from nri_scope.runtime import PROFILES, ProfileSetUp
from tests.agent.agent_process import Agent, agent
from tests.cli.container_events import create
from tests.cli.running import PATIENCE, Running, running
from tests.cluster.fake_kubectl import agent_pod, install, pod
from tests.cluster.plugin_command import KUBECTL
from tests.runtime_emulation.runtime import Runtime


class Node:
    """The node. Its recording has as many creations of containers as ``created``."""

    def __init__(self, folder: Path, runtime: Runtime) -> None:
        self.folder = folder
        self.runtime = runtime
        self.recording = folder / "recordings" / "node.nriscope.db"
        self.environment: dict[str, str] = {}
        """Of commands that use this cluster."""
        self.created = 0
        self.recorder: Running
        self.port = 0
        self._agent: Agent | None = None
        self._stack = AsyncExitStack()

    @property
    def agent(self) -> Agent:
        assert self._agent is not None
        return self._agent

    async def start_agent(self) -> None:
        """Start the agent, on the same port as before."""
        options = ("--grpc", f"127.0.0.1:{self.port}") if self.port else ()
        self._agent = await self._stack.enter_async_context(
            agent(self.recording.parent, "--unredacted", *options)
        )
        self.port = self._agent.port
        if not self.environment:
            pods = [agent_pod("node"), pod("shop", "web", "node", app="web")]
            cluster = {"pods": pods, "ports": {"nri-scope-node": self.port}}
            self.environment = install(self.folder / "bin", cluster)

    async def kill_agent(self) -> None:
        assert self._agent is not None
        self._agent.process.process.kill()
        await self._agent.process.process.wait()

    async def close(self) -> None:
        await self._stack.aclose()

    def change(self, **cluster: Any) -> None:
        """Change the cluster, for the next start of kubectl."""
        file = self.folder / "bin" / "cluster.json"
        new = file.with_name("new.json")
        new.write_text(json.dumps({**json.loads(file.read_text()), **cluster}))
        new.rename(file)

    async def create(self, count: int = 1, *, padding: int = 0) -> None:
        """Create containers, with an environment of some bytes."""
        for _ in range(count):
            await create(self.runtime, f"NUMBER={self.created}", os.urandom(padding // 2).hex())
            self.created += 1

    def forwards(self) -> list[int]:
        """Return the ids of the processes that forward ports."""
        return processes(b"port-forward", str(self.folder / "bin" / "kubectl").encode())

    def kill_forwards(self) -> int:
        """Kill the forwarded ports; return their number."""
        numbers = self.forwards()
        for number in numbers:
            os.kill(number, signal.SIGKILL)
        return len(numbers)


def processes(*words: bytes) -> list[int]:
    """Return the ids of the processes whose command line has all of these arguments."""
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if all(word in line for word in words):
            found.append(int(process.name))
    return found


@asynccontextmanager
async def live_node(folder: Path, *options: str) -> AsyncIterator[Node]:
    """Run a node with one container and an agent; ``options``: those of its recorder."""
    async with Runtime(ProfileSetUp(PROFILES["containerd-2.1"])) as runtime:
        await runtime.listen(folder / "nri.sock")
        node = Node(folder, runtime)
        node.recording.parent.mkdir(exist_ok=True)
        socket = folder / "nri.sock"
        async with running("record", "--socket", socket, "-o", node.recording, *options) as record:
            node.recorder = record
            await runtime.wait_plugins(1)
            await node.create()
            await until(lambda: creations(node.recording) == 1)
            await node.start_agent()
            try:
                yield node
            finally:
                await node.close()
                if record.process.returncode is None:
                    await record.interrupt()


@asynccontextmanager
async def kubectl(node: Node, *arguments: str | Path, **more: str) -> AsyncIterator[Running]:
    """Run ``kubectl nri-scope ARGUMENTS``; kill it at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        *(KUBECTL, *map(str, arguments)),
        env={**os.environ, **node.environment, **more},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Running(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.05)


def creations(path: Path) -> int:
    """Return the number of recorded creations of containers; 0 without a recording."""
    try:
        with Recording.open(path) as recording:
            return sum(event.event == "CreateContainer" for event in recording.events())
    except RecordingError:
        # It is just being created.
        return 0
