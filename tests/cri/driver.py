# SPDX-License-Identifier: Apache-2.0
"""A CRI client that also creates pods and containers, for tests with a real runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from nri_scope._gen.cri.runtime import v1
from nri_scope.cri import CriClient
from nri_scope.cri.client import CALL_TIMEOUT, translated
from nri_scope.cri.status import parse_info
from nri_scope.errors import RemoteProtocolError
from nri_scope.specs import Json


@dataclass(frozen=True)
class PodSpec:
    """A pod sandbox with host networking, so that no CNI plugin is needed."""

    name: str
    namespace: str = "default"
    uid: str = ""
    """Empty: derived from namespace, name and attempt."""
    attempt: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    cgroup_parent: str = ""
    """Absolute path below each cgroup hierarchy's root; empty: the runtime's default."""
    log_directory: str = ""

    def to_message(self) -> v1.PodSandboxConfig:
        host = v1.NamespaceOption(network=v1.NamespaceMode.NODE)
        return v1.PodSandboxConfig(
            metadata=v1.PodSandboxMetadata(
                name=self.name,
                uid=self.uid or f"{self.namespace}-{self.name}-{self.attempt}",
                namespace=self.namespace,
                attempt=self.attempt,
            ),
            log_directory=self.log_directory,
            labels=dict(self.labels),
            annotations=dict(self.annotations),
            linux=v1.LinuxPodSandboxConfig(
                cgroup_parent=self.cgroup_parent,
                security_context=v1.LinuxSandboxSecurityContext(namespace_options=host),
            ),
        )


@dataclass(frozen=True)
class Resources:
    """Limits of one container; 0 and empty mean unchanged."""

    cpu_period: int = 0
    """Microseconds."""
    cpu_quota: int = 0
    """Microseconds in each period."""
    cpu_shares: int = 0
    memory_limit: int = 0
    """Bytes."""
    oom_score_adj: int = 0
    cpuset_cpus: str = ""
    cpuset_mems: str = ""
    unified: Mapping[str, str] = field(default_factory=dict)
    """cgroup v2 keys."""

    def to_message(self) -> v1.LinuxContainerResources:
        return v1.LinuxContainerResources(
            cpu_period=self.cpu_period,
            cpu_quota=self.cpu_quota,
            cpu_shares=self.cpu_shares,
            memory_limit_in_bytes=self.memory_limit,
            oom_score_adj=self.oom_score_adj,
            cpuset_cpus=self.cpuset_cpus,
            cpuset_mems=self.cpuset_mems,
            unified=dict(self.unified),
        )


@dataclass(frozen=True)
class ContainerSpec:
    """A container in the network namespace of the host."""

    name: str
    image: str
    command: Sequence[str] = ()
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    resources: Resources = field(default_factory=Resources)
    attempt: int = 0
    log_path: str = ""
    """Relative to the pod's ``log_directory``; empty discards the output."""

    def to_message(self) -> v1.ContainerConfig:
        host = v1.NamespaceOption(network=v1.NamespaceMode.NODE)
        return v1.ContainerConfig(
            metadata=v1.ContainerMetadata(name=self.name, attempt=self.attempt),
            # CRI-O refuses a container without user_specified_image.
            image=v1.ImageSpec(image=self.image, user_specified_image=self.image),
            command=list(self.command),
            args=list(self.args),
            envs=[v1.KeyValue(key=key, value=value.encode()) for key, value in self.env.items()],
            labels=dict(self.labels),
            annotations=dict(self.annotations),
            log_path=self.log_path,
            linux=v1.LinuxContainerConfig(
                resources=self.resources.to_message(),
                security_context=v1.LinuxContainerSecurityContext(namespace_options=host),
            ),
        )


