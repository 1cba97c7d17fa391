# SPDX-License-Identifier: Apache-2.0
"""Turn a pod into the requests that the kubelet sends to a runtime.

The rules are those of pkg/kubelet/kuberuntime of Kubernetes 1.34: ``generatePodSandboxConfig``,
``generateContainerConfig`` and what they call.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence

from nri_scope.nri.plain import Plain
from nri_scope.text.escape import safe

from ..subjects import derived_id
from .cri_request import (
    ContainerRequest,
    CriMount,
    NamespaceOptions,
    Propagation,
    SandboxRequest,
    SeccompProfile,
)
from .environment import environment, expand
from .field import ManifestField
from .node_facts import NodeFacts, container_hash, go_json, number_of, suffix_of, uid_of
from .objects import VOLUME_SOURCES
from .pod_spec import ContainerSpec, PodSpec
from .resources import cgroup_parent, container_resources, overhead, pod_resources

_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_VOLUME = "kube-api-access-"

# Volume plugins with a folder for each volume. (Sources: pkg/volume/*/*.go)
_PLUGINS = {
    "emptyDir": "empty-dir",
    "configMap": "configmap",
    "secret": "secret",
    "downwardAPI": "downward-api",
    "projected": "projected",
    "nfs": "nfs",
    "iscsi": "iscsi",
    "fc": "fc",
    "gitRepo": "git-repo",
    "csi": "csi",
    "image": "image",
}
_READ_ONLY = frozenset({"configMap", "secret", "downwardAPI", "projected", "image"})
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_PROPAGATIONS: Mapping[str, Propagation] = {
    "": "rprivate",
    "None": "rprivate",
    "HostToContainer": "rslave",
    "Bidirectional": "rshared",
}


def pod_folder(pod: PodSpec, node: NodeFacts) -> str:
    """Return the kubelet's folder of a pod."""
    return f"{node.kubelet_folder}/pods/{pod.object.uid}"


def mounts(
    pod: PodSpec,
    container: ContainerSpec,
    node: NodeFacts,
    variables: Mapping[str, str],
    *,
    has_recursive_readonly: bool,
) -> list[CriMount]:
    """Return the mounts in the kubelet's request: volumes, ``/etc/hosts``, termination log."""
    folder = pod_folder(pod, node)
    mounts = list(_volume_mounts(pod, container, node, variables, has_recursive_readonly))
    if not any(mount.destination == "/etc/hosts" for mount in mounts):
        mounts.append(CriMount("/etc/hosts", f"{folder}/etc-hosts"))
    # The last part is random.
    log = uid_of("termination log", pod.object.uid, container.name)[:8]
    source = f"{folder}/containers/{container.name}/{log}"
    mounts.append(CriMount(_absolute(termination_path(container)), source))
    return mounts


def termination_path(container: ContainerSpec) -> str:
    """Return the path in a container of the file for its last words."""
    return container.field["terminationMessagePath"].text() or "/dev/termination-log"


def devices_remark(pod: PodSpec, container: ContainerSpec) -> None:
    """Note block volumes, the device numbers of which no manifest states."""
    for device in container.field["volumeDevices"].items():
        path = device["devicePath"].required_text()
        pod.remarks.add(
            f"container {container.name}: the device {safe(path, 80)} was left out, its numbers "
            "are unknown"
        )


