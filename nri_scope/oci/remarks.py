# SPDX-License-Identifier: Apache-2.0
"""Remarks on requests that a runtime drops or refuses, or whose effect depends on the node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.changes import requested_fields
from nri_scope.specs.json_spec import ABSENT, Json, Spec, pointer, split, text_at
from nri_scope.specs.path_labels import value_at

from .adjustment import adjust, removed_key
from .runtime_rules import UNKNOWN, RuntimeRules, UpdatePath
from .values import device_rule, net_device, oci_name, rlimit

RemarkKind: TypeAlias = Literal["dropped", "unresolved", "refused"]


class Remark(NamedTuple):
    """A remark on a request for one path."""

    path: str
    value: Json
    """The requested value."""
    kind: RemarkKind
    """Dropped: the runtime ignores the value. Unresolved: its effect depends on the node, on the
    runtime or on chance. Refused: the runtime fails to create the container.
    """
    reason: str

    @property
    def is_ignored_blank(self) -> bool:
        """Whether an empty value is ignored, as the cpus of an empty CPU set: another value of the
        same reply stays.
        """
        return self.kind == "dropped" and self.value == ""


NAMESPACES = frozenset({"cgroup", "ipc", "mount", "network", "pid", "time", "user", "uts"})
"""The types that the generator accepts; for others it fails with ``unrecognized namespace "x"``."""

ONLY_THE_LIMIT = "of all memory settings only the limit is applied"
"""Remark on adjustments, from upstream's generator (pkg/runtime-tools/generate)."""

_RESOURCES = "/linux/resources"
_NO_CRI_FIELD = "an update goes through the CRI, which has no such field"
_NOT_PASSED = "the runtime does not pass it to the OCI runtime"
_OCI_RUNTIME = "it is passed to the OCI runtime, and not all OCI runtimes apply it"
_UNIFIED = "the runtime passes it to the OCI runtime only on nodes with cgroup v2"
_UNKNOWN = "it is unknown whether this runtime applies it"
_ZERO = "0 means unchanged"
_EMPTY_CPU = "an empty cpu set means 'not set': the container keeps its cpus and mems"
_CDI = "its effect depends on the node's CDI files, and on the runtime's configuration"
_BLOCK_IO = "its effect depends on the node's configuration of the class"
_REASONS: dict[UpdatePath, tuple[RemarkKind, str]] = {
    UpdatePath.CRI: ("dropped", _NO_CRI_FIELD),
    UpdatePath.CRI_O: ("dropped", _NO_CRI_FIELD),
    UpdatePath.OCI_RUNTIME: ("unresolved", _OCI_RUNTIME),
    UpdatePath.UNKNOWN: ("unresolved", _UNKNOWN),
}


def remarks(
    change: api.ContainerAdjustment | api.ContainerUpdate | api.LinuxResources,
    spec: Spec | None = None,
    path: UpdatePath = UpdatePath.CRI,
    rules: RuntimeRules = UNKNOWN,
) -> tuple[Remark, ...]:
    """Return remarks on parts of `change` whose treatment is not visible in the resulting spec.

    `change` is a merged adjustment, an update or its resources. With the `spec` to be changed,
    conflicts with it are included. `path` is the path of an update in the runtime, and `rules` are
    those of the runtime.
    """
    if isinstance(change, api.ContainerAdjustment):
        if rules.refusals is not None:
            return tuple(_by_treatment(change, spec or {}, rules.refusals.treatment))
        cdi_drop = rules.drops_cdi_devices
        return (*_of_adjustment(change, spec or {}, cdi_drop), *_second_rlimits(change, spec or {}))
    resources = change.linux.resources if isinstance(change, api.ContainerUpdate) else change
    return tuple(_of_update(resources, path))


def empty_cpu_set(reply: api.LinuxResources) -> tuple[Remark, ...]:
    """Return the remark on processor settings without a value, which an empty text leaves behind.

    `reply`: resources as a plugin sends them; merged ones always have such settings.
    """
    if not reply.HasField("cpu") or reply.cpu.ByteSize():
        return ()
    return (Remark(f"{_RESOURCES}/cpu/cpus", "", "dropped", _EMPTY_CPU),)


def _by_treatment(
    message: api.ContainerAdjustment,
    spec: Spec,
    treatment: Callable[[str, Json], tuple[str, str]],
) -> Iterator[Remark]:
    adjusted = adjust(spec, message)
    for path, _ in requested_fields(message):
        value = value_at(adjusted, path)
        wanted = None if value is ABSENT else value
        removed = removed_key(split(path)[-1])
        if removed is not None:
            path, wanted = pointer(path.rpartition("/")[0], removed), f"-{removed}"
        refusal, reason = treatment(path, wanted)
        if refusal or reason:
            kind: RemarkKind = "refused" if refusal else "dropped"
            yield Remark(path, wanted, kind, refusal or reason)


