# SPDX-License-Identifier: Apache-2.0
"""containerd#13609 on real runtimes: affected versions have the consequence, and others do not."""

from __future__ import annotations

import asyncio

import pytest

from nri_scope.doctor.known_bugs import known_bugs
from nri_scope.errors import NriScopeError, RpcError
from nri_scope.wire import Code, RequestReceived
from tests.runtime.testbed.containerd import Containerd
from tests.runtime.testbed.driver import Driver
from tests.runtime.testbed.packages import TestbedError
from tests.runtime.testbed.record import PATIENCE
from tests.runtime_emulation.small_plugin import Reply, SmallPlugin

pytestmark = pytest.mark.runtime

NAMES = "payments-prod", "checkout-api-7d9f8c6b5d-x2x9z"


async def tasks(containerd: Containerd) -> list[str]:
    """Return the ids of containerd's tasks, of which the CRI does not list those of no pod."""
    process = await asyncio.create_subprocess_exec(
        *(containerd.binaries.bin / "ctr", "--address", containerd.layout.cri_socket),
        *("--namespace", "k8s.io", "tasks", "ls", "--quiet"),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    return output.decode().split()


async def test_a_refused_pod_leaves_its_sandbox_and_the_next_restart_fails(
    containerd: Containerd, driver: Driver
) -> None:
    def refuse(request: RequestReceived) -> Reply:
        return RpcError(Code.UNKNOWN, "no pods today")

    plugin = SmallPlugin("10-refusing", mask=1)
    plugin.on |= {"StateChange": refuse, "RunPodSandbox": refuse}
    await plugin.connect(containerd.nri_socket)
    await plugin.register()
    async with asyncio.timeout(PATIENCE):
        while not containerd.connections("10-refusing"):
            await asyncio.sleep(0.01)
    with pytest.raises(NriScopeError, match="no pods today"):
        await driver.run_pod(*NAMES)
    left = await tasks(containerd)
    plugin.connected.close("over")
    runtime = plugin.configured
    is_affected = known_bugs()["containerd#13609"].affects(
        runtime.runtime_name, runtime.runtime_version, ""
    )
    assert len(left) == is_affected
    # The kubelet tries again.
    await driver.run_pod(*NAMES)
    if not is_affected:
        await containerd.restart()
        return
    with pytest.raises(TestbedError, match="failed to reserve sandbox name"):
        await containerd.restart()
