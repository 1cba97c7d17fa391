# SPDX-License-Identifier: Apache-2.0
"""Values of NRI messages that several runtimes write alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nri_scope._gen.nri import api_pb2 as api

from .cri_request import ContainerRequest, CriMount, SandboxRequest
from .resources import CriResources

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


def sandbox(
    request: SandboxRequest,
    *,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    linux: api.LinuxPodSandbox,
    pid: int,
    ips: Iterable[str] = (),
) -> api.PodSandbox:
    """Return a pod with the values that all runtimes take over from its request."""
    linux.pod_overhead.CopyFrom(requested_resources(request.overhead))
    linux.pod_resources.CopyFrom(requested_resources(request.resources))
    return api.PodSandbox(
        id=request.id,
        name=request.name,
        uid=request.uid,
        namespace=request.namespace,
        labels={**request.labels, **labels},
        annotations={**request.annotations, **annotations},
        runtime_handler=request.runtime_handler,
        linux=linux,
        pid=pid,
        ips=ips,
    )


def sandbox_resources() -> api.LinuxResources:
    """Return the resources of the sandbox's own process."""
    return api.LinuxResources(
        cpu=api.LinuxCPU(shares=api.OptionalUInt64(value=2)), devices=[device_rule(allow=False)]
    )


def container(
    pod: SandboxRequest,
    request: ContainerRequest,
    *,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    args: Iterable[str],
    env: Iterable[tuple[str, str]],
    mounts: Iterable[api.Mount],
    linux: api.LinuxContainer,
) -> api.Container:
    """Return a container with the values that all runtimes take over from its request."""
    linux.oom_score_adj.value = request.resources.oom_score_adj
    return api.Container(
        id=request.id,
        pod_sandbox_id=pod.id,
        name=request.name,
        labels=labels,
        annotations=annotations,
        args=args,
        env=[f"{name}={value}" for name, value in env],
        mounts=mounts,
        linux=linux,
    )


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
    """Return a mount of the request."""
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
