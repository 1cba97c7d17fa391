# SPDX-License-Identifier: Apache-2.0
"""Apply a merged adjustment to a spec as iSulad does, and decide whether the container can run.

From iSulad's source (``nri_spec.c``, ``verify.c``, ``specs.c``), held against what iSulad 2.1.6
with runc 1.1.5 on cgroup v1 made of 59 replies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import NamedTuple, TypeAlias

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.changes import pointer
from nri_scope.nri.merging.fields import KeyedItems
from nri_scope.nri.merging.isulad import ENV, IsuladCreation
from nri_scope.specs.json_spec import Json, Spec, copy_array, copy_object, drop_empty, text_at

from . import values
from .container import cpu_values, memory_values, spec_of

_MEMORY, _CPU = "/linux/resources/memory", "/linux/resources/cpu"
_SMALLEST = 4 << 20
"""Minimum of each memory limit, in bytes."""
_NO_SWAPPINESS = 2**64 - 1
"""-1 as an unsigned number."""
_PERIODS = range(1_000, 1_000_001)
"""CFS periods in microseconds."""
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_PROPAGATIONS = frozenset({"shared", "rshared", "slave", "rslave"})
_DEVICE_TYPES = frozenset("bcup")
_RLIMITS = frozenset(
    f"RLIMIT_{name}"
    for name in (
        *("CPU", "FSIZE", "DATA", "STACK", "CORE", "RSS", "NPROC", "NOFILE", "MEMLOCK", "AS"),
        *("LOCKS", "SIGPENDING", "MSGQUEUE", "NICE", "RTPRIO", "RTTIME"),
    )
)
_Problem: TypeAlias = "tuple[str, tuple[str, ...]]"
"""Why iSulad fails a creation, and the fields that cause it."""

SWAPPED = "iSulad swaps the soft and the hard limit"
NO_RULE = "iSulad adds the node, but no device cgroup rule: access can be denied"
EMPTY_HOOKS = "iSulad adds an empty list of hooks"
CPUSET = "iSulad fails a creation in which plugins adjust the CPU but do not set both cpus and mems"
NOT_ON_NODE = "iSulad fails a creation whose cpus or mems the node lacks"
MEMORY = "iSulad fails a creation with such a memory limit"
CFS = "iSulad fails a creation with such a CPU quota or period"
PROPAGATION = "iSulad fails a creation with a shared or slave mount of no existing path"


class MachineCpus(NamedTuple):
    """CPUs and memory nodes of a machine, as lists such as ``0-3``."""

    cpus: str
    mems: str


class Refusal(NamedTuple):
    """Why iSulad, or the OCI runtime at the start, refuses a container."""

    reason: str
    paths: tuple[str, ...]
    """The fields that cause it."""
    plugin: str
    """The plugin that set the first of them that a plugin set."""


class Altered(NamedTuple):
    """A plugin's request that iSulad applies in another way."""

    plugin: str
    path: str
    value: Json
    """The requested value."""
    reason: str


def adjust(spec: Spec, adjustment: api.ContainerAdjustment) -> Spec:
    """Return `spec` with an adjustment merged by `IsuladCreation`, or the part of one plugin.

    Variables are left out: with one, the creation fails.
    """
    new = dict(spec)
    if adjustment.annotations:
        copy_object(new, "annotations").update(values.texts(adjustment.annotations))
    if adjustment.HasField("hooks"):
        copy_object(new, "hooks")
    if adjustment.rlimits:
        process = copy_object(new, "process")
        rlimits = KeyedItems(copy_array(process, "rlimits"), text_at("type"))
        for rlimit in adjustment.rlimits:
            if not rlimits.replace(values.rlimit(rlimit)):
                rlimits.append(values.rlimit(rlimit))
        process["rlimits"] = list(rlimits)
    linux = adjustment.linux
    if linux.devices:
        _adjust_devices(copy_object(new, "linux"), adjustment.linux)
        drop_empty(new, "linux")
    memory, cpu = memory_values(linux.resources.memory), cpu_values(linux.resources.cpu)
    if memory or cpu:
        resources = copy_object(copy_object(new, "linux"), "resources")
        for name, changed in (("memory", memory), ("cpu", cpu)):
            if changed:
                copy_object(resources, name).update(changed)
    if adjustment.mounts:
        _adjust_mounts(new, adjustment)
    return new


def first(spec: Spec) -> Spec:
    """Return the spec of a container that iSulad adjusts, from that in its CreateContainer."""
    new = written(spec)
    memory = copy_object(copy_object(copy_object(new, "linux"), "resources"), "memory")
    memory.setdefault("swappiness", _NO_SWAPPINESS)
    return new


