# SPDX-License-Identifier: Apache-2.0
"""Requests of the kubelet to a runtime, and the values of NRI messages that runtimes make of them.

Requests are reduced to what a plugin can notice; the values are those that several runtimes write
alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from nri_scope._gen.nri import api_pb2 as api

from .resources import CriResources

Access = Literal["rw", "ro", "rro"]
Propagation = Literal["rprivate", "rslave", "rshared"]


@dataclass(frozen=True, slots=True)
class CriMount:
    """A folder or file of the node for a container."""

    destination: str
    source: str
    access: Access = "rw"
    propagation: Propagation = "rprivate"

    @property
    def options(self) -> tuple[str, str, str]:
        """Mount options as all runtimes write them."""
        return "rbind", self.propagation, self.access

    @property
    def depth(self) -> int:
        """Number of path elements, by which runtimes sort mounts."""
        return sum(1 for part in self.destination.split("/") if part not in ("", "."))


@dataclass(frozen=True, slots=True)
class NamespaceOptions:
    """Namespaces that a pod shares with its node or among its containers."""

    host_network: bool
    host_pid: bool
    host_ipc: bool
    shares_pid: bool
    """Whether the containers share one namespace of processes."""
    has_user_namespace: bool
    """Whether the pod has a namespace of users."""


@dataclass(frozen=True, slots=True)
class SandboxRequest:
    """RunPodSandbox of the CRI."""

    id: str
    pid: int
    name: str
    namespace: str
    uid: str
    attempt: int
    hostname: str
    """The node's name for a pod with the network of its node."""
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    log_folder: str
    cgroup_parent: str
    resources: CriResources
    overhead: CriResources
    namespaces: NamespaceOptions
    runtime_handler: str
    ips: Sequence[str]


@dataclass(frozen=True, slots=True)
class SeccompProfile:
    """Seccomp profile of a container; ``file`` of a profile on the node."""

    kind: Literal["RuntimeDefault", "Unconfined", "Localhost"]
    file: str = ""


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """CreateContainer of the CRI."""

    id: str
    name: str
    attempt: int
    image: str
    command: Sequence[str]
    args: Sequence[str]
    env: Sequence[tuple[str, str]]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    mounts: Sequence[CriMount]
    resources: CriResources
    uid: int
    gid: int
    groups: Sequence[int]
    """Supplemental groups."""
    seccomp: SeccompProfile
    is_privileged: bool
    has_readonly_root: bool
    has_tty: bool
    has_stdin: bool
    has_stdin_once: bool
    log_path: str
    """Path of the log below the pod's folder."""


DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PROC = api.Mount(
    destination="/proc", type="proc", source="proc", options=("nosuid", "noexec", "nodev")
)
DEV = api.Mount(
    destination="/dev",
    type="tmpfs",
    source="tmpfs",
    options=("nosuid", "strictatime", "mode=755", "size=65536k"),
)
DEV_PTS = api.Mount(
    destination="/dev/pts",
    type="devpts",
    source="devpts",
    options=("nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"),
)
DEV_MQUEUE = api.Mount(
    destination="/dev/mqueue", type="mqueue", source="mqueue", options=("nosuid", "noexec", "nodev")
)


def sandbox(request: SandboxRequest) -> api.PodSandbox:
    """Return a pod with the values that all runtimes take over from its request."""
    return api.PodSandbox(
        id=request.id,
        name=request.name,
        uid=request.uid,
        namespace=request.namespace,
        labels=request.labels,
        annotations=request.annotations,
        runtime_handler=request.runtime_handler,
        linux=api.LinuxPodSandbox(
            pod_overhead=requested_resources(request.overhead),
            pod_resources=requested_resources(request.resources),
        ),
    )


def sandbox_resources() -> api.LinuxResources:
    """Return the resources of the sandbox's own process."""
    return api.LinuxResources(
        cpu=api.LinuxCPU(shares=api.OptionalUInt64(value=2)), devices=[device_rule(allow=False)]
    )


def container(
    pod: SandboxRequest, request: ContainerRequest, env: Iterable[tuple[str, str]]
) -> api.Container:
    """Return a container with the values that all runtimes take over from its request."""
    result = api.Container(
        id=request.id,
        pod_sandbox_id=pod.id,
        name=request.name,
        labels=request.labels,
        env=[f"{name}={value}" for name, value in env],
    )
    result.linux.oom_score_adj.value = request.resources.oom_score_adj
    return result


def memory(resources: CriResources, *, has_swap_accounting: bool) -> api.LinuxMemory:
    """Return the limits of memory and swap of a container; nothing without a limit."""
    limits = api.LinuxMemory()
    if resources.memory:
        limits.limit.value = resources.memory
        if has_swap_accounting:
            limits.swap.value = resources.swap or resources.memory
    return limits


def requested_resources(resources: CriResources) -> api.LinuxResources:
    """Return resources as requested over the CRI, including those that are not set."""
    return api.LinuxResources(
        cpu=api.LinuxCPU(
            shares=api.OptionalUInt64(value=resources.shares),
            quota=api.OptionalInt64(value=resources.quota),
            period=api.OptionalUInt64(value=resources.period),
        ),
        memory=api.LinuxMemory(limit=api.OptionalInt64(value=resources.memory)),
        hugepage_limits=huge_pages(resources),
    )


def huge_pages(resources: CriResources) -> list[api.HugepageLimit]:
    """Return the limits of huge pages."""
    return [api.HugepageLimit(page_size=size, limit=limit) for size, limit in resources.huge_pages]


def device_rule(*, allow: bool) -> api.LinuxDeviceCgroup:
    """Return the rule for devices that no other rule names."""
    return api.LinuxDeviceCgroup(allow=allow, access="rwm")


def bind_mount(mount: CriMount, *more: str) -> api.Mount:
    """Return the NRI mount of a CRI mount, with ``more`` options."""
    return api.Mount(
        destination=mount.destination,
        type="bind",
        source=mount.source,
        options=(*mount.options, *more),
    )


def namespaces(pairs: Iterable[tuple[str, str]]) -> list[api.LinuxNamespace]:
    """Return namespaces from types and paths."""
    return [api.LinuxNamespace(type=kind, path=path) for kind, path in pairs]


def user(uid: int, gid: int, groups: Iterable[int]) -> api.User:
    """Return a user with the group of its own among the additional ones."""
    return api.User(uid=uid, gid=gid, additional_gids=sorted({gid, *groups}))
