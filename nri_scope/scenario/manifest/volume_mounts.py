# SPDX-License-Identifier: Apache-2.0
"""Find the paths on the node of a container's volumes, as the kubelet mounts them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping

from nri_scope.text.escape import safe

from .cri_request import CriMount, Propagation
from .environment import expand
from .field import Field
from .identity import suffix_of, uid_of
from .known_fields import VOLUME_SOURCES
from .node_facts import NodeFacts
from .pod_spec import ContainerSpec, PodSpec

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
    found = list(_volume_mounts(pod, container, node, variables, has_recursive_readonly))
    if not any(mount.destination == "/etc/hosts" for mount in found):
        found.append(CriMount("/etc/hosts", f"{folder}/etc-hosts"))
    # The last part is random.
    log = uid_of("termination log", pod.object.uid, container.name)[:8]
    source = f"{folder}/containers/{container.name}/{log}"
    found.append(CriMount(_absolute(termination_path(container)), source))
    return found


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
    account = pod.other("ServiceAccount", pod.field["serviceAccountName"].text("default"))
    default = account is None or account["automountServiceAccountToken"].flag(True)
    return own.flag(default)


def _volume(pod: PodSpec, mount: Field) -> Field:
    name = mount["name"].required_text()
    if name not in pod.volumes:
        raise mount["name"].error(f"there is no volume {safe(name, 80)!r}")
    return pod.volumes[name]


def _source(pod: PodSpec, volume: Field, node: NodeFacts) -> tuple[str, str, bool]:
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


def _sub_path(field: Field, variables: Mapping[str, str]) -> str:
    if expression := field["subPathExpr"].text():
        return expand(expression, variables, field["subPathExpr"])
    return field["subPath"].text()


def _absolute(path: str) -> str:
    """Return a path inside a container; the kubelet makes relative ones absolute."""
    return path if path.startswith("/") else posixpath.join("/", path)
