# SPDX-License-Identifier: Apache-2.0
"""Read a pod's containers and resources, with the defaults that the API server fills in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from . import objects
from .field import ManifestField, parse_quantity
from .objects import LABEL, KubernetesManifest, PodObject

Kind = Literal["init", "sidecar", "container"]
Quantities = Mapping[str, Fraction]

MAX_CONTAINERS = 1_000
_RESOURCE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_./-]{0,310}[A-Za-z0-9])?", re.ASCII)


class Remarks:
    """What about a pod is assumed or unknown, in the order of discovery."""

    def __init__(self, first: Sequence[str] = ()) -> None:
        self._remarks = dict.fromkeys(first)

    def add(self, remark: str) -> None:
        """Add a remark, once."""
        self._remarks[remark] = None

    def texts(self) -> tuple[str, ...]:
        """Return all remarks."""
        return tuple(self._remarks)


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """A container of a pod."""

    kind: Kind
    field: ManifestField
    name: str
    image: str
    requests: Quantities
    limits: Quantities

    @property
    def security(self) -> ManifestField:
        """Security context of the container alone."""
        return self.field["securityContext"]


@dataclass(frozen=True, slots=True)
class PodSpec:
    """A pod with its containers in the order in which the kubelet starts them."""

    object: PodObject
    containers: tuple[ContainerSpec, ...]
    volumes: Mapping[str, ManifestField]
    has_pod_level: bool
    """Whether the pod itself has resources, besides its containers."""
    requests: Quantities
    """Requests of the pod itself."""
    limits: Quantities
    overhead: Quantities
    runtime_handler: str
    others: Mapping[tuple[str, str, str], ManifestField]
    remarks: Remarks

    @property
    def field(self) -> ManifestField:
        """The pod's specification."""
        return self.object.spec

    @property
    def security(self) -> ManifestField:
        """Security context of the pod."""
        return self.field["securityContext"]

    def sibling(self, kind: str, name: str) -> ManifestField | None:
        """Return another object of the manifest in the pod's namespace."""
        return self.others.get((kind, self.object.namespace, name))


_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_VOLUME = objects.VOLUME_SOURCES | {"name"}


def read_pod(pod: PodObject, manifest: KubernetesManifest) -> PodSpec:
    """Read a pod's specification. Raises UsageError for invalid fields."""
    spec, remarks = pod.spec, Remarks(pod.remarks)
    containers = tuple(_containers(spec, remarks))
    for field in (
        *spec.unknown_keys(objects.POD_SPEC),
        *spec["securityContext"].unknown_keys(objects.POD_SECURITY_CONTEXT),
        *(field for container in containers for field in _unknown_fields(container)),
        *(field for volume in spec["volumes"].items() for field in volume.unknown_keys(_VOLUME)),
    ):
        remarks.add(f"line {field.line}: {field.path} is unknown and was ignored")
    spec["restartPolicy"].choice(*_RESTART_POLICIES)
    if spec["os"]["name"].text("linux") != "linux":
        raise spec["os"]["name"].error("only pods of Linux are supported")
    if spec["ephemeralContainers"]:
        remarks.add("ephemeral containers were left out")
    if spec["resourceClaims"]:
        remarks.add("devices of resource claims are unknown")
    has_pod_level = bool(spec["resources"])
    limits = _with_huge_pages(dict(spec["resources"]["limits"].quantities()), spec, containers)
    requests = dict(spec["resources"]["requests"].quantities())
    if limits:
        asked = aggregate(containers, "requests")
        for source in (asked, limits):
            for name, amount in source.items():
                if _is_pod_level(name) and (source is limits or not is_huge_page(name)):
                    requests.setdefault(name, amount)
    handler, overhead = _runtime_class(spec, manifest, remarks)
    volumes = {}
    for volume in spec["volumes"].items():
        name = volume["name"].name(LABEL, "a name of a volume")
        if name in volumes:
            raise volume["name"].error("there are two volumes of this name")
        volumes[name] = volume
    return PodSpec(
        pod,
        containers,
        volumes,
        has_pod_level,
        requests,
        limits,
        overhead,
        handler,
        manifest.others,
        remarks,
    )


def aggregate(
    containers: Sequence[ContainerSpec], kind: Literal["requests", "limits"]
) -> dict[str, Fraction]:
    """Return the resources of a pod: those of its containers, or more while it initializes.

    A sidecar counts from its start on ("AggregateContainerRequests", k8s.io/component-helpers).
    """
    total: dict[str, Fraction] = {}
    sidecars: dict[str, Fraction] = {}
    peak: dict[str, Fraction] = {}
    for container in containers:
        own: Quantities = getattr(container, kind)
        if container.kind == "container":
            _add(total, own)
            continue
        at_start = dict(sidecars)
        _add(at_start, own)
        if container.kind == "sidecar":
            _add(total, own)
            sidecars = at_start
        for name, amount in at_start.items():
            peak[name] = max(amount, peak.get(name, amount))
    for name, amount in peak.items():
        total[name] = max(amount, total.get(name, amount))
    return total