def _volume_mounts(
    pod: PodSpec,
    container: ContainerSpec,
    node: NodeFacts,
    variables: Mapping[str, str],
    has_recursive_readonly: bool,
) -> Iterator[CriMount]:
    paths = set()
    index = -1
    for index, field in enumerate(container.field["volumeMounts"].items()):
        destination = _absolute(field["mountPath"].required_text())
        if destination in paths:
            raise field["mountPath"].error(f"{safe(destination, 80)!r} is mounted twice")
        paths.add(destination)
        volume = _volume(pod, field)
        kind, source, is_read_only = _source(pod, volume, node)
        if sub_path := _sub_path(field, variables):
            name = volume["name"].text()
            source = f"{pod_folder(pod, node)}/volume-subpaths/{name}/{container.name}/{index}"
            pod.remarks.add(
                f"container {container.name}: {safe(destination, 80)} is the part "
                f"{safe(sub_path, 80)} of volume {name}"
            )
        elif kind == "hostPath":
            source = node.links.get(source, source)
        propagation = _PROPAGATIONS[
            field["mountPropagation"].choice(*list(_PROPAGATIONS)[1:], default="")
        ]
        recursive = field["recursiveReadOnly"].choice("Disabled", "IfPossible", "Enabled")
        if not (field["readOnly"].flag() or is_read_only):
            yield CriMount(destination, source, "rw", propagation)
        elif recursive in ("IfPossible", "Enabled") and has_recursive_readonly:
            yield CriMount(destination, source, "rro", propagation)
        else:
            yield CriMount(destination, source, "ro", propagation)
    if _gets_token(pod) and _TOKEN_PATH not in paths:
        name = _TOKEN_VOLUME + suffix_of(5, "token", pod.object.uid)
        yield CriMount(_TOKEN_PATH, _plugin_path(pod, node, "projected", name), "ro")


def _gets_token(pod: PodSpec) -> bool:
    """Return whether the API server adds the volume of the service account's token."""
    if any(name.startswith(_TOKEN_VOLUME) for name in pod.volumes):
        return False
    own = pod.field["automountServiceAccountToken"]
    account = pod.sibling("ServiceAccount", pod.field["serviceAccountName"].text("default"))
    default = account is None or account["automountServiceAccountToken"].flag(True)
    return own.flag(default)


def _volume(pod: PodSpec, mount: ManifestField) -> ManifestField:
    name = mount["name"].required_text()
    if name not in pod.volumes:
        raise mount["name"].error(f"there is no volume {safe(name, 80)!r}")
    return pod.volumes[name]


def _source(pod: PodSpec, volume: ManifestField, node: NodeFacts) -> tuple[str, str, bool]:
    """Return the kind of a volume, its path on the node, and whether it is always read-only."""
    volume.unknown_keys(VOLUME_SOURCES | {"name"})
    name = volume["name"].text()
    kinds = [key for key, _ in volume.entries() if key != "name" and volume[key].node is not None]
    if len(kinds) > 1:
        raise volume.error(f"is of two kinds, {' and '.join(safe(kind, 40) for kind in kinds[:2])}")
    # A volume without a kind is an empty folder.
    kind = kinds[0] if kinds else "emptyDir"
    source = volume[kind]
    is_read_only = kind in _READ_ONLY or (
        kind not in ("emptyDir", "hostPath") and source["readOnly"].flag()
    )
    if kind == "hostPath":
        return kind, source["path"].required_text(), False
    if kind in ("persistentVolumeClaim", "ephemeral"):
        claim = source["claimName"].text(f"{pod.object.name}-{name}")
        persistent = f"pvc-{uid_of('claim', pod.object.namespace, claim)}"
        pod.remarks.add(
            f"volume {name}: its persistent volume is unknown, one of a CSI driver is assumed"
        )
        return kind, _plugin_path(pod, node, "csi", persistent) + "/mount", is_read_only
    if kind not in _PLUGINS or kind == "image":
        pod.remarks.add(f"volume {name}: its path on the node is assumed")
    plugin = _PLUGINS.get(kind) or _CAMEL.sub("-", kind).lower()
    path = _plugin_path(pod, node, plugin, name)
    return kind, f"{path}/mount" if kind == "csi" else path, is_read_only


def _plugin_path(pod: PodSpec, node: NodeFacts, plugin: str, volume: str) -> str:
    return f"{pod_folder(pod, node)}/volumes/kubernetes.io~{plugin}/{volume}"


def _sub_path(field: ManifestField, variables: Mapping[str, str]) -> str:
    if expression := field["subPathExpr"].text():
        return expand(expression, variables, field["subPathExpr"])
    return field["subPath"].text()


def _absolute(path: str) -> str:
    """Return a path inside a container; the kubelet makes relative ones absolute."""
    return path if path.startswith("/") else posixpath.join("/", path)


MAX_ID = 2**31 - 1
_NOON = "2026-01-01T12:00:00.000000000Z"
_MAX_HOSTNAME = 63