def _of_adjustment(message: api.ContainerAdjustment, spec: Spec, cdi_drop: str) -> Iterator[Remark]:
    linux = message.linux
    yield from _of_random_order("/annotations", message.annotations)
    yield from _of_random_order("/linux/sysctl", linux.sysctl)
    devices: Spec = {name: net_device(device) for name, device in linux.net_devices.items()}
    yield from _of_random_order("/linux/netDevices", devices)
    for variable in message.env:
        if not variable.key:
            yield Remark("/process/env/", variable.value, "dropped", "the variable has no name")
    for mount in message.mounts:
        propagation = [option for option in mount.options if option in ("rshared", "rslave")]
        if propagation and removed_key(mount.destination) is None:
            required = "shared" if propagation[-1] == "rshared" else "a shared or slave mount"
            reason = f"the runtime refuses it unless {mount.source} is {required} on the node"
            path = f"{pointer('/mounts', mount.destination)}/options"
            yield Remark(path, propagation[-1], "unresolved", reason)
    for device in message.CDI_devices:
        path = pointer("/cdiDevices", device.name)
        treated: RemarkKind = "dropped" if cdi_drop else "unresolved"
        yield Remark(path, device.name, treated, cdi_drop or _CDI)
    if linux.seccomp_policy.HasField("default_errno"):
        errno = linux.seccomp_policy.default_errno.value
        reason = "the runtime does not copy it"
        yield Remark("/linux/seccomp/defaultErrnoRet", errno, "dropped", reason)
    for namespace in linux.namespaces:
        removed = removed_key(namespace.type)
        kind = namespace.type if removed is None else removed
        if kind not in NAMESPACES:
            reason = f'unrecognized namespace "{kind}"'
            yield Remark(pointer("/linux/namespaces", kind), namespace.type, "refused", reason)
    yield from _of_adjusted_resources(linux.resources, spec)


def _second_rlimits(message: api.ContainerAdjustment, spec: Spec) -> Iterator[Remark]:
    process = spec.get("process")
    old = process.get("rlimits") if isinstance(process, dict) else None
    entries = old if isinstance(old, list) else []
    kinds = set(map(text_at("type"), entries))
    for limit in message.rlimits:
        if limit.type in kinds:
            # config.md of the runtime spec, on rlimits: duplicates MUST be an error.
            reason = "it duplicates this type in the list, which OCI runtimes must refuse"
            path = pointer("/process/rlimits", limit.type)
            yield Remark(path, rlimit(limit), "unresolved", reason)
        kinds.add(limit.type)


def _of_random_order(path: str, keys: Mapping[str, Json]) -> Iterator[Remark]:
    # The merged adjustment has both as entries of one Go map.
    reason = "the runtime applies the removal and this value in random order: it may be lost"
    for key in sorted(keys):
        if f"-{key}" in keys:
            yield Remark(pointer(path, key), keys[key], "unresolved", reason)


def _of_adjusted_resources(message: api.LinuxResources, spec: Spec) -> Iterator[Remark]:
    yield from _of_memory(message.memory, ONLY_THE_LIMIT)
    if message.HasField("pids") and message.pids.limit < 0:
        path = f"{_RESOURCES}/pids/limit"
        old = value_at(spec, path)
        if isinstance(old, int) and old > 0:
            reason = "it means unlimited, but the runtime keeps an existing limit"
            yield Remark(path, message.pids.limit, "dropped", reason)
        elif old is ABSENT:
            reason = "it means unlimited, as without a limit"
            yield Remark(path, message.pids.limit, "unresolved", reason)
    if message.blockio_class.value:
        name = message.blockio_class.value
        yield Remark(f"{_RESOURCES}/blockIO", name, "unresolved", _BLOCK_IO)


def _of_update(message: api.LinuxResources, route: UpdatePath) -> Iterator[Remark]:
    kind, reason = _REASONS[route]
    is_direct = route is UpdatePath.OCI_RUNTIME
    applied = ("reservation", "swap") if is_direct else ()
    yield from _of_memory(message.memory, reason, kind, applied)
    for field, value in message.cpu.ListFields():
        path = f"{_RESOURCES}/cpu/{oci_name(field.name)}"
        if field.name.startswith("realtime_"):
            yield Remark(path, value.value, kind, reason)
        elif not isinstance(value, str) and not value.value:
            yield Remark(path, 0, "dropped", _ZERO)
    if message.HasField("pids"):
        path = f"{_RESOURCES}/pids/limit"
        if not is_direct:
            yield Remark(path, message.pids.limit, kind, reason)
        elif message.pids.limit <= 0:
            yield Remark(path, message.pids.limit, "dropped", _NOT_PASSED)
    # NRI's own conversion for the OCI runtime omits the classes (LinuxResources.ToOCI).
    of_class: tuple[RemarkKind, str] = ("dropped", _NOT_PASSED) if is_direct else (kind, reason)
    if message.HasField("blockio_class"):
        yield Remark(f"{_RESOURCES}/blockIO", message.blockio_class.value, *of_class)
    if message.HasField("rdt_class"):
        yield Remark("/linux/intelRdt/closID", message.rdt_class.value, *of_class)
    if route is not UpdatePath.CRI:
        of_pages: tuple[RemarkKind, str] = kind, reason
        if route is UpdatePath.CRI_O:
            of_pages = "dropped", _NOT_PASSED
        for limit in message.hugepage_limits:
            path = pointer(f"{_RESOURCES}/hugepageLimits", limit.page_size)
            yield Remark(path, limit.limit, *of_pages)
    if route in (UpdatePath.CRI_O, UpdatePath.UNKNOWN):
        reason_of_unified = _UNIFIED if route is UpdatePath.CRI_O else reason
        for key in sorted(message.unified):
            path = pointer(f"{_RESOURCES}/unified", key)
            yield Remark(path, message.unified[key], "unresolved", reason_of_unified)
    if message.devices:
        rules: list[Json] = [device_rule(rule) for rule in message.devices]
        yield Remark(f"{_RESOURCES}/devices", rules, kind, reason)


def _of_memory(
    message: api.LinuxMemory,
    reason: str,
    kind: RemarkKind = "dropped",
    applied: Collection[str] = (),
) -> Iterator[Remark]:
    for field, value in message.ListFields():
        path = f"{_RESOURCES}/memory/{oci_name(field.name)}"
        if field.name != "limit" and field.name not in applied:
            yield Remark(path, value.value, kind, reason)
        elif not value.value:
            yield Remark(path, 0, "dropped", _ZERO)