def written(spec: Spec) -> Spec:
    """Return `spec` as iSulad writes it, before the adjustment and after it.

    A memory limit without a swap limit gets one of twice its size, and zeros are left out.
    """
    new = dict(spec)
    process, linux = copy_object(new, "process"), copy_object(new, "linux")
    resources = copy_object(linux, "resources")
    memory = copy_object(resources, "memory")
    limit = _number(memory, "limit")
    if limit > 0 and not memory.get("swap"):
        memory["swap"] = 2 * limit
    for parent, name in ((resources, "memory"), (resources, "cpu")):
        value = parent.get(name)
        if isinstance(value, dict):
            parent[name] = _without_zeros(value)
        drop_empty(parent, name)
    drop_empty(linux, "resources")
    for parent, name in ((process, "rlimits"), (linux, "devices")):
        if name in parent:
            parent[name] = [
                _without_zeros(item) if isinstance(item, dict) else item
                for item in copy_array(parent, name)
            ]
    if process.get("oomScoreAdj") == 0:
        del process["oomScoreAdj"]
    drop_empty(new, "process")
    drop_empty(new, "linux")
    return new


def creation_refusal(creation: IsuladCreation, node: MachineCpus | None = None) -> Refusal | None:
    """Return why iSulad fails a creation after the chain; None if no plugin makes it fail.

    Without `node`, cpus and mems are only parsed.
    """
    adjustment = creation.adjustment
    spec = adjust(first(spec_of(creation.request.container)), adjustment)
    resources = _object(_object(spec, "linux"), "resources")
    problems: list[_Problem] = [(ENV, (pointer("/process/env", e.key),)) for e in adjustment.env]
    problems += _memory_problems(_object(resources, "memory"))
    problems += _cpu_problems(_object(resources, "cpu"), node)
    problems += [
        (PROPAGATION, (pointer("/mounts", mount.destination),))
        for mount in adjustment.mounts
        if not _PROPAGATIONS.isdisjoint(mount.options) and not mount.source.startswith("/")
    ]
    for reason, paths in problems:
        if plugin := creation.setter(paths):
            return Refusal(reason, paths, plugin)
    if creation.empty_cpuset_by:
        return Refusal(CPUSET, (f"{_CPU}/cpus", f"{_CPU}/mems"), creation.empty_cpuset_by)
    return None


def start_refusal(creation: IsuladCreation) -> Refusal | None:
    """Return why the OCI runtime refuses the created container; None if nothing known does.

    It may still refuse, for example, a mount whose source does not exist.
    """
    adjustment = creation.adjustment
    changes: list[tuple[str, str]] = []
    # Of equal types and paths, the last is effective.
    for rlimit in {rlimit.type: rlimit for rlimit in adjustment.rlimits}.values():
        path = pointer("/process/rlimits", rlimit.type)
        if rlimit.soft > rlimit.hard:
            changes.append((f"{SWAPPED}, and runc refuses a soft limit above the hard one", path))
        elif rlimit.type not in _RLIMITS:
            changes.append(("runc knows no rlimit of this type", path))
    for device in {device.path: device for device in adjustment.linux.devices}.values():
        if device.type not in _DEVICE_TYPES:
            path = pointer("/linux/devices", device.path)
            changes.append(("runc refuses a device whose type is not b, c, p or u", path))
    if adjustment.linux.resources.cpu.realtime_runtime.value:
        reason = "runc cannot set a real-time runtime, of which iSulad's own cgroup has none"
        changes.append((reason, f"{_CPU}/realtimeRuntime"))
    if not changes:
        return None
    reason, path = changes[0]
    return Refusal(reason, (path,), creation.setter((path,)))


def altered(creation: IsuladCreation) -> Iterator[Altered]:
    """Yield the requests that iSulad merged and applies in another way, by plugin."""
    for plugin, own in creation.applied:
        for rlimit in as_requested(own).rlimits:
            if rlimit.soft != rlimit.hard:
                path = pointer("/process/rlimits", rlimit.type)
                yield Altered(plugin, path, _without_zeros(values.rlimit(rlimit)), SWAPPED)
        for device in own.linux.devices:
            path = pointer("/linux/devices", device.path)
            if creation.setter((path,)) == plugin and not device.path.startswith("-"):
                yield Altered(plugin, path, _without_zeros(values.device(device)), NO_RULE)
        if own.HasField("hooks"):
            yield Altered(plugin, "/hooks", {}, EMPTY_HOOKS)


