# SPDX-License-Identifier: Apache-2.0
"""Drive pods through the CRI, and collect the events expected by a passive plugin, in order.

The rules are those of containerd 1.7 and 2.1: StopContainer is sent exactly once for a container,
at its end or at the latest before its removal, even if it never ran; a pod is stopped before it is
removed; the end of pods older than containerd's last start is not sent, but the end of their
containers is, once any plugin was synchronized.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic

from nri_scope.errors import RpcError
from nri_scope.nri.request_subject import workload_of
from tests.cri.driver import ContainerSpec, PodSpec, Resources

from .containerd import Containerd
from .happened import Happened, Parallel, Step
from .images import BUSYBOX
from .packages import TestbedError

FOREVER = ("sleep", "1000000")

LEFT_SNAPSHOT = re.compile(r"failed to rename: .*/snapshots/\d+: file exists")
"""The error of containerd for a snapshot whose folder a killed containerd left behind."""


@dataclass(eq=False)
class Pod:
    """A pod and its containers that were not removed yet."""

    spec: PodSpec
    id: str
    containers: list[Container] = field(default_factory=list)
    stopped: bool = False
    is_older: bool = False
    """Whether the pod is older than containerd's last start."""

    def happened(self, event: str) -> Happened:
        return Happened(event, self.spec.namespace, self.spec.name, "", self.id, "")


@dataclass(eq=False)
class Container:
    """A created container."""

    pod: Pod
    name: str
    id: str
    runs: bool = False
    stop_told: bool = False
    unknown: bool = False
    """Whether NRI does not know the container, after a restart of containerd."""

    def happened(self, event: str) -> Happened:
        spec = self.pod.spec
        return Happened(event, spec.namespace, spec.name, self.name, self.pod.id, self.id)


