# SPDX-License-Identifier: Apache-2.0
"""The CRI client: one method a call, over gRPC on a runtime's unix socket."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from grpclib.client import Channel

from nri_scope._gen.cri.runtime import v1

from .codec import MessageCodec
from .failures import first_contact, translated
from .spec import ContainerSpec, PodSpec, Resources
from .status import ContainerDetails, ContainerSummary, PodSummary, RuntimeVersion, info_told

CONNECT_TIMEOUT = 5.0
"""Seconds until something that accepts connections must have answered ``Version``."""

CALL_TIMEOUT = 30.0
"""Seconds for a call. Generous: NRI plugins are asked within, two seconds and more each."""


async def connect(path: str | Path, *, timeout: float = CONNECT_TIMEOUT) -> CriClient:
    """Return a client for the runtime on unix socket ``path``, after it has answered.

    :param timeout: seconds to wait for the first answer.
    :raises ConnectError: no socket, no permission, no process listens, or no CRI runtime answers.
    :raises RpcError: a runtime answered, with an error.
    """
    client = CriClient(path)
    try:
        with first_contact(client.path, timeout):
            client.runtime = await client.version(timeout=timeout)
    except BaseException:
        client.close()
        raise
    return client


class CriClient:
    """Calls to one runtime; made by :func:`connect`. An asynchronous context manager.

    When the runtime restarts, the first call afterwards connects anew.

    Every call raises the same errors: ``RpcError`` with the runtime's status code and words,
    ``DeadlineExceeded``, ``ConnectionClosed`` when the runtime goes away in the middle,
    ``ConnectError`` when it cannot be reached, ``RemoteProtocolError`` when it answers nonsense.
    """

    runtime: RuntimeVersion
    """Who answered when the connection was made."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._channel = Channel(path=self.path, codec=MessageCodec())
        self._pods = v1.RuntimeServiceStub(self._channel)
        self._images = v1.ImageServiceStub(self._channel)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    async def version(self, *, timeout: float = CALL_TIMEOUT) -> RuntimeVersion:
        with translated(self.path, "Version", timeout):
            answer = await self._pods.version(v1.VersionRequest(version="v1"), timeout=timeout)
        return RuntimeVersion(
            answer.runtime_name, answer.runtime_version, answer.runtime_api_version
        )

    async def ready(self, *, timeout: float = CALL_TIMEOUT) -> bool:
        """Return whether the runtime says that it can run containers (``RuntimeReady``)."""
        with translated(self.path, "Status", timeout):
            answer = await self._pods.status(v1.StatusRequest(), timeout=timeout)
        conditions = answer.status.conditions if answer.status else []
        return any(each.type == "RuntimeReady" and each.status for each in conditions)

    async def list_images(self, *, timeout: float = CALL_TIMEOUT) -> list[str]:
        """Return the names (with tags) of all images that the runtime has."""
        with translated(self.path, "ListImages", timeout):
            answer = await self._images.list_images(v1.ListImagesRequest(), timeout=timeout)
        return [tag for image in answer.images for tag in image.repo_tags]

    async def run_pod(self, pod: PodSpec, *, timeout: float = CALL_TIMEOUT) -> str:
        """Create and start a pod sandbox; returns its id."""
        request = v1.RunPodSandboxRequest(config=pod.to_message())
        with translated(self.path, "RunPodSandbox", timeout):
            answer = await self._pods.run_pod_sandbox(request, timeout=timeout)
        return answer.pod_sandbox_id

    async def stop_pod(self, pod_id: str, *, timeout: float = CALL_TIMEOUT) -> None:
        """Stop a pod sandbox and every container in it that still runs."""
        request = v1.StopPodSandboxRequest(pod_sandbox_id=pod_id)
        with translated(self.path, "StopPodSandbox", timeout):
            await self._pods.stop_pod_sandbox(request, timeout=timeout)

    async def remove_pod(self, pod_id: str, *, timeout: float = CALL_TIMEOUT) -> None:
        """Remove a pod sandbox, with the containers that are left in it."""
        request = v1.RemovePodSandboxRequest(pod_sandbox_id=pod_id)
        with translated(self.path, "RemovePodSandbox", timeout):
            await self._pods.remove_pod_sandbox(request, timeout=timeout)

    async def list_pods(self, *, timeout: float = CALL_TIMEOUT) -> list[PodSummary]:
        with translated(self.path, "ListPodSandbox", timeout):
            answer = await self._pods.list_pod_sandbox(v1.ListPodSandboxRequest(), timeout=timeout)
        return [PodSummary.from_message(each) for each in answer.items]

    async def create_container(
        self, pod_id: str, pod: PodSpec, container: ContainerSpec, *, timeout: float = CALL_TIMEOUT
    ) -> str:
        """Create a container in a pod that :meth:`run_pod` made from ``pod``; returns its id."""
        request = v1.CreateContainerRequest(
            pod_sandbox_id=pod_id, config=container.to_message(), sandbox_config=pod.to_message()
        )
        with translated(self.path, "CreateContainer", timeout):
            answer = await self._pods.create_container(request, timeout=timeout)
        return answer.container_id

    async def start_container(self, container_id: str, *, timeout: float = CALL_TIMEOUT) -> None:
        request = v1.StartContainerRequest(container_id=container_id)
        with translated(self.path, "StartContainer", timeout):
            await self._pods.start_container(request, timeout=timeout)

    async def stop_container(
        self, container_id: str, *, grace: int = 0, timeout: float = CALL_TIMEOUT
    ) -> None:
        """Stop a container; it has ``grace`` seconds between SIGTERM and SIGKILL."""
        request = v1.StopContainerRequest(container_id=container_id, timeout=grace)
        with translated(self.path, "StopContainer", timeout + grace):
            await self._pods.stop_container(request, timeout=timeout + grace)

    async def remove_container(self, container_id: str, *, timeout: float = CALL_TIMEOUT) -> None:
        request = v1.RemoveContainerRequest(container_id=container_id)
        with translated(self.path, "RemoveContainer", timeout):
            await self._pods.remove_container(request, timeout=timeout)

    async def update_container(
        self, container_id: str, resources: Resources, *, timeout: float = CALL_TIMEOUT
    ) -> None:
        """Change the resources of a container, ``UpdateContainerResources`` in CRI."""
        request = v1.UpdateContainerResourcesRequest(
            container_id=container_id, linux=resources.to_message()
        )
        with translated(self.path, "UpdateContainerResources", timeout):
            await self._pods.update_container_resources(request, timeout=timeout)

    async def list_containers(self, *, timeout: float = CALL_TIMEOUT) -> list[ContainerSummary]:
        with translated(self.path, "ListContainers", timeout):
            answer = await self._pods.list_containers(v1.ListContainersRequest(), timeout=timeout)
        return [ContainerSummary.from_message(each) for each in answer.containers]

    async def container_info(self, container_id: str, *, timeout: float = CALL_TIMEOUT) -> str:
        """Return the JSON that a verbose ``ContainerStatus`` has under ``info``.

        Its ``runtimeSpec`` is the OCI spec that the runtime made. It has ``status`` too where the
        container failed to start; else it is exactly as told. Empty where the runtime tells none.
        """
        request = v1.ContainerStatusRequest(container_id=container_id, verbose=True)
        with translated(self.path, "ContainerStatus", timeout):
            answer = await self._pods.container_status(request, timeout=timeout)
        return info_told(answer)

    async def container_status(
        self, container_id: str, *, verbose: bool = True, timeout: float = CALL_TIMEOUT
    ) -> ContainerDetails:
        """Return state and times of a container; ``verbose`` adds the OCI spec that was really
        used.
        """
        request = v1.ContainerStatusRequest(container_id=container_id, verbose=verbose)
        with translated(self.path, "ContainerStatus", timeout):
            answer = await self._pods.container_status(request, timeout=timeout)
        return ContainerDetails.from_message(answer)
