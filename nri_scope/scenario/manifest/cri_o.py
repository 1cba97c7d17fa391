# SPDX-License-Identifier: Apache-2.0
"""Build what CRI-O sends to plugins for the kubelet's requests.

Sources: server/, internal/factory and internal/config/cgmgr of CRI-O 1.37, and recorded traffic;
default configuration, runc.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.plain import Plain
from nri_scope.runtime import Profile

from . import cri_request
from .cri_request import ContainerRequest, CriMount, SandboxRequest
from .node_facts import NodeFacts, go_json, uid_of

_PREFIX = "io.kubernetes.cri-o."
_BIND = ("rw", "bind")


@dataclass(frozen=True, slots=True)
class CriO:
    """CRI-O on a node."""

    profile: Profile
    node: NodeFacts
    has_recursive_readonly = True

    def sandbox(self, request: SandboxRequest) -> api.PodSandbox:
        """Return a pod as it is when its sandbox runs."""
        parent = self._parent(request)
        pod = cri_request.sandbox(request)
        # Only containers that share their processes need the process of the sandbox.
        pod.pid = request.pid if request.namespaces.shares_pid else 0
        pod.ips.extend(request.ips)
        pod.labels["io.kubernetes.container.name"] = "POD"
        pod.linux.cgroup_parent = parent
        pod.linux.cgroups_path = _cgroups_path(parent, request.id)
        pod.linux.namespaces.extend(cri_request.namespaces(_sandbox_namespaces(request)))
        pod.linux.resources.CopyFrom(cri_request.sandbox_resources())
        return pod

    def container(self, pod: SandboxRequest, request: ContainerRequest) -> api.Container:
        """Return a container as it is in CreateContainer."""
        terminal = [("TERM", "xterm")] * (2 if request.has_tty else 1)
        path, host = ("PATH", cri_request.DEFAULT_PATH), ("HOSTNAME", pod.hostname)
        container = cri_request.container(pod, request, [path, *terminal, host, *request.env])
        container.annotations.update(self._annotations(pod, request))
        container.args.extend((*request.command, *request.args))
        container.mounts.extend(self._mounts(pod, request))
        namespaces = cri_request.namespaces(self._container_namespaces(pod, request))
        container.linux.namespaces.extend(namespaces)
        container.linux.resources.CopyFrom(self._resources(request))
        container.linux.cgroups_path = _cgroups_path(self._parent(pod), request.id)
        container.hooks.SetInParent()
        if self.profile.lifecycle_rules.contents.tells_process:
            container.user.CopyFrom(cri_request.user(request.uid, request.gid, request.groups))
        return container

    def remarks(self, request: ContainerRequest) -> Iterator[str]:
        """Yield what is unknown of a container as this runtime sends it."""
        yield "variables, volumes and groups that images define are unknown"
        yield (
            "annotations of CRI-O about the image, storage and time of creation of containers were "
            "left out"
        )
        if request.is_privileged:
            yield f"container {request.name}: the node's devices, all of which it gets, are unknown"

    def _parent(self, request: SandboxRequest) -> str:
        """Return a pod's cgroup: of systemd's slices, the last one."""
        last = request.cgroup_parent.rpartition("/")[2]
        return last if last.endswith(".slice") else request.cgroup_parent

    def _annotations(self, pod: SandboxRequest, request: ContainerRequest) -> dict[str, str]:
        metadata: dict[str, Plain] = {"name": request.name}
        if request.attempt:
            metadata["attempt"] = request.attempt
        identity = f"{pod.name}_{pod.namespace}_{pod.uid}"
        volumes: list[dict[str, Plain]] = [
            {
                "container_path": mount.destination,
                "host_path": mount.source,
                "readonly": mount.access != "rw",
                "recursive_read_only": mount.access == "rro",
                "propagation": ("rprivate", "rslave", "rshared").index(mount.propagation),
                "selinux_relabel": False,
            }
            for mount in sorted(request.mounts, key=lambda mount: mount.depth)
        ]
        own = {
            "Annotations": go_json(dict(sorted(request.annotations.items()))),
            "ContainerID": request.id,
            "ContainerType": "container",
            "ImageName": request.image,
            "Labels": go_json(dict(sorted(request.labels.items()))),
            "LogPath": f"{pod.log_folder}/{request.log_path}",
            "Metadata": go_json(metadata),
            "Name": f"k8s_{request.name}_{identity}_{request.attempt}",
            "ResolvPath": f"{_files(pod)}/resolv.conf",
            "SandboxID": pod.id,
            "SandboxName": f"k8s_{identity}_{pod.attempt}",
            "SeccompProfilePath": "Unconfined" if request.is_privileged else request.seccomp.kind,
            "Stdin": str(request.has_stdin).lower(),
            "StdinOnce": str(request.has_stdin_once).lower(),
            "TTY": str(request.has_tty).lower(),
            "Volumes": go_json(volumes),
        } | {f"IP.{index}": ip for index, ip in enumerate(pod.ips)}
        annotations = {
            **pod.annotations,
            **{_PREFIX + key: value for key, value in own.items()},
            "io.container.manager": "cri-o",
            "platform-runtime-path.crio.io": "",
            **request.annotations,
            **request.labels,
        }
        if self.node.cgroup_driver == "systemd":
            period = request.annotations["io.kubernetes.pod.terminationGracePeriod"]
            annotations |= {
                "org.systemd.property.After": "['crio.service']",
                "org.systemd.property.DefaultDependencies": "true",
                "org.systemd.property.TimeoutStopUSec": f"uint64 {period}000000",
            }
        return annotations

    def _container_namespaces(
        self, pod: SandboxRequest, request: ContainerRequest
    ) -> Iterator[tuple[str, str]]:
        shared = pod.namespaces
        if not shared.host_pid:
            yield "pid", f"/proc/{pod.pid}/ns/pid" if shared.shares_pid else ""
        if not shared.host_network:
            yield "network", _namespace_path("net", pod)
        yield "ipc", _namespace_path("ipc", pod)
        yield "uts", _namespace_path("uts", pod)
        yield "mount", ""
        if shared.has_user_namespace:
            yield "user", _namespace_path("user", pod)
        if self.node.cgroup_version == 2 and not request.is_privileged:
            yield "cgroup", ""

    def _mounts(self, pod: SandboxRequest, request: ContainerRequest) -> list[api.Mount]:
        requested = {mount.destination.rstrip("/") for mount in request.mounts}
        mounts: dict[str, api.Mount] = {}

        def add(mount: api.Mount) -> None:
            mounts.pop(mount.destination, None)
            mounts[mount.destination] = mount

        for mount in self._default_mounts(pod, request):
            hidden = any(
                parent in requested and mount.destination.startswith(f"{parent}/")
                for parent in ("/dev", "/sys")
            )
            if mount.destination not in requested and not hidden:
                add(mount)
        files = _files(pod)
        root = ("ro", "bind") if request.has_readonly_root else _BIND
        shm = "/dev/shm" if pod.namespaces.host_ipc else f"{files}/shm"
        add(_bind("/dev/shm", shm, *_BIND))
        add(_bind("/etc/resolv.conf", f"{files}/resolv.conf", *root, "nodev", "nosuid", "noexec"))
        add(_bind("/etc/hostname", f"{files}/hostname", *root))
        # A sandbox with a process has its folder.
        folder = f"/var/lib{files.removeprefix('/run')}" if pod.namespaces.shares_pid else files
        add(_bind("/run/.containerenv", f"{folder}/.containerenv", *root))
        if request.is_privileged:
            mounts = {mount.destination: _writable(mount) for mount in mounts.values()}
        by_depth: list[CriMount] = sorted(request.mounts, key=lambda mount: mount.depth)
        for requested_mount in by_depth:
            add(cri_request.bind_mount(requested_mount, "bind"))
        return list(mounts.values())

    def _default_mounts(
        self, pod: SandboxRequest, request: ContainerRequest
    ) -> Iterator[api.Mount]:
        yield from (cri_request.PROC, cri_request.DEV, cri_request.DEV_PTS, cri_request.DEV_MQUEUE)
        plain = ("nosuid", "noexec", "nodev")
        sys, cgroup = [*plain, "ro"], [*plain, "relatime", "ro"]
        if request.is_privileged:
            sys, cgroup = [*plain, "rw", "rslave"], [*plain, "rw", "relatime", "rslave"]
        yield api.Mount(destination="/sys", type="sysfs", source="sysfs", options=sys)
        yield api.Mount(
            destination="/sys/fs/cgroup", type="cgroup", source="cgroup", options=cgroup
        )

    def _resources(self, request: ContainerRequest) -> api.LinuxResources:
        resources = request.resources
        result = api.LinuxResources(
            memory=cri_request.memory(resources, has_swap_accounting=self.node.has_swap_accounting),
            cpu=api.LinuxCPU(
                shares=api.OptionalUInt64(value=resources.shares),
                quota=api.OptionalInt64(value=resources.quota),
                period=api.OptionalUInt64(value=resources.period),
            ),
            unified=dict(resources.unified),
            devices=[cri_request.device_rule(allow=request.is_privileged)],
            # The default of ``pids_limit``: none.
            pids=api.LinuxPids(limit=-1),
        )
        if self.node.limits_huge_pages is not False:
            result.hugepage_limits.extend(cri_request.huge_pages(resources))
        return result


def _cgroups_path(parent: str, name: str) -> str:
    if parent.endswith(".slice"):
        return f"{parent}:crio:{name}"
    return f"{parent}/crio-{name}"


def _files(pod: SandboxRequest) -> str:
    return f"/run/containers/storage/overlay-containers/{pod.id}/userdata"


def _writable(mount: api.Mount) -> api.Mount:
    """Return a mount as CRI-O passes it to a privileged container."""
    if "rw" in mount.options:
        return mount
    options = [option for option in mount.options if option != "ro"]
    return api.Mount(
        destination=mount.destination,
        type=mount.type,
        source=mount.source,
        options=[*options, "rw"],
    )


def _bind(destination: str, source: str, *options: str) -> api.Mount:
    return api.Mount(destination=destination, type="bind", source=source, options=options)


def _namespace_path(kind: str, pod: SandboxRequest) -> str:
    return f"/var/run/{kind}ns/{uid_of('namespaces', pod.id)}"


def _sandbox_namespaces(pod: SandboxRequest) -> Iterator[tuple[str, str]]:
    if not pod.namespaces.host_pid:
        yield "pid", ""
    for kind, name in (("network", "net"), ("ipc", "ipc"), ("uts", "uts")):
        yield kind, _namespace_path(name, pod)
    yield "mount", ""
    if pod.namespaces.has_user_namespace:
        yield "user", _namespace_path("user", pod)