class Driver:
    """CRI driver. Each method makes one CRI call and adds the expected events to :attr:`steps`."""

    def __init__(self, containerd: Containerd) -> None:
        self._containerd = containerd
        self._pods: list[Pod] = []
        self._times: list[float] = []
        self.steps: list[Step] = []

    def events_before(self, moment: float) -> int:
        """Return the number of events sent before ``moment`` of the monotonic clock."""
        done = self.steps[: bisect_left(self._times, moment)]
        return sum(1 if isinstance(step, Happened) else len(step.events) for step in done)

    def forget(self) -> None:
        """Clear the expected events; the pods remain."""
        self.steps.clear()
        self._times.clear()

    async def run_pod(
        self, namespace: str, name: str, annotations: Mapping[str, str] | None = None
    ) -> Pod:
        spec = PodSpec(
            name,
            namespace,
            labels={"app": workload_of(name)},
            annotations=annotations or {},
            cgroup_parent=self._containerd.layout.cgroup,
        )
        pod = Pod(spec, await self._containerd.cri.run_pod(spec))
        self._pods.append(pod)
        self._add(pod.happened("RunPodSandbox"))
        return pod

    async def create(
        self,
        pod: Pod,
        name: str,
        command: Sequence[str] = FOREVER,
        env: Mapping[str, str] | None = None,
        resources: Resources | None = None,
    ) -> Container:
        spec = ContainerSpec(
            name,
            BUSYBOX,
            command=command,
            env=env or {},
            labels={"app": workload_of(pod.spec.name)},
            resources=resources or Resources(),
        )
        container_id = await self._containerd.cri.create_container(pod.id, pod.spec, spec)
        container = Container(pod, name, container_id)
        pod.containers.append(container)
        self._happened(container, "CreateContainer", "PostCreateContainer")
        return container

    async def start(self, container: Container) -> None:
        await self._containerd.cri.start_container(container.id)
        container.runs = True
        self._happened(container, "StartContainer", "PostStartContainer")

    async def run(
        self,
        pod: Pod,
        name: str,
        command: Sequence[str] = FOREVER,
        resources: Resources | None = None,
    ) -> Container:
        container = await self.create(pod, name, command, resources=resources)
        await self.start(container)
        return container

    async def fail_to_start(self, container: Container) -> RpcError:
        """Start a container that cannot run; without events, as its process cannot be prepared.

        :raises TestbedError: the container started.
        """
        try:
            await self._containerd.cri.start_container(container.id)
        except RpcError as error:
            return error
        raise TestbedError(f"{container.name} was expected to fail, but started")

    async def start_to_end(self, container: Container) -> Happened:
        """Start a container that exits by itself; return the event expected for its end.

        That event may precede PostStartContainer.
        """
        await self._containerd.cri.start_container(container.id)
        (stopped,) = self._stop_events(container)
        self._happened(container, "StartContainer")
        self._add(Parallel([(container.happened("PostStartContainer"),), (stopped,)]))
        return stopped

    async def update(self, container: Container, resources: Resources) -> None:
        await self._containerd.cri.update_container(container.id, resources)
        self._happened(container, "UpdateContainer", "PostUpdateContainer")

    async def stop(self, container: Container) -> None:
        await self._containerd.cri.stop_container(container.id)
        self._add(*self._stop_events(container))

    async def remove(self, container: Container) -> None:
        """Remove a container; the runtime stops it if it is running."""
        await self._containerd.cri.remove_container(container.id)
        self._add(*self._stop_events(container))
        self._happened(container, "RemoveContainer")
        container.pod.containers.remove(container)

    async def stop_pod(self, pod: Pod) -> None:
        """Stop a pod; the runtime also stops its running containers."""
        await self._containerd.cri.stop_pod(pod.id)
        self._add(self._stop_pod_events(pod))

    async def remove_pod(self, pod: Pod) -> None:
        """Remove a pod; the runtime stops it and removes its containers as needed."""
        await self._containerd.cri.remove_pod(pod.id)
        self._add(self._stop_pod_events(pod))
        self._add(
            Parallel(
                (*self._stop_events(container), container.happened("RemoveContainer"))
                for container in pod.containers
                if not container.unknown
            )
        )
        if not pod.is_older:
            self._add(pod.happened("RemovePodSandbox"))
        self._pods.remove(pod)

    async def restart_containerd(self, *, kill: bool = False, synchronizes: bool = True) -> None:
        """Restart containerd; ``synchronizes``: whether a plugin gets a Synchronize then."""
        await self._containerd.restart(kill=kill)
        for pod in self._pods:
            pod.is_older = True
            for container in pod.containers:
                container.unknown = not synchronizes

    async def live(self, namespace: str, name: str, container_name: str = "app") -> None:
        """Play a whole pod lifecycle in the usual order."""
        pod = await self.run_pod(namespace, name)
        container = await self.run(pod, container_name)
        await self.update(container, Resources(cpu_shares=512))
        await self.stop(container)
        await self.remove(container)
        await self.stop_pod(pod)
        await self.remove_pod(pod)

    def _happened(self, container: Container, *events: str) -> None:
        if not container.unknown:
            self._add(*(container.happened(event) for event in events))

    def _add(self, *steps: Step) -> None:
        self.steps += steps
        self._times += [monotonic()] * len(steps)

    def _stop_events(self, container: Container) -> list[Happened]:
        container.runs = False
        if container.stop_told or container.unknown:
            return []
        container.stop_told = True
        return [container.happened("StopContainer")]

    def _stop_pod_events(self, pod: Pod) -> Parallel:
        if pod.stopped:
            return Parallel()
        pod.stopped = True
        own = () if pod.is_older else (pod.happened("StopPodSandbox"),)
        ends = [tuple(self._stop_events(each)) for each in pod.containers if each.runs]
        return Parallel([own, *ends])


async def assert_healthy(containerd: Containerd) -> None:
    """Check that the runtime still works, as kubelet does: a pod that fails is tried again.

    A snapshotter renames a snapshot's folder before it commits its metadata. If containerd is
    killed in between, the next snapshot has the same number, and its creation fails once: that
    failure removes the folder (containerd 2.1, ``createSnapshot``).
    """
    assert await containerd.cri.ready()
    try:
        await Driver(containerd).live("after", "all")
    except RpcError as error:
        if not LEFT_SNAPSHOT.search(error.message):
            raise
        await Driver(containerd).live("after", "again")