def as_requested(own: api.ContainerAdjustment) -> api.ContainerAdjustment:
    """Return a copy of a plugin's merged request with the limits of rlimits as requested."""
    copy = deepcopy(own)
    for rlimit in copy.rlimits:
        rlimit.soft, rlimit.hard = rlimit.hard, rlimit.soft
    return copy


def notes(creation: IsuladCreation, plugin: str) -> dict[str, str]:
    """Return what becomes of a plugin's merged requests, by path, unless applied as they are."""
    reasons = {edit.path: edit.reason for edit in altered(creation) if edit.plugin == plugin}
    start = start_refusal(creation)
    if start is not None and start.plugin == plugin:
        reasons.update(dict.fromkeys(start.paths, start.reason))
    return reasons


def _adjust_devices(linux: Spec, adjustment: api.LinuxContainerAdjustment) -> None:
    devices = KeyedItems(copy_array(linux, "devices"), text_at("path"))
    for change in adjustment.devices:
        if change.path.startswith("-"):
            devices.remove(change.path[1:])
        elif not devices.replace(values.device(change)):
            devices.append(values.device(change))
    linux["devices"] = list(devices)
    drop_empty(linux, "devices")


def _adjust_mounts(new: Spec, adjustment: api.ContainerAdjustment) -> None:
    """Append mounts; of equal destinations, a removal takes the last."""
    mounts = KeyedItems(reversed(copy_array(new, "mounts")), text_at("destination"))
    for change in adjustment.mounts:
        if change.destination.startswith("-"):
            mounts.remove(change.destination[1:])
    added: list[Json] = [
        {
            "destination": change.destination,
            "type": change.type,
            "source": change.source,
            **({"options": values.strings(change.options)} if change.options else {}),
        }
        for change in adjustment.mounts
        if not change.destination.startswith("-")
    ]
    new["mounts"] = [*reversed(list(mounts)), *added]
    drop_empty(new, "mounts")


def _memory_problems(memory: Spec) -> Iterator[_Problem]:
    limit, swap = _number(memory, "limit"), _number(memory, "swap")
    for name in ("limit", "reservation", "kernel"):
        value = _number(memory, name)
        if value and value < _SMALLEST:
            yield f"{MEMORY}: {name} is below 4 MiB", (f"{_MEMORY}/{name}",)
    paths = f"{_MEMORY}/swap", f"{_MEMORY}/limit"
    if swap > 0 == limit:
        yield f"{MEMORY}: a swap limit needs a memory limit", paths
    elif 0 < swap < limit:
        yield f"{MEMORY}: the swap limit is below the memory limit", paths
    if 100 < _number(memory, "swappiness") < _NO_SWAPPINESS:
        yield f"{MEMORY}: swappiness is above 100", (f"{_MEMORY}/swappiness",)
    if 0 < limit < _number(memory, "reservation"):
        paths = f"{_MEMORY}/reservation", f"{_MEMORY}/limit"
        yield f"{MEMORY}: the reservation is above the limit", paths


def _cpu_problems(cpu: Spec, node: MachineCpus | None) -> Iterator[_Problem]:
    period, quota = _number(cpu, "period"), _number(cpu, "quota")
    if period and period not in _PERIODS:
        yield f"{CFS}: the period is not 1 ms to 1 s", (f"{_CPU}/period",)
    if 0 < quota < _PERIODS.start:
        yield f"{CFS}: the quota is below 1 ms", (f"{_CPU}/quota",)
    for name in ("cpus", "mems"):
        wanted = cpu.get(name)
        available = None if node is None else getattr(node, name)
        if isinstance(wanted, str) and wanted and not _is_available(wanted, available):
            problem = "is not a list" if available is None else f"this machine has {available}"
            yield f"{NOT_ON_NODE}: {name}: {problem}", (f"{_CPU}/{name}",)


def _is_available(wanted: str, available: str | None) -> bool:
    ranges = _ranges(wanted)
    if not ranges or available is None:
        return bool(ranges)
    existing = _ranges(available)
    return all(any(low <= a and b <= high for low, high in existing) for a, b in ranges)


def _ranges(text: str) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for part in text.removesuffix(",").split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            return []
        low = int(match[1])
        ranges.append((low, int(match[2]) if match[2] else low))
    return ranges


def _without_zeros(members: Spec) -> Spec:
    return {name: value for name, value in members.items() if value or isinstance(value, str)}


def _object(parent: Spec, name: str) -> Spec:
    value = parent.get(name)
    return value if isinstance(value, dict) else {}


def _number(parent: Spec, name: str) -> int:
    value = parent.get(name)
    return value if isinstance(value, int) else 0
