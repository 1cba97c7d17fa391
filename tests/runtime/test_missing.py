# SPDX-License-Identifier: Apache-2.0
"""`missing` on a real containerd whose NRI names all plugins to validators."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.agent.agent_process import agent
from tests.cli.tap_process import plugin_file
from tests.cluster.fake_kubectl import agent_pod, install
from tests.cluster.plugin_command import KUBECTL, run
from tests.runtime.testbed.containerd import Containerd
from tests.runtime.testbed.driver import Driver
from tests.runtime.testbed.record import PATIENCE, recording

pytestmark = pytest.mark.runtime

PLUGIN = "33-thing"


class Plugin:
    """A plugin that connects, and is killed, when the test says so."""

    def __init__(self, containerd: Containerd, file: Path) -> None:
        self._containerd = containerd
        self._file = plugin_file(file)
        self._process: asyncio.subprocess.Process | None = None

    async def connect(self) -> None:
        before = self._containerd.connections(PLUGIN)
        self._process = await asyncio.create_subprocess_exec(
            *(self._file, "--socket", self._containerd.nri_socket),
            stderr=asyncio.subprocess.DEVNULL,
        )
        async with asyncio.timeout(PATIENCE):
            while self._containerd.connections(PLUGIN) == before:
                await asyncio.sleep(0.01)

    async def end(self, number: signal.Signals) -> None:
        assert self._process is not None
        if self._process.returncode is None:
            self._process.send_signal(number)
            await self._process.wait()


@asynccontextmanager
async def plugin(containerd: Containerd, folder: Path) -> AsyncIterator[Plugin]:
    one = Plugin(containerd, folder / PLUGIN)
    await one.connect()
    try:
        yield one
    finally:
        await one.end(signal.SIGKILL)


async def test_verdicts_equal_what_happened(validating: Containerd, tmp_path: Path) -> None:
    driver, truth = Driver(validating), dict[str, str]()
    file = tmp_path / "node" / "node.nriscope.db"
    file.parent.mkdir()
    pod = await driver.run_pod("shop", "web")

    async def create(name: str, presence: str) -> None:
        await driver.run(pod, name)
        truth[name] = presence

    await create("before-recorder", "unknown")
    async with recording(file, validating, "--validate") as recorder:
        await create("never-connected", "missing")
        async with plugin(validating, tmp_path) as one:
            await create("connected", "connected")
            await one.end(signal.SIGKILL)
            await create("first-killed", "unknown")
            await create("killed", "missing")
            await one.connect()
            await create("connected-again", "connected")
            await one.end(signal.SIGTERM)
            await create("first-stopped", "unknown")
            await create("stopped", "missing")
            await one.connect()
            await recorder.end(signal.SIGKILL)
            await create("no-recorder", "unknown")
            async with recording(file, validating, "--validate") as second:
                await create("recorded-again", "connected")
                await second.end()
    async with agent(file.parent) as served:
        cluster = {"pods": [agent_pod("node")], "ports": {"nri-scope-node": served.port}}
        environment = install(tmp_path / "bin", cluster)
        for name in ("thing", PLUGIN, "other"):
            options = ("missing", "--plugin", name, "--format", "json")
            done = await run(KUBECTL, *options, environment=environment)
            found = json.loads(done.output)["creations"]
            verdicts = {each["name"].rpartition("/")[2]: each["plugin"] for each in found}
            expected = truth | {"web": "unknown"}
            if name == "other":
                seen = truth.keys() - {"before-recorder", "no-recorder"}
                expected |= dict.fromkeys(seen, "missing")
            assert verdicts == expected, json.dumps(found, indent=1)
            assert len(found) == len(expected) and done.status == 1, done.errors
            assert all(one["evidence"] for one in found)
