# SPDX-License-Identifier: Apache-2.0
"""Changes by plugins that one exchange shows: OCI paths and the owning plugins.

Paths are JSON pointers (RFC 6901) into an OCI runtime-spec ``config.json``. Members of the arrays
that plugins change individually are addressed by key instead of position:
``/process/env/FOO``, ``/mounts/~1data``, ``/linux/devices/~1dev~1null``. A CDI device is shown as
``/cdiDevices/NAME``: no message contains its effects on the container.

Requests to validators are the only ones that name the other plugins (NRI 0.10 and later).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple, Protocol, cast

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api

from .events import CREATE, STOP, SYNCHRONIZE, UPDATE, decode

_RESOURCES = "/linux/resources"


def _members(kind: type[Message], path: str, **others: str) -> dict[str, str]:
    """Return the paths of a message's members, named in OCI as in NRI except for ``others``."""
    return {
        field.name: f"{path}/{others.get(field.name, field.camelcase_name)}"
        for field in kind.DESCRIPTOR.fields
    }


_MEMORY = _members(
    api.LinuxMemory,
    f"{_RESOURCES}/memory",
    kernel_tcp="kernelTCP",
    disable_oom_killer="disableOOMKiller",
)
_CPU = _members(api.LinuxCPU, f"{_RESOURCES}/cpu")
_RDT = {**_members(api.LinuxRdt, "/linux/intelRdt", clos_id="closID"), "remove": "/linux/intelRdt"}
_HOOKS = _members(api.Hooks, "/hooks")
_LINUX = {
    "cgroups_path": "/linux/cgroupsPath",
    "oom_score_adj": "/process/oomScoreAdj",
    "io_priority": "/process/ioPriority",
    "seccomp_policy": "/linux/seccomp",
    "scheduler": "/process/scheduler",
    "memory_policy": "/linux/memoryPolicy",
}

# Paths of the fields in NRI's enum Field, whose owners a validator receives.
_FIELDS = {
    api.Annotations: "/annotations",
    api.Mounts: "/mounts",
    api.OciHooks: "/hooks",
    api.Devices: "/linux/devices",
    api.CdiDevices: "/cdiDevices",
    api.Env: "/process/env",
    api.Args: "/process/args",
    api.MemLimit: _MEMORY["limit"],
    api.MemReservation: _MEMORY["reservation"],
    api.MemSwapLimit: _MEMORY["swap"],
    api.MemKernelLimit: _MEMORY["kernel"],
    api.MemTCPLimit: _MEMORY["kernel_tcp"],
    api.MemSwappiness: _MEMORY["swappiness"],
    api.MemDisableOomKiller: _MEMORY["disable_oom_killer"],
    api.MemUseHierarchy: _MEMORY["use_hierarchy"],
    api.CPUShares: _CPU["shares"],
    api.CPUQuota: _CPU["quota"],
    api.CPUPeriod: _CPU["period"],
    api.CPURealtimeRuntime: _CPU["realtime_runtime"],
    api.CPURealtimePeriod: _CPU["realtime_period"],
    api.CPUSetCPUs: _CPU["cpus"],
    api.CPUSetMems: _CPU["mems"],
    api.PidsLimit: f"{_RESOURCES}/pids/limit",
    api.HugepageLimits: f"{_RESOURCES}/hugepageLimits",
    api.BlockioClass: f"{_RESOURCES}/blockIO",
    api.RdtClass: _RDT["clos_id"],
    api.CgroupsUnified: f"{_RESOURCES}/unified",
    api.CgroupsPath: _LINUX["cgroups_path"],
    api.OomScoreAdj: _LINUX["oom_score_adj"],
    api.Rlimits: "/process/rlimits",
    api.IoPriority: _LINUX["io_priority"],
    api.SeccompPolicy: _LINUX["seccomp_policy"],
    api.Namespace: "/linux/namespaces",
    api.Sysctl: "/linux/sysctl",
    api.LinuxNetDevices: "/linux/netDevices",
    api.LinuxSched: _LINUX["scheduler"],
    api.RdtClosID: _RDT["clos_id"],
    api.RdtSchemata: _RDT["schemata"],
    api.RdtEnableMonitoring: _RDT["enable_monitoring"],
    api.MemoryPolicy: _LINUX["memory_policy"],
}
_BY_NUMBER = {int(number): path for number, path in _FIELDS.items()}

Changes = tuple[tuple[str, ...], tuple[str, ...]]
"""Changed paths and owning plugins (``NN-name``), each sorted and without duplicates."""

NO_CHANGES: Changes = ((), ())


class WithUpdates(Protocol):
    """A reply that may request updates of containers."""

    @property
    def update(self) -> Iterable[api.ContainerUpdate]: ...