def is_huge_page(resource: str) -> bool:
    """Return whether a resource is an amount of huge pages."""
    return resource.startswith("hugepages-")


def _is_pod_level(resource: str) -> bool:
    return resource in ("cpu", "memory") or is_huge_page(resource)


def _add(total: dict[str, Fraction], amounts: Quantities) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, Fraction(0)) + amount


def _with_huge_pages(
    limits: dict[str, Fraction], spec: ManifestField, containers: Sequence[ContainerSpec]
) -> dict[str, Fraction]:
    requests = spec["resources"]["requests"].keys()
    if limits or requests:
        for name, amount in aggregate(containers, "limits").items():
            if is_huge_page(name) and name not in requests:
                limits.setdefault(name, amount)
    return limits


def _containers(spec: ManifestField, remarks: Remarks) -> Iterator[ContainerSpec]:
    names: set[str] = set()
    if not list(spec["containers"].items()):
        raise spec["containers"].missing()
    for key in ("initContainers", "containers"):
        for field in spec[key].items():
            name = field["name"].name(LABEL, "a name of a container")
            if name in names:
                raise field["name"].error(f"there are two containers named {name}")
            names.add(name)
            if len(names) > MAX_CONTAINERS:
                raise field.error(f"more than {MAX_CONTAINERS} containers")
            kind: Kind = "container"
            field["imagePullPolicy"].choice("Always", "IfNotPresent", "Never")
            restarts = field["restartPolicy"].choice(*_RESTART_POLICIES)
            if key == "initContainers":
                kind = "sidecar" if restarts == "Always" else "init"
            limits = _amounts(field["resources"]["limits"])
            requests = {**limits, **_amounts(field["resources"]["requests"])}
            for resource, limit in limits.items():
                if requests[resource] > limit:
                    refused = field["resources"]["requests"][resource]
                    raise refused.error("is more than the limit")
            for resource in limits:
                if "/" in resource:
                    remarks.add(
                        f"container {name}: devices, mounts and variables that the plugin of "
                        f"{resource} adds are unknown"
                    )
            if field["resources"]["claims"]:
                remarks.add(f"container {name}: devices of resource claims are unknown")
            yield ContainerSpec(kind, field, name, field["image"].required_text(), requests, limits)


def _amounts(field: ManifestField) -> dict[str, Fraction]:
    for key, value in field.entries():
        if not _RESOURCE.fullmatch(key):
            raise value.error("is not the name of a resource")
    amounts = field.quantities()
    for key, amount in amounts.items():
        size = parse_quantity(key.removeprefix("hugepages-")) if is_huge_page(key) else None
        if size and amount % size:
            raise field[key].error("is no multiple of the page size")
    return amounts


def _unknown_fields(container: ContainerSpec) -> Iterator[ManifestField]:
    field = container.field
    yield from field.unknown_keys(objects.CONTAINER)
    yield from field["resources"].unknown_keys(objects.RESOURCES)
    yield from field["securityContext"].unknown_keys(objects.SECURITY_CONTEXT)
    for mount in field["volumeMounts"].items():
        yield from mount.unknown_keys(objects.VOLUME_MOUNT)
    for device in field["volumeDevices"].items():
        yield from device.unknown_keys(objects.VOLUME_DEVICE)
    for variable in field["env"].items():
        yield from variable.unknown_keys(objects.ENV)
        yield from variable["valueFrom"].unknown_keys(objects.ENV_SOURCE)
    for source in field["envFrom"].items():
        yield from source.unknown_keys(objects.ENV_FROM)


def _runtime_class(
    spec: ManifestField, manifest: KubernetesManifest, remarks: Remarks
) -> tuple[str, Quantities]:
    """Return the runtime handler and the overhead of a pod."""
    overhead = spec["overhead"].quantities()
    name = spec["runtimeClassName"].text()
    if not name:
        return "", overhead
    entry = manifest.others.get(("RuntimeClass", "", name))
    if entry is None:
        remarks.add(f"the handler of RuntimeClass {name} is unknown, its name is used")
        if not overhead:
            remarks.add(f"the overhead of RuntimeClass {name} is unknown, none is used")
        return name, overhead
    return entry["handler"].required_text(), overhead or entry["overhead"]["podFixed"].quantities()
