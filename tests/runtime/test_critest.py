# SPDX-License-Identifier: Apache-2.0
"""A real containerd in the situations in which critest checks NRI: see `critest`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.cri.driver import ContainerSpec, ContainerState, CriDriver, PodSpec
from tests.runtime_emulation.critest import POD, SITUATIONS, Difference, NodeUnderTest, Observer

from .testbed.containerd import Containerd
from .testbed.images import BUSYBOX

pytestmark = pytest.mark.runtime

CONTAINERD = frozenset({Difference.LOSES_CONTAINERS})
CONTAINERD_2_1 = CONTAINERD | {Difference.REUSES_STOPPED_PODS}


class RealNode(NodeUnderTest):
    """A real runtime, by its CRI."""

    def __init__(
        self,
        cri: CriDriver,
        socket: Path,
        cgroup: str,
        connected: Callable[[str], int],
        differences: frozenset[Difference],
    ) -> None:
        """``connected`` returns how often the runtime has added ``NN-name`` to the chain."""
        self._cri, self._socket, self._cgroup = cri, socket, cgroup
        self._connected = connected
        self._pods: dict[str, PodSpec] = {}
        self.differences = differences

    async def join(self, plugin: Observer) -> None:
        name = f"{plugin.index}-{plugin.name}"
        before = self._connected(name)
        await plugin.connect(self._socket)
        await plugin.register()
        while self._connected(name) == before:
            await asyncio.sleep(0.01)

    async def run_pod(self, name: str = POD) -> str:
        spec = PodSpec(name, "payments-prod", uid=f"uid-{name}", cgroup_parent=self._cgroup)
        pod = await self._cri.run_pod(spec)
        self._pods[pod] = spec
        return pod

    async def stop_pod(self, pod: str) -> None:
        await self._cri.stop_pod(pod)

    async def remove_pod(self, pod: str) -> None:
        await self._cri.remove_pod(pod)

    async def create(self, pod: str, name: str, *, fails: bool = False) -> str:
        script = "exit 3" if fails else "trap 'exit 0' TERM; while :; do sleep 0.1; done"
        command = ("sh", "-c", script)
        spec = self._pods.get(pod) or PodSpec(POD, "payments-prod", uid=f"uid-{POD}")
        return await self._cri.create_container(
            pod, spec, ContainerSpec(name, BUSYBOX, command=command)
        )

    async def start(self, container: str) -> None:
        await self._cri.start_container(container)

    async def ended(self, container: str) -> None:
        while (await self._cri.container_status(container)).state != ContainerState.EXITED:
            await asyncio.sleep(0.01)

    async def stop(self, container: str) -> None:
        await self._cri.stop_container(container)

    async def remove(self, container: str) -> None:
        await self._cri.remove_container(container)

    async def exposed(self) -> set[str]:
        pods, containers = await self._cri.list_pods(), await self._cri.list_containers()
        return {pod.id for pod in pods} | {container.id for container in containers}


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.__name__)
async def test_situation(
    containerd: Containerd, situation: Callable[[NodeUnderTest], Awaitable[None]]
) -> None:
    layout = containerd.layout
    differences = CONTAINERD_2_1 if containerd.binaries.series == "2.1" else CONTAINERD
    node = RealNode(
        containerd.cri, layout.nri_socket, layout.cgroup, containerd.connections, differences
    )
    async with asyncio.timeout(60):
        await situation(node)