def changes_of(method: str, request: Message | None, reply: Message | None, plugin: str) -> Changes:
    """Return the changes shown by one exchange with `plugin` (``NN-name``).

    The adjustment and the updates in a reply are that plugin's own, including updates of *other*
    containers. A ValidateContainerAdjustment request names the last owner of every field. Other
    messages show no changes. `request` and `reply` are decoded messages; None if missing.
    """
    if isinstance(request, api.ValidateContainerAdjustmentRequest):
        return _owned_fields(request.owners)
    updates = updates_in(method, request, reply)
    paths = {path for update in updates for path, _ in _resources(update.linux.resources)}
    if isinstance(reply, api.CreateContainerResponse):
        paths.update(path for path, _ in requested_fields(reply.adjust))
    return (tuple(sorted(paths)), (plugin,)) if paths else NO_CHANGES


def updates_in(
    method: str, request: Message | None, reply: Message | None
) -> Iterable[api.ContainerUpdate]:
    """Return the updates of containers that plugins request in an exchange.

    Arguments as for `changes_of`.
    """
    if isinstance(request, api.UpdateContainersRequest | api.ValidateContainerAdjustmentRequest):
        return request.update
    if method in _REPLIES_WITH_UPDATES and reply is not None and reply.ByteSize():
        return cast("WithUpdates", reply).update
    return ()


def targets_of(method: str, request: Message | None, reply: Message | None) -> set[str]:
    """Return the ids of the containers that plugins request to update or evict in an exchange.

    Arguments as for `changes_of`.
    """
    ids = {update.container_id for update in updates_in(method, request, reply)}
    for message in (request, reply):
        ids |= {eviction.container_id for eviction in evictions_in(message)}
    return ids - {""}


def evictions_in(message: Message | None) -> Iterable[api.ContainerEviction]:
    """Return the evictions in a message from a plugin; none for other messages."""
    if isinstance(
        message,
        api.UpdateContainersRequest | api.CreateContainerResponse | api.UpdateContainerResponse,
    ):
        return message.evict
    return ()


_REPLIES_WITH_UPDATES = frozenset({SYNCHRONIZE, CREATE, UPDATE, STOP})


def pointer(base: str, key: str) -> str:
    """Append the escaped `key` to the JSON pointer `base`, without the ``-`` of a removal."""
    key = key.removeprefix("-")
    return f"{base}/{key.replace('~', '~0').replace('/', '~1')}"


def _owned_fields(owners: api.OwningPlugins) -> Changes:
    pairs = list(owned_fields(owners))
    return tuple(sorted({path for path, _ in pairs})), tuple(sorted({who for _, who in pairs}))


def owned_fields(owners: api.OwningPlugins) -> Iterator[tuple[str, str]]:
    """Yield the path of each field that has an owner, with each of its owners (``NN-name``)."""
    for fields in owners.owners.values():
        for number, owner in fields.simple.items():
            yield from ((path_of_field(number), plugin) for plugin in _owners_in(owner))
        for number, compound in fields.compound.items():
            for key, owner in compound.owners.items():
                path = pointer(path_of_field(number), key)
                yield from ((path, plugin) for plugin in _owners_in(owner))


def _owners_in(text: str) -> Iterator[str]:
    # All owners of hooks are listed, separated by commas; a dash marks the plugin that removed a
    # value.
    return (name.removeprefix("-") for name in text.split(",") if name)


def path_of_field(number: int) -> str:
    """Return the OCI path of a field of NRI's enum Field; ``/nri/NUMBER`` for an unknown one."""
    # A field of a newer API is shown by its number rather than omitted.
    return _BY_NUMBER.get(number) or f"/nri/{number}"


def requested_fields(adjust: api.ContainerAdjustment) -> Iterator[tuple[str, object]]:
    """Yield the path and the value of each field that an adjustment sets or removes."""
    yield from ((pointer("/annotations", key), value) for key, value in adjust.annotations.items())
    yield from ((pointer("/mounts", mount.destination), mount) for mount in adjust.mounts)
    yield from ((pointer("/process/env", variable.key), variable.value) for variable in adjust.env)
    yield from _fields(adjust.hooks, _HOOKS)
    yield from ((pointer("/process/rlimits", rlimit.type), rlimit) for rlimit in adjust.rlimits)
    yield from ((pointer("/cdiDevices", device.name), device.name) for device in adjust.CDI_devices)
    if adjust.args:
        yield "/process/args", " ".join(adjust.args)
    linux = adjust.linux
    yield from ((pointer("/linux/devices", device.path), device) for device in linux.devices)
    yield from ((pointer("/linux/namespaces", ns.type), ns.path) for ns in linux.namespaces)
    yield from ((pointer("/linux/sysctl", key), value) for key, value in linux.sysctl.items())
    yield from ((pointer("/linux/netDevices", key), dev) for key, dev in linux.net_devices.items())
    yield from _fields(linux, _LINUX)
    yield from _fields(linux.rdt, _RDT)
    yield from _resources(linux.resources)