class ContainerState(StrEnum):
    """State of a container; ``unknown`` also for states added to CRI later."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"


_STATES = {
    v1.ContainerState.CONTAINER_CREATED: ContainerState.CREATED,
    v1.ContainerState.CONTAINER_RUNNING: ContainerState.RUNNING,
    v1.ContainerState.CONTAINER_EXITED: ContainerState.EXITED,
}


@dataclass(frozen=True, slots=True)
class PodSummary:
    """One pod sandbox as ``ListPodSandbox`` shows it. ``created_ns``: since the Unix epoch."""

    id: str
    namespace: str
    name: str
    uid: str
    ready: bool
    created_ns: int

    @classmethod
    def from_message(cls, pod: v1.PodSandbox) -> PodSummary:
        metadata = pod.metadata or v1.PodSandboxMetadata()
        return cls(
            id=pod.id,
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            ready=pod.state == v1.PodSandboxState.SANDBOX_READY,
            created_ns=pod.created_at,
        )


@dataclass(frozen=True, slots=True)
class ContainerSummary:
    """One container as ``ListContainers`` shows it. ``created_ns``: since the Unix epoch."""

    id: str
    pod_id: str
    name: str
    image: str
    state: ContainerState
    created_ns: int

    @classmethod
    def from_message(cls, container: v1.Container) -> ContainerSummary:
        return cls(
            id=container.id,
            pod_id=container.pod_sandbox_id,
            name=(container.metadata or v1.ContainerMetadata()).name,
            image=(container.image or v1.ImageSpec()).image,
            state=_STATES.get(container.state, ContainerState.UNKNOWN),
            created_ns=container.created_at,
        )


@dataclass(frozen=True, slots=True)
class ContainerDetails:
    """One container as ``ContainerStatus`` shows it; times in ns since the Unix epoch, 0: not yet.

    ``runtime_spec`` is the OCI runtime-spec actually used; None without ``verbose`` or if the
    runtime does not return it. ``info`` is the whole verbose reply.
    """

    id: str
    name: str
    state: ContainerState
    exit_code: int
    reason: str
    message: str
    created_ns: int
    started_ns: int
    finished_ns: int
    runtime_spec: Mapping[str, Json] | None
    info: Mapping[str, Json]

    @classmethod
    def from_message(cls, response: v1.ContainerStatusResponse) -> ContainerDetails:
        """Return the details in a message. Raises RemoteProtocolError without a status or valid
        ``info``.
        """
        status = response.status
        if status is None:
            raise RemoteProtocolError("ContainerStatus was answered without a status")
        info = parse_info(response.info.get("info", ""))
        if info is None:
            raise RemoteProtocolError("ContainerStatus info is not a JSON object")
        spec = info.get("runtimeSpec")
        return cls(
            id=status.id,
            name=(status.metadata or v1.ContainerMetadata()).name,
            state=_STATES.get(status.state, ContainerState.UNKNOWN),
            exit_code=status.exit_code,
            reason=status.reason,
            message=status.message,
            created_ns=status.created_at,
            started_ns=status.started_at,
            finished_ns=status.finished_at,
            runtime_spec=spec if isinstance(spec, dict) else None,
            info=info,
        )


class CriDriver(CriClient):
    """CRI client that also creates, ends and lists pods and containers."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._images = v1.ImageServiceStub(self._channel)

    async def ready(self, *, timeout: float = CALL_TIMEOUT) -> bool:
        """Return whether the runtime reports that it can run containers (``RuntimeReady``)."""
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
        """Create and start a pod sandbox; return its id."""
        request = v1.RunPodSandboxRequest(config=pod.to_message())
        with translated(self.path, "RunPodSandbox", timeout):
            answer = await self._pods.run_pod_sandbox(request, timeout=timeout)
        return answer.pod_sandbox_id

    async def stop_pod(self, pod_id: str, *, timeout: float = CALL_TIMEOUT) -> None:
        """Stop a pod sandbox and its running containers."""
        request = v1.StopPodSandboxRequest(pod_sandbox_id=pod_id)
        with translated(self.path, "StopPodSandbox", timeout):
            await self._pods.stop_pod_sandbox(request, timeout=timeout)

    async def remove_pod(self, pod_id: str, *, timeout: float = CALL_TIMEOUT) -> None:
        """Remove a pod sandbox with its remaining containers."""
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
        """Create a container in a pod created by `run_pod` from ``pod``; return its id."""
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
        """Stop a container, with ``grace`` seconds between SIGTERM and SIGKILL."""
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

    async def container_status(
        self, container_id: str, *, verbose: bool = True, timeout: float = CALL_TIMEOUT
    ) -> ContainerDetails:
        """Return state and times of a container; ``verbose`` adds the OCI spec actually used."""
        request = v1.ContainerStatusRequest(container_id=container_id, verbose=verbose)
        with translated(self.path, "ContainerStatus", timeout):
            answer = await self._pods.container_status(request, timeout=timeout)
        return ContainerDetails.from_message(answer)
