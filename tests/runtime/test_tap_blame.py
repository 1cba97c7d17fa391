# SPDX-License-Identifier: Apache-2.0
"""Attribution by taps on a chain of plugins with a real containerd, compared with the CRI."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nri_scope.cli.main import run
from nri_scope.errors import RpcError
from tests.cli.tap_process import PATIENCE, tapping
from tests.runtime.testbed.containerd import Containerd
from tests.runtime.testbed.driver import Driver
from tests.runtime.testbed.record import nri_scope, recording

pytestmark = pytest.mark.runtime

INJECTOR, POLICY = "20-injector", "60-policy"
REFUSED = "70-refused"
SOURCE = {
    # containerd rejects a shared mount whose source is not on a shared mount of the node.
    REFUSED: """
class Plugin:
    def create_container(self, pod, container):
        return adjust(mounts=[bind("/refused", "/proc", "rshared")])

    def stop_container(self, pod, container):
        pass

    def remove_container(self, pod, container):
        pass
""",
    INJECTOR: """
class Plugin:
    def create_container(self, pod, container):
        return adjust(env={"INJECTED": "yes"}, cpu={"quota": 50000})
""",
    # The pids limit exists since NRI 0.7. Running containers are updated in replies to creations,
    # and each container by an unsolicited update after its start.
    POLICY: """
class Plugin:
    def __init__(self):
        self.running = []

    def configure(self, config, runtime):
        self.runtime = runtime

    def create_container(self, pod, container):
        return api.CreateContainerResponse(
            adjust=adjust(cpu={"shares": 512}, pids=64),
            update=[update(one, cpu={"shares": 256}) for one in self.running],
        )

    def post_start_container(self, pod, container):
        self.running.append(container.id)
        self.runtime.update_containers([update(container.id, memory={"limit": 1 << 26})])
""",
}


@asynccontextmanager
async def plugin(name: str, folder: Path, socket: Path) -> AsyncIterator[None]:
    """An external plugin that connects to a socket."""
    path = folder / name
    index, _, title = name.partition("-")
    path.write_text(
        "from nri_scope.plugin import api, run\n"
        "from tests.plugin_builders import adjust, bind, update\n"
        f"{SOURCE[name]}\nrun(Plugin(), name={title!r}, index={index!r})\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, path, "--socket", socket, "--once"
    )
    try:
        yield
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_owners_are_exact_on_every_nri_version(
    containerd: Containerd, driver: Driver, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, socket = tmp_path / "chain.nriscope.db", tmp_path / "tap.sock"
    async with tapping("--listen", socket, "--socket", containerd.nri_socket, "-o", file) as tap:
        await tap.wait_for_text("plugins can connect")
        async with plugin(INJECTOR, tmp_path, socket), plugin(POLICY, tmp_path, socket):
            async with asyncio.timeout(PATIENCE):
                while not all(containerd.connections(name) for name in (INJECTOR, POLICY)):
                    await asyncio.sleep(0.01)
            pod = await driver.run_pod("shop", "web")
            app = await driver.run(pod, "app")
            async with asyncio.timeout(PATIENCE):
                while "UpdateContainers" not in await nri_scope("log", file):
                    await asyncio.sleep(0.05)
            await driver.run(pod, "sidecar")
            info = json.loads(await containerd.cri.container_info(app.id))
        status, _, errors = await tap.interrupt()
    assert status == 0, errors
    capsys.readouterr()
    # As diff(1): plugins changed something.
    assert run(["blame", str(file), "shop/web/app", "--format", "json"]) == 0
    history = json.loads(capsys.readouterr().out)
    requests = [*history["changes"], *history["requests"]]
    assert all(request["evidence"] == ["tap"] for request in requests)
    assert all(request["owner_detail"]["exact"] for request in requests)
    outcomes = {
        (one["path"], one["owner"], one["after"]): one["outcome"]["kind"] for one in requests
    }
    resources = "/linux/resources"
    expected = {
        ("/process/env/INJECTED", INJECTOR, "yes"): "seen",
        (f"{resources}/cpu/quota", INJECTOR, 50000): "seen",
        (f"{resources}/cpu/shares", POLICY, 512): "seen",
        # Requested by an unsolicited update, and at the creation of another container.
        (f"{resources}/memory/limit", POLICY, 1 << 26): "requested",
        (f"{resources}/cpu/shares", POLICY, 256): "requested",
    }
    assert outcomes.items() >= expected.items()
    is_dropped = outcomes[f"{resources}/pids/limit", POLICY, 64] == "dropped"
    assert is_dropped == (containerd.binaries.series == "1.7")
    spec = info["runtimeSpec"]
    assert "INJECTED=yes" in spec["process"]["env"]
    assert spec["linux"]["resources"]["cpu"]["quota"] == 50000


async def test_creations_that_all_fail_are_diagnosed(
    containerd: Containerd, driver: Driver, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tapped, plain = tmp_path / "tapped.nriscope.db", tmp_path / "plain.nriscope.db"
    socket = tmp_path / "tap.sock"
    async with (
        tapping("--listen", socket, "--socket", containerd.nri_socket, "-o", tapped) as tap,
        recording(plain, containerd) as record,
    ):
        await tap.wait_for_text("plugins can connect")
        async with plugin(REFUSED, tmp_path, socket):
            async with asyncio.timeout(PATIENCE):
                while not containerd.connections(REFUSED):
                    await asyncio.sleep(0.01)
            pod = await driver.run_pod("shop", "web")
            for _ in range(3):
                with pytest.raises(RpcError):
                    await driver.create(pod, "app")
        status, _, errors = await tap.interrupt()
        assert status == 0, errors
        assert await record.end() == 0
    for file in (tapped, plain):
        capsys.readouterr()
        assert run(["report", "--diagnose", str(file), "--format", "json"]) == 1
        (finding,) = json.loads(capsys.readouterr().out)["findings"]
        assert finding["kind"] == "failed"
        assert finding["level"] == "problem"
        assert "shop/web/app" in finding["containers"]
        # Only the tap's recording has the requested mount, and therefore a possible reason.
        assert ("unless /proc is shared" in finding["detail"]) == (file is tapped)