def sandbox_request(pod: PodSpec, node: NodeFacts) -> SandboxRequest:
    """Return the request to run a pod's sandbox."""
    identity, spec = pod.object, pod.field
    names = {
        "io.kubernetes.pod.name": identity.name,
        "io.kubernetes.pod.namespace": identity.namespace,
        "io.kubernetes.pod.uid": identity.uid,
    }
    start_time = identity.status["startTime"].text(_NOON)
    kubelet = {"kubernetes.io/config.seen": start_time, "kubernetes.io/config.source": "api"}
    namespaces = NamespaceOptions(
        host_network=spec["hostNetwork"].flag(),
        host_pid=spec["hostPID"].flag(),
        host_ipc=spec["hostIPC"].flag(),
        shares_pid=spec["shareProcessNamespace"].flag(),
        has_user_namespace=not spec["hostUsers"].flag(True),
    )
    sandbox = derived_id("sandbox", identity.uid)
    return SandboxRequest(
        id=sandbox,
        pid=number_of(1_000, 30_000, sandbox),
        name=identity.name,
        namespace=identity.namespace,
        uid=identity.uid,
        attempt=0,
        hostname=node.name if namespaces.host_network else _hostname(pod),
        labels=identity.labels | names,
        # A pod of a file on the node has its own.
        annotations=kubelet | identity.annotations,
        log_folder=f"{node.log_folder}/{identity.namespace}_{identity.name}_{identity.uid}",
        cgroup_parent=cgroup_parent(pod, node),
        resources=pod_resources(pod),
        overhead=overhead(pod),
        namespaces=namespaces,
        runtime_handler=pod.runtime_handler,
        ips=() if namespaces.host_network else pod_ips(pod, node),
    )


def container_request(
    pod: PodSpec, container: ContainerSpec, node: NodeFacts, *, has_recursive_readonly: bool
) -> ContainerRequest:
    """Return the request to create a container."""
    field, status = container.field, _status(pod, container)
    variables = environment(pod, container, node, pod_ips(pod, node))
    devices_remark(pod, container)
    attempt = status["restartCount"].integer()
    security, pods = container.security, pod.security
    user = security["runAsUser"] or pods["runAsUser"]
    group = security["runAsGroup"] or pods["runAsGroup"]
    groups = [
        group.integer(high=MAX_ID)
        for group in (pods["fsGroup"], *pods["supplementalGroups"].items())
        if group
    ]
    if not field["command"]:
        part = "the entry point" if field["args"] else "the command"
        pod.remarks.add(f"container {container.name}: {part} of its image is unknown")
    return ContainerRequest(
        id=status["containerID"].text().rpartition("/")[2]
        or derived_id("container", pod.object.uid, container.name),
        name=container.name,
        attempt=attempt,
        image=container.image,
        command=[expand(item.text(), variables, item) for item in field["command"].items()],
        args=[expand(item.text(), variables, item) for item in field["args"].items()],
        env=list(variables.items()),
        labels={
            "io.kubernetes.container.name": container.name,
            "io.kubernetes.pod.name": pod.object.name,
            "io.kubernetes.pod.namespace": pod.object.namespace,
            "io.kubernetes.pod.uid": pod.object.uid,
        },
        annotations=_annotations(pod, container, attempt),
        mounts=mounts(
            pod, container, node, variables, has_recursive_readonly=has_recursive_readonly
        ),
        resources=container_resources(pod, container, node),
        uid=user.integer(high=MAX_ID),
        gid=group.integer(high=MAX_ID),
        groups=groups,
        seccomp=_seccomp(security["seccompProfile"] or pods["seccompProfile"], node),
        is_privileged=security["privileged"].flag(),
        has_readonly_root=security["readOnlyRootFilesystem"].flag(),
        has_tty=field["tty"].flag(),
        has_stdin=field["stdin"].flag(),
        has_stdin_once=field["stdinOnce"].flag(),
        log_path=f"{container.name}/{attempt}.log",
    )


def pod_ips(pod: PodSpec, node: NodeFacts) -> list[str]:
    """Return the addresses of a pod: those of its status, or an assumed one."""
    status = pod.object.status
    addresses = [address["ip"].text() for address in status["podIPs"].items()]
    if addresses or status["podIP"]:
        return addresses or [status["podIP"].text()]
    if pod.field["hostNetwork"].flag():
        return [node.ip]
    return [f"10.244.0.{number_of(2, 254, pod.object.uid)}"]


