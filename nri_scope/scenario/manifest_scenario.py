# SPDX-License-Identifier: Apache-2.0
"""Make a scenario of Kubernetes manifests: their pods start to run on one runtime.

What iSulad sends for the kubelet's requests is built here: src/daemon/common/nri/nri_convert.cc and
v1_cri_pod_sandbox_manager_service.cc of iSulad, and recorded traffic. Its long names and its
CreateContainer without an id are rules of the profile.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError
from nri_scope.nri.plain import Plain
from nri_scope.nri.versions import runtime_title
from nri_scope.runtime import Profile

from .manifest import cri_request
from .manifest.containerd import Containerd
from .manifest.cri_o import CriO
from .manifest.cri_request import ContainerRequest, SandboxRequest
from .manifest.kubelet import container_request, sandbox_request
from .manifest.node_facts import MEMORY_OPTION, RESERVED_MEMORY, CgroupDriver, NodeFacts, go_json
from .manifest.objects import read_manifest
from .manifest.pod_spec import Kind, PodSpec, read_pod
from .model import (
    DEFAULT_NAMESPACE,
    ContainerKind,
    RuntimeChoice,
    Scenario,
    ScenarioContainer,
    ScenarioPod,
    unused_key,
)


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
        pod = cri_request.sandbox(request)
        pod.pid = request.pid
        pod.labels.update(labels)
        pod.annotations.update(own)
        pod.linux.cgroup_parent = request.cgroup_parent
        return pod

    def container(self, pod: SandboxRequest, request: ContainerRequest) -> api.Container:
        """Return a container as it is in CreateContainer: the request, without the command."""
        container = cri_request.container(pod, request, request.env)
        container.annotations.update(request.annotations)
        container.args.extend(request.args)
        container.mounts.extend(map(cri_request.bind_mount, request.mounts))
        resources = container.linux.resources
        resources.CopyFrom(cri_request.requested_resources(request.resources))
        resources.unified.update(request.resources.unified)
        return container

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
            return CriO(profile, node)
        case "iSulad":
            return Isulad()
        case "Docker Engine":
            raise UsageError("Docker Engine runs no pods", "choose the runtime of a kubelet")
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


_MANIFEST = re.compile(r'^(?:apiVersion|kind)\s*:|^\s*[{"].*"(?:apiVersion|kind)"', re.M | re.S)
_SCENARIO = re.compile(r'^scenario\s*:|\A(?:\s|#.*$)*\{\s*"scenario"', re.M)


def is_scenario(text: str) -> bool:
    """Return whether a text has the first key of a scenario."""
    return bool(_SCENARIO.search(text))


def is_manifest(text: str) -> bool:
    """Return whether a text looks like a manifest of Kubernetes instead of a scenario."""
    return not is_scenario(text) and bool(_MANIFEST.search(text))


def scenario_of_manifest(
    text: str,
    source: str,
    runtime: RuntimeChoice,
    *,
    cgroup_driver: CgroupDriver = "systemd",
    namespace: str = DEFAULT_NAMESPACE,
    node_memory: int | None = None,
) -> tuple[Scenario, list[str]]:
    """Return the scenario of the pods in a manifest, and notes on what the manifest lacks.

    ``node_memory``: bytes of memory of the node; None assumes an ordinary one. Raises UsageError
    with the line and the field.
    """
    made = pods_of(
        text,
        runtime.profile(),
        cgroup_driver=cgroup_driver,
        namespace=namespace,
        memory=node_memory,
        source=source,
    )
    scenario = Scenario(runtime=runtime, source=source)
    used: dict[str, int] = {}
    for pod in made:
        key = unused_key(f"{pod.pod.namespace}/{pod.pod.name}", used)
        scenario.pods[key] = _pod(key, pod)
    notes = dict.fromkeys(note for pod in made for note in pod.notes)
    # Where space is short, the first note is shown: the one on values that an option changes.
    return scenario, sorted(notes, key=lambda note: MEMORY_OPTION not in note)


def _pod(key: str, described: ManifestPod) -> ScenarioPod:
    pod = ScenarioPod(key, described.pod, given=_set_fields(described.pod.ListFields()))
    for described_container in described.containers:
        container = ScenarioContainer(
            described_container.container.name,
            described_container.container,
            ContainerKind(described_container.kind),
            _set_fields(described_container.container.ListFields()),
        )
        pod.containers[container.key] = container
    return pod


def _set_fields(fields: Iterable[tuple[object, object]]) -> frozenset[str]:
    return frozenset(str(getattr(field, "name")) for field, _ in fields)  # noqa: B009