def _fields(message: Message, paths: dict[str, str]) -> Iterator[tuple[str, object]]:
    for field, value in message.ListFields():
        if field.name in paths:
            yield paths[field.name], getattr(value, "value", value)


def _resources(resources: api.LinuxResources) -> Iterator[tuple[str, object]]:
    yield from _fields(resources.memory, _MEMORY)
    yield from _fields(resources.cpu, _CPU)
    if resources.HasField("pids"):
        yield f"{_RESOURCES}/pids/limit", resources.pids.limit
    if resources.HasField("blockio_class"):
        yield f"{_RESOURCES}/blockIO", resources.blockio_class.value
    if resources.HasField("rdt_class"):
        yield _RDT["clos_id"], resources.rdt_class.value
    if resources.devices:
        yield f"{_RESOURCES}/devices", resources.devices
    for limit in resources.hugepage_limits:
        yield pointer(f"{_RESOURCES}/hugepageLimits", limit.page_size), limit.limit
    for key, value in resources.unified.items():
        yield pointer(f"{_RESOURCES}/unified", key), value


def consulted_plugins(request: bytes) -> list[tuple[str, str]] | None:
    """Return index and name of the plugins of a creation, from its validation's request.

    These are all plugins that were connected, in the order of the chain, whether or not they
    subscribe to CreateContainer ("Adaptation.CreateContainer" in pkg/adaptation/adaptation.go of
    NRI 0.12.5). None for a malformed request.
    """
    message = decode(api.ValidateContainerAdjustmentRequest, request)
    return None if message is None else [(plugin.index, plugin.name) for plugin in message.plugins]


def owned_paths(request: bytes) -> Iterator[tuple[str, str]]:
    """Yield the OCI paths that plugins changed, each with an owner (``NN-name``)."""
    message = decode(api.ValidateContainerAdjustmentRequest, request)
    if message is not None:
        yield from owned_fields(message.owners)


REQUIRED_PLUGINS = "required-plugins.noderesource.dev"
"""Key of the annotation by which a workload requires plugins. A suffix limits it to the containers
of a pod, ``/pod``, which is also meant without one, or to one of them, ``/container.NAME``
(plugins/default-validator and pkg/plugin/annotations.go of NRI 0.12.3)."""
_VALUE_MAX = 4096
_REQUIRED_MAX = 32
"""Maximum number of plugins of one annotation."""


class Requirement(NamedTuple):
    """The plugins that an annotation requires."""

    plugins: tuple[str, ...] | None
    """Each ``name`` or ``NN-name``; None if the value is no list of names, or too long."""
    annotation: str
    """Its key."""


def requirement_of(annotations: Mapping[str, str], container: str = "") -> Requirement | None:
    """Return what a pod's annotations require for a container, or for the pod itself.

    The narrowest annotation replaces the others. None without an annotation.
    """
    scopes = (f"/container.{container}", "/pod", "") if container else ("/pod", "")
    keys = [f"{REQUIRED_PLUGINS}{scope}" for scope in scopes]
    key = next((key for key in keys if key in annotations), None) if annotations else None
    if key is None:
        return None
    value = annotations[key]
    return Requirement(_list_of_names(value) if len(value) <= _VALUE_MAX else None, key)


def _list_of_names(text: str) -> tuple[str, ...] | None:
    """Return the texts in a list as YAML; None if it is none, or too long.

    Nothing deeper is read, which could take long. All scalars are texts, also a plugin's name that
    looks like a number.
    """
    import yaml

    begin = [yaml.StreamStartEvent, yaml.DocumentStartEvent, yaml.SequenceStartEvent]
    end = [yaml.SequenceEndEvent, yaml.DocumentEndEvent, yaml.StreamEndEvent]
    try:
        longest = len(begin) + _REQUIRED_MAX + len(end)
        parsed = list(islice(yaml.parse(text, Loader=yaml.BaseLoader), longest))
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    names = [getattr(event, "value", None) for event in parsed[len(begin) : -len(end)]]
    kinds = [type(event) for event in (*parsed[: len(begin)], *parsed[-len(end) :])]
    if kinds != begin + end or None in names:
        return None
    return tuple(dict.fromkeys(map(str, names)))


def is_named(plugin: str, titles: Iterable[str]) -> bool:
    """Return whether ``plugin``, a name with or without its index, is one of ``NN-name`` …"""
    return any(plugin in (title, title.partition("-")[2]) for title in titles)


def absent_plugins(request: bytes) -> list[str]:
    """Return the plugins that a workload requires and a request to validators does not name."""
    message = decode(api.ValidateContainerAdjustmentRequest, request)
    if message is None:
        return []
    required = requirement_of(message.pod.annotations, message.container.name)
    titles = [f"{plugin.index}-{plugin.name}" for plugin in message.plugins]
    plugins = (required and required.plugins) or ()
    return [plugin for plugin in plugins if not is_named(plugin, titles)]