def _hostname(pod: PodSpec) -> str:
    override = pod.field["hostnameOverride"].text()
    name = override or pod.field["hostname"].text() or pod.object.hostname or pod.object.name
    if len(name) <= _MAX_HOSTNAME:
        return name
    return name[:_MAX_HOSTNAME].rstrip("-.")


def _status(pod: PodSpec, container: ContainerSpec) -> ManifestField:
    """Return the status of a container; without a value if the manifest has none."""
    status = pod.object.status
    for key in ("initContainerStatuses", "containerStatuses"):
        for item in status[key].items():
            if item["name"].text() == container.name:
                return item
    return ManifestField(status.source, status.path, status.line, None)


def _annotations(pod: PodSpec, container: ContainerSpec, attempt: int) -> dict[str, str]:
    field = container.field
    prefix = "io.kubernetes.container."
    period = pod.field["terminationGracePeriodSeconds"].integer(30)
    annotations = {
        f"{prefix}hash": container_hash(container.name, container.image),
        f"{prefix}restartCount": str(attempt),
        f"{prefix}terminationMessagePath": termination_path(container),
        f"{prefix}terminationMessagePolicy": field["terminationMessagePolicy"].text("File"),
        "io.kubernetes.pod.terminationGracePeriod": str(period),
    }
    if pre_stop := field["lifecycle"]["preStop"]:
        annotations[f"{prefix}preStopHandler"] = go_json(_handler(pre_stop))
    if ports := [_port(port, pod) for port in field["ports"].items()]:
        annotations[f"{prefix}ports"] = go_json(ports)
    return annotations


def _port(port: ManifestField, pod: PodSpec) -> dict[str, Plain]:
    """Return a port as Go writes it, with the API server's defaults."""
    number = port["containerPort"].integer(low=1, high=65_535)
    host = port["hostPort"].integer(high=65_535)
    if pod.field["hostNetwork"].flag():
        host = host or number
    values: dict[str, Plain] = {
        "name": port["name"].text(),
        "hostPort": host,
        "containerPort": number,
        "protocol": port["protocol"].choice("TCP", "UDP", "SCTP", default="TCP"),
        "hostIP": port["hostIP"].text(),
    }
    return {key: value for key, value in values.items() if value}


def _handler(handler: ManifestField) -> dict[str, Plain]:
    """Return a handler before the stop as Go writes it, with the API server's defaults."""
    if handler["exec"]:
        command: list[Plain] = [*handler["exec"]["command"].texts()]
        return {"exec": {"command": command} if command else {}}
    if http := handler["httpGet"]:
        headers: list[Plain] = [
            {"name": header["name"].text(), "value": header["value"].text()}
            for header in http["httpHeaders"].items()
        ]
        values: dict[str, Plain] = {
            "path": http["path"].text("/"),
            "port": _port_number(http["port"]),
            "host": http["host"].text(),
            "scheme": http["scheme"].text("HTTP"),
            "httpHeaders": headers,
        }
        return {"httpGet": {key: value for key, value in values.items() if value}}
    if tcp := handler["tcpSocket"]:
        values = {"port": _port_number(tcp["port"]), "host": tcp["host"].text()}
        return {"tcpSocket": {key: value for key, value in values.items() if value}}
    return {"sleep": {"seconds": handler["sleep"]["seconds"].integer()}}


def _port_number(port: ManifestField) -> Plain:
    is_name = port.node is not None and isinstance(port.node.value, str)
    return port.text() if is_name else port.integer(high=65_535)


def _seccomp(profile: ManifestField, node: NodeFacts) -> SeccompProfile:
    kinds: Sequence[str] = ("RuntimeDefault", "Unconfined", "Localhost")
    match profile["type"].choice(*kinds, default="Unconfined"):
        case "RuntimeDefault":
            return SeccompProfile("RuntimeDefault")
        case "Localhost":
            name = profile["localhostProfile"].required_text()
            return SeccompProfile("Localhost", f"{node.kubelet_folder}/seccomp/{name}")
    return SeccompProfile("Unconfined")
