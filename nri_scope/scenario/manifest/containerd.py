# SPDX-License-Identifier: Apache-2.0
"""Build what containerd sends to plugins for the kubelet's requests.

Sources: internal/cri/server, internal/cri/opts, internal/cri/nri and pkg/oci of containerd 2.1.9,
2.3.0 and 2.4, and pkg/cri of 1.7.24; default configuration, runc.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.versions import V0_10, NriVersion, sort_key
from nri_scope.runtime import Profile

from . import cri_request
from .cri_request import Access, ContainerRequest, CriMount, SandboxRequest
from .node_facts import NodeFacts, uid_of
from .resources import CriResources

_STATE = "io.containerd.grpc.v1.cri/sandboxes"
_V2 = sort_key("2.0.0-beta.0")
_V2_1 = sort_key("2.1.0-beta.0")
_V2_2 = sort_key("2.2.0-beta.0")
_V2_3 = sort_key("2.3.0-beta.0")
_V0_12_2 = NriVersion("0.12.2", (0, 12, 2, ((2, 0, ""),)))
_PAUSE_IMAGES = ((_V2_3, "3.10.2"), (_V2_2, "3.10.1"), (_V2, "3.10"), (None, "3.8"))


@dataclass(frozen=True, slots=True)
class Containerd:
    """A version of containerd on a node."""

    profile: Profile
    node: NodeFacts

    @property
    def has_recursive_readonly(self) -> bool:
        """Whether mounts may be read-only with all mounts below them."""
        return self._since(_V2)

    def sandbox(self, request: SandboxRequest) -> api.PodSandbox:
        """Return a pod as it is when its sandbox runs."""
        requested = request.resources
        prefix = "io.kubernetes.cri."
        own = {
            f"{prefix}container-type": "sandbox",
            f"{prefix}sandbox-cpu-period": str(requested.period),
            f"{prefix}sandbox-cpu-quota": str(requested.quota),
            f"{prefix}sandbox-cpu-shares": str(requested.shares),
            f"{prefix}sandbox-id": request.id,
            f"{prefix}sandbox-log-directory": request.log_folder,
            f"{prefix}sandbox-memory": str(requested.memory),
            f"{prefix}sandbox-name": request.name,
            f"{prefix}sandbox-namespace": request.namespace,
            f"{prefix}sandbox-uid": request.uid,
        }
        pod = cri_request.sandbox(request)
        pod.pid = request.pid
        pod.labels["io.cri-containerd.kind"] = "sandbox"
        if self._since(_V2):
            own[f"{prefix}podsandbox.image-name"] = self._pause_image()
        if self._since(_V2_1):
            pod.ips.extend(request.ips)
        if self._since(_V2_3):
            pod.labels["oci_runtime_type"] = "io.containerd.runc.v2"
        pod.annotations.update(own)
        pod.linux.cgroup_parent = request.cgroup_parent
        pod.linux.cgroups_path = _cgroups_path(request.cgroup_parent, request.id)
        pod.linux.namespaces.extend(cri_request.namespaces(self._sandbox_namespaces(request)))
        pod.linux.resources.CopyFrom(cri_request.sandbox_resources())
        return pod

    def container(self, pod: SandboxRequest, request: ContainerRequest) -> api.Container:
        """Return a container as it is in CreateContainer."""
        prefix = "io.kubernetes.cri."
        own = {
            f"{prefix}container-name": request.name,
            f"{prefix}container-type": "container",
            f"{prefix}image-name": request.image,
            f"{prefix}sandbox-id": pod.id,
            f"{prefix}sandbox-name": pod.name,
            f"{prefix}sandbox-namespace": pod.namespace,
            f"{prefix}sandbox-uid": pod.uid,
        }
        env = {"PATH": cri_request.DEFAULT_PATH}
        if request.has_tty:
            env["TERM"] = "xterm"
        env |= {"HOSTNAME": pod.hostname, **dict(request.env)}
        container = cri_request.container(pod, request, env.items())
        container.labels["io.cri-containerd.kind"] = "container"
        container.annotations.update({**own, **request.annotations})
        container.args.extend((*request.command, *request.args))
        container.mounts.extend(self._mounts(pod, request))
        namespaces = cri_request.namespaces(self._container_namespaces(pod, request))
        container.linux.namespaces.extend(namespaces)
        container.linux.resources.CopyFrom(self._resources(request))
        container.linux.cgroups_path = _cgroups_path(pod.cgroup_parent, request.id)
        container.hooks.SetInParent()
        if self._since(_V2_2):
            container.linux.seccomp_profile.CopyFrom(_seccomp_profile(request))
        if self._since(_V2_3):
            container.user.CopyFrom(cri_request.user(request.uid, request.gid, request.groups))
        if self._has_nri(_V0_12_2):
            container.image.name = request.image
        return container

    def remarks(self, request: ContainerRequest) -> Iterator[str]:
        """Yield what is unknown of a container as this runtime sends it."""
        prefix = f"container {request.name}: "
        yield "labels, variables, volumes and groups that images define are unknown"
        has_limit = any(limit for _, limit in request.resources.huge_pages)
        if has_limit and not self.node.limits_huge_pages:
            yield f"{prefix}containerd limits huge pages only if configured to"
        if request.is_privileged:
            yield f"{prefix}the node's devices, all of which it gets, are unknown"
        elif self._since(_V2_3) and request.seccomp.kind != "Unconfined":
            yield f"{prefix}the system calls of its seccomp profile were left out"

    def _since(self, version: object) -> bool:
        # A version that is no number is a build from a branch.
        own = sort_key(self.profile.runtime_version)
        assert isinstance(version, tuple)
        return own is None or own >= version

    def _has_nri(self, version: NriVersion) -> bool:
        own = self.profile.version
        return own is not None and own >= version

    def _pause_image(self) -> str:
        tag = next(tag for since, tag in _PAUSE_IMAGES if since is None or self._since(since))
        return self.node.pause_image or f"registry.k8s.io/pause:{tag}"

    def _sandbox_namespaces(self, request: SandboxRequest) -> Iterator[tuple[str, str]]:
        shared = request.namespaces
        if not shared.host_pid:
            yield "pid", ""
        if not shared.host_ipc:
            yield "ipc", ""
        if not shared.host_network:
            yield "uts", ""
        yield "mount", ""
        if not shared.host_network:
            yield "network", f"/var/run/netns/cni-{uid_of('netns', request.id)}"
        if shared.has_user_namespace:
            pinned = f"/run/containerd/{_STATE}/{request.id}/pinned-namespaces/user"
            yield "user", pinned if self._since(_V2) and not shared.host_network else ""

    def _container_namespaces(
        self, pod: SandboxRequest, request: ContainerRequest
    ) -> Iterator[tuple[str, str]]:
        shared = pod.namespaces
        joined = f"/proc/{pod.pid}/ns/"
        yield "pid", f"{joined}pid" if shared.host_pid or shared.shares_pid else ""
        yield "ipc", f"{joined}ipc"
        yield "uts", f"{joined}uts"
        yield "mount", ""
        yield "network", f"{joined}net"
        if self.node.cgroup_version == 2 and not request.is_privileged:
            yield "cgroup", ""
        if shared.has_user_namespace:
            yield "user", f"{joined}user"

    def _mounts(self, pod: SandboxRequest, request: ContainerRequest) -> Iterator[api.Mount]:
        root: Access = "ro" if request.has_readonly_root else "rw"
        files = f"/var/lib/containerd/{_STATE}/{pod.id}"
        shm = "/dev/shm" if pod.namespaces.host_ipc else f"/run/containerd/{_STATE}/{pod.id}/shm"
        extra = (
            CriMount("/etc/hostname", f"{files}/hostname", root),
            CriMount("/etc/hosts", f"{files}/hosts", root),
            CriMount("/etc/resolv.conf", f"{files}/resolv.conf", root),
            CriMount("/dev/shm", shm),
        )
        explicit = {_clean(mount.destination) for mount in request.mounts}
        mounts = [*request.mounts, *(mount for mount in extra if mount.destination not in explicit)]
        taken = {_clean(mount.destination) for mount in mounts}
        for default in self._default_mounts(request):
            below_dev = default.destination.startswith("/dev/") and "/dev" in taken
            if default.destination not in taken and not below_dev:
                yield default
        yield from map(cri_request.bind_mount, sorted(mounts, key=lambda mount: mount.depth))

    def _default_mounts(self, request: ContainerRequest) -> Iterator[api.Mount]:
        access = "rw" if request.is_privileged else "ro"
        yield from (cri_request.PROC, cri_request.DEV, cri_request.DEV_PTS, cri_request.DEV_MQUEUE)
        options = ["nosuid", "noexec", "nodev"]
        yield api.Mount(
            destination="/sys", type="sysfs", source="sysfs", options=[*options, access]
        )
        options += ["relatime", access]
        if request.is_privileged and self.node.cgroup_version == 2 and self._since(_V2_1):
            # Without a cgroup namespace the options of the node's cgroup file system are repeated.
            options += ["nsdelegate", "memory_recursiveprot"]
        yield api.Mount(
            destination="/sys/fs/cgroup", type="cgroup", source="cgroup", options=options
        )

    def _resources(self, request: ContainerRequest) -> api.LinuxResources:
        resources: CriResources = request.resources
        result = api.LinuxResources(
            memory=cri_request.memory(resources, has_swap_accounting=self.node.has_swap_accounting),
            cpu=api.LinuxCPU(shares=api.OptionalUInt64(value=resources.shares)),
            # Older versions of NRI do not pass these on.
            unified=dict(resources.unified) if self._has_nri(V0_10) else {},
            devices=[cri_request.device_rule(allow=request.is_privileged)],
        )
        if resources.period:
            result.cpu.period.value = resources.period
        if resources.quota:
            result.cpu.quota.value = resources.quota
        if self.node.limits_huge_pages:
            result.hugepage_limits.extend(cri_request.huge_pages(resources))
        return result


def _clean(path: str) -> str:
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


def _cgroups_path(parent: str, name: str) -> str:
    last = parent.rpartition("/")[2]
    if last.endswith(".slice"):
        return f"{last}:cri-containerd:{name}"
    return f"{parent}/{name}"


def _seccomp_profile(request: ContainerRequest) -> api.SecurityProfile:
    kinds = api.SecurityProfile.ProfileType
    kind = {
        "RuntimeDefault": kinds.RUNTIME_DEFAULT,
        "Unconfined": kinds.UNCONFINED,
        "Localhost": kinds.LOCALHOST,
    }[request.seccomp.kind]
    return api.SecurityProfile(profile_type=kind, localhost_ref=request.seccomp.file)
