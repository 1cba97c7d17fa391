# SPDX-License-Identifier: Apache-2.0
"""Tests of the testbed, and of the CRI client with a real runtime."""

from __future__ import annotations

import asyncio

import pytest

from nri_scope.errors import RpcError
from tests.cri.driver import ContainerState, Resources
from tests.runtime.testbed import leftovers
from tests.runtime.testbed.containerd import Containerd, running
from tests.runtime.testbed.driver import Driver, assert_healthy
from tests.runtime.testbed.packages import Binaries, TestbedError

pytestmark = pytest.mark.runtime


async def test_the_status_has_the_applied_runtime_spec(
    containerd: Containerd, driver: Driver
) -> None:
    pod = await driver.run_pod("shop", "web", {"note": "grüße"})
    container = await driver.create(pod, "app", env={"FOO": "bar"})
    await driver.start(container)
    await driver.update(container, Resources(cpu_shares=512))
    details = await containerd.cri.container_status(container.id)
    assert details.state is ContainerState.RUNNING
    assert details.runtime_spec is not None
    process = details.runtime_spec["process"]
    assert isinstance(process, dict)
    environment = process["env"]
    assert isinstance(environment, list)
    assert process["args"] == ["sleep", "1000000"]
    assert "FOO=bar" in environment


async def test_the_status_of_a_failed_start_has_the_reason(
    containerd: Containerd, driver: Driver
) -> None:
    pod = await driver.run_pod("jobs", "batch")
    broken = await driver.create(pod, "broken", ("/no/such/binary",))
    error = await driver.fail_to_start(broken)
    assert "/no/such/binary" in error.message
    details = await containerd.cri.container_status(broken.id)
    assert details.state is ContainerState.EXITED
    assert "/no/such/binary" in details.message


async def test_an_unknown_container_is_a_status_not_found(containerd: Containerd) -> None:
    with pytest.raises(RpcError) as caught:
        await containerd.cri.container_status("nope")
    assert caught.value.code == 5


@pytest.mark.parametrize("kill", [False, True], ids=["orderly", "killed"])
async def test_pods_survive_a_restart_of_containerd(
    containerd: Containerd, driver: Driver, kill: bool
) -> None:
    pod = await driver.run_pod("shop", "web")
    container = await driver.run(pod, "app")
    before = containerd.pid
    await containerd.restart(kill=kill)
    assert containerd.pid != before
    assert [each.id for each in await containerd.cri.list_pods()] == [pod.id]
    (summary,) = await containerd.cri.list_containers()
    assert (summary.id, summary.state) == (container.id, ContainerState.RUNNING)
    await driver.stop(container)
    await driver.live("shop", "another")


async def test_an_unfinished_snapshot_of_a_killed_containerd_fails_one_pod(
    containerd: Containerd, driver: Driver
) -> None:
    # Its snapshot is the newest one.
    await driver.run_pod("shop", "web")
    await containerd.stop(kill=True)
    (snapshots,) = containerd.layout.folder.glob("root/*.snapshotter.v1.native/snapshots")
    left = snapshots / str(1 + max(int(each.name) for each in snapshots.iterdir())) / "left"
    left.mkdir(parents=True)
    await containerd.start()
    await assert_healthy(containerd)
    assert not left.exists()


@pytest.mark.parametrize("how", ["fails", "is cancelled", "kills containerd"])
async def test_nothing_is_left_behind_when_a_test(binaries: Binaries, how: str) -> None:
    used: list[Containerd] = []
    before = leftovers.shim_sockets()
    set_up = asyncio.Event()

    async def use() -> None:
        async with running(binaries) as containerd:
            used.append(containerd)
            driver = Driver(containerd)
            await driver.run(await driver.run_pod("shop", "web"), "app")
            assert len(containerd.leftovers()) > 5
            assert leftovers.shim_sockets() - before
            set_up.set()
            if how == "kills containerd":
                await containerd.stop(kill=True)
            if how == "is cancelled":
                await asyncio.Event().wait()
            raise AssertionError("as a failed test does")

    task = asyncio.ensure_future(use())
    if how == "is cancelled":
        await set_up.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        with pytest.raises(AssertionError, match="as a failed test does"):
            await task
    assert used[0].leftovers() == []


async def test_a_failed_start_of_containerd_has_the_reason(binaries: Binaries) -> None:
    async with running(binaries, start=False) as containerd:
        containerd.layout.config.write_text("version = nonsense\n")
        with pytest.raises(TestbedError, match=r"did not come up[\s\S]*TOML"):
            await containerd.start()
