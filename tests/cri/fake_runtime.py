# SPDX-License-Identifier: Apache-2.0
"""A fake CRI runtime over real gRPC, with replies set by the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from grpclib.exceptions import GRPCError
from grpclib.server import Server

from nri_scope._gen.cri.runtime import v1


class FakeRuntime(v1.RuntimeServiceBase):
    """Replies to ``Version``; other calls are stored in ``requests`` and get the replies set up."""

    def __init__(self) -> None:
        self.requests: list[object] = []
        self.called = asyncio.Event()
        self.failure: GRPCError | None = None
        self.hang = False
        self.status_answer = v1.ContainerStatusResponse()

    async def version(self, message: v1.VersionRequest) -> v1.VersionResponse:
        return v1.VersionResponse(
            version="0.1.0",
            runtime_name="containerd",
            runtime_version="v1.7.24",
            runtime_api_version="v1",
        )

    async def run_pod_sandbox(self, message: v1.RunPodSandboxRequest) -> v1.RunPodSandboxResponse:
        await self._act(message)
        return v1.RunPodSandboxResponse(pod_sandbox_id="pod-1")

    async def create_container(
        self, message: v1.CreateContainerRequest
    ) -> v1.CreateContainerResponse:
        await self._act(message)
        return v1.CreateContainerResponse(container_id="container-1")

    async def stop_container(self, message: v1.StopContainerRequest) -> v1.StopContainerResponse:
        await self._act(message)
        return v1.StopContainerResponse()

    async def update_container_resources(
        self, message: v1.UpdateContainerResourcesRequest
    ) -> v1.UpdateContainerResourcesResponse:
        await self._act(message)
        return v1.UpdateContainerResourcesResponse()

    async def list_containers(self, message: v1.ListContainersRequest) -> v1.ListContainersResponse:
        await self._act(message)
        return v1.ListContainersResponse(
            containers=[
                v1.Container(
                    id="container-1",
                    pod_sandbox_id="pod-1",
                    metadata=v1.ContainerMetadata(name="app"),
                    image=v1.ImageSpec(image="localhost/busybox:1"),
                    state=v1.ContainerState.CONTAINER_RUNNING,
                    created_at=17,
                ),
                # A state that a later CRI version may add.
                v1.Container(id="container-2", state=v1.ContainerState(99)),
            ]
        )

    async def container_status(
        self, message: v1.ContainerStatusRequest
    ) -> v1.ContainerStatusResponse:
        await self._act(message)
        return self.status_answer

    async def _act(self, message: object) -> None:
        self.requests.append(message)
        self.called.set()
        if self.hang:
            await asyncio.Event().wait()
        if self.failure is not None:
            raise self.failure


@asynccontextmanager
async def listening(runtime: FakeRuntime, path: Path) -> AsyncIterator[None]:
    server = Server([runtime])
    await server.start(path=str(path))
    try:
        yield
    finally:
        server.close()
        await server.wait_closed()
