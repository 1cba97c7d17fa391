# SPDX-License-Identifier: Apache-2.0
"""Convert the manifests of a text to the pods and containers that plugins would get.

What iSulad sends for the kubelet's requests is built here: src/daemon/common/nri/nri_convert.cc and
v1_cri_pod_sandbox_manager_service.cc of iSulad, and recorded traffic. Its long names and its
CreateContainer without an id are rules of the profile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.plain import Plain
from nri_scope.nri.versions import runtime_title
from nri_scope.runtime import Profile

from . import nri_values
from .containerd import Containerd
from .cri_o import CriO
from .cri_request import ContainerRequest, SandboxRequest
from .identity import go_json
from .kubelet import container_request, sandbox_request
from .node_facts import RESERVED_MEMORY, CgroupDriver, NodeFacts
from .objects import read_manifest
from .pod_spec import Kind, PodSpec, read_pod


@dataclass(frozen=True, slots=True)
class Isulad:
    """iSulad, on any node."""

    has_recursive_readonly = False

    def sandbox(self, request: SandboxRequest) -> api.PodSandbox:
        """Return a pod as it is when its sandbox runs."""
        prefix = "io.kubernetes.cri."
        own = {
            "cri.sandbox.isulad.checkpoint": _checkpoint(request),
            f"{prefix}container-type": "sandbox",
            f"{prefix}sandbox-attempt": str(request.attempt),
            f"{prefix}sandbox-name": request.name,
            f"{prefix}sandbox-namespace": request.namespace,
            f"{prefix}sandbox-uid": request.uid,
        }
        labels = {"cri.isulad.type": "podsandbox", "io.kubernetes.container.name": "POD"}
        return nri_values.sandbox(
            request,
            labels=labels,
            annotations=own,
            linux=api.LinuxPodSandbox(cgroup_parent=request.cgroup_parent),
            pid=request.pid,
        )

    def container(self, pod: SandboxRequest, request: ContainerRequest) -> api.Container:
        """Return a container as it is in CreateContainer: the request, without the command."""
        resources = nri_values.requested_resources(request.resources)
        resources.unified.update(request.resources.unified)
        return nri_values.container(
            pod,
            request,
            labels=request.labels,
            annotations=request.annotations,
            args=request.args,
            env=request.env,
            mounts=map(nri_values.bind_mount, request.mounts),
            linux=api.LinuxContainer(resources=resources),
        )

    def remarks(self, request: ContainerRequest) -> Iterator[str]:
        """Yield what is unknown of a container as this runtime sends it."""
        if request.command:
            yield f"container {request.name}: iSulad sends its arguments without its command"


def _checkpoint(request: SandboxRequest) -> str:
    data: dict[str, Plain] = {"host_network": True} if request.namespaces.host_network else {}
    value: dict[str, Plain] = {
        "version": "v1",
        "name": request.name,
        "ns": request.namespace,
        "data": data,
    }
    value["checksum"] = hashlib.sha256(go_json(value).encode()).hexdigest()
    return go_json(value)


@dataclass(frozen=True, slots=True)
class ManifestContainer:
    """A container as it is in CreateContainer."""

    kind: Kind
    container: api.Container


@dataclass(frozen=True, slots=True)
class ManifestPod:
    """A pod as it is in RunPodSandbox, with its containers in the order of their start."""

    pod: api.PodSandbox
    containers: tuple[ManifestContainer, ...]
    notes: tuple[str, ...]
    """What a cluster would know but the manifest does not state: left out or assumed."""
    replicas: int = 1
    """Number of such pods that the workload asks for."""


def pods_of(
    text: str,
    profile: Profile,
    *,
    cgroup_driver: CgroupDriver = "systemd",
    namespace: str = "default",
    memory: int | None = None,
    node: NodeFacts | None = None,
    source: str = "manifest",
) -> list[ManifestPod]:
    """Return the pods in ``text`` as the runtime of ``profile`` and a kubelet describe them.

    ``text`` has manifests in YAML or JSON, or the output of ``kubectl get``; ``namespace`` is that
    of objects without one. ``node`` replaces the facts about an ordinary node, but for its cgroup
    driver and, if not None, its ``memory`` in bytes. Names, ids and addresses that a cluster
    assigns are derived from the manifest.

    Raises UsageError with ``source``, the line and the field.
    """
    facts = replace(node or NodeFacts(), cgroup_driver=cgroup_driver)
    if memory is not None:
        allocatable = max(0, memory - RESERVED_MEMORY)
        facts = replace(facts, memory=memory, is_memory_known=True, allocatable_memory=allocatable)
    runtime = _runtime(profile, facts)
    manifest = read_manifest(text, source, namespace)
    return [_converted(read_pod(pod, manifest), runtime, facts) for pod in manifest.pods]


_Runtime = Containerd | CriO | Isulad


def _runtime(profile: Profile, node: NodeFacts) -> _Runtime:
    match runtime_title(profile.runtime_name):
        case "CRI-O":
            return CriO(node)
        case "iSulad":
            return Isulad()
    return Containerd(profile, node)


def _converted(spec: PodSpec, runtime: _Runtime, node: NodeFacts) -> ManifestPod:
    sandbox = sandbox_request(spec, node)
    containers = []
    for container in spec.containers:
        request = container_request(
            spec, container, node, has_recursive_readonly=runtime.has_recursive_readonly
        )
        containers.append(ManifestContainer(container.kind, runtime.container(sandbox, request)))
        for remark in runtime.remarks(request):
            spec.remarks.add(remark)
    return ManifestPod(
        runtime.sandbox(sandbox), tuple(containers), spec.remarks.texts(), spec.object.replicas
    )
