# SPDX-License-Identifier: Apache-2.0
"""Compute a container as later events show it, after a runtime applied the merged replies.

Runtimes apply an adjustment to the OCI spec with upstream's generator, and an update through the
CRI's resources; later events show the resulting spec. Therefore only the limit of memory has an
effect, and it also becomes the swap limit. The effects of a CDI device, a block I/O class or an RDT
class on the container are in no message, nor is the memory policy.

This follows the sources of NRI's runtime-tools/generate, containerd 1.7 to 2.4 and CRI-O 1.37, and
is tested with messages that these runtimes sent (tests/data/captures).
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping, MutableSequence
from copy import deepcopy
from operator import attrgetter
from posixpath import normpath
from typing import TypeVar

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api

from .fields import KeyedItems

_Entry = TypeVar("_Entry", bound=Message)

ADJUSTABLE = ("annotations", "args", "env", "mounts", "hooks", "linux", "rlimits", "CDI_devices")
"""Fields of a Container that an adjustment or an update can change."""


def adjusted(
    container: api.Container,
    adjustment: api.ContainerAdjustment,
    *,
    shows_rlimits: bool = True,
) -> api.Container:
    """Return a copy of the container with a merged adjustment applied.

    `shows_rlimits` is whether this runtime sends a container's rlimits to plugins, as containerd
    does from 2.3 on. State, pid and times are unchanged.
    """
    result = deepcopy(container)
    _adjust_keys(result.annotations, adjustment.annotations)
    _adjust_env(result.env, adjustment.env)
    if adjustment.args:
        result.args[:] = adjustment.args
    for descriptor, hooks in adjustment.hooks.ListFields():
        getattr(result.hooks, descriptor.name).extend(hooks)
    _adjust_linux(result.linux, adjustment.linux)
    _adjust_mounts(result.mounts, adjustment.mounts)
    if shows_rlimits:
        result.rlimits.extend(adjustment.rlimits)
    if not result.hooks.ByteSize():
        # The request to plugins contains an empty hooks message; later events do not.
        result.ClearField("hooks")
    return result


def with_resources(container: api.Container, resources: api.LinuxResources) -> api.Container:
    """Return a copy of the container updated with `resources`; zero means unchanged."""
    result = deepcopy(container)
    target = result.linux.resources
    # A memory limit without a swap limit means that this node cannot limit swap.
    swapless = target.memory.HasField("limit") and not target.memory.HasField("swap")
    _set_memory_limit(target.memory, resources.memory)
    if swapless:
        target.memory.ClearField("swap")
    for name in ("shares", "quota", "period"):
        if value := getattr(resources.cpu, name).value:
            getattr(target.cpu, name).value = value
    if resources.cpu.cpus:
        target.cpu.cpus = resources.cpu.cpus
    if resources.cpu.mems:
        target.cpu.mems = resources.cpu.mems
    # Appended even if the page size has a limit already; the last limit is effective.
    target.hugepage_limits.extend(resources.hugepage_limits)
    for key, value in resources.unified.items():
        target.unified[key] = value
    return result


def _adjust_linux(linux: api.LinuxContainer, requested: api.LinuxContainerAdjustment) -> None:
    _adjust_devices(linux, requested.devices)
    _adjust_resources(linux.resources, requested.resources)
    if requested.cgroups_path:
        linux.cgroups_path = requested.cgroups_path
    if requested.HasField("oom_score_adj"):
        linux.oom_score_adj.CopyFrom(requested.oom_score_adj)
    if requested.HasField("io_priority"):
        linux.io_priority.CopyFrom(requested.io_priority)
    if requested.HasField("seccomp_policy"):
        linux.seccomp_policy.CopyFrom(requested.seccomp_policy)
        # The generator ignores only this member.
        linux.seccomp_policy.ClearField("default_errno")
    if requested.HasField("scheduler"):
        if requested.scheduler.policy == api.SCHED_NONE:
            linux.ClearField("scheduler")
        else:
            linux.scheduler.CopyFrom(requested.scheduler)
    _adjust_namespaces(linux.namespaces, requested.namespaces)
    _adjust_keys(linux.sysctl, requested.sysctl)
    for key in (key for key in requested.net_devices if key.startswith("-")):
        linux.net_devices.pop(key[1:], None)
    for key, device in requested.net_devices.items():
        if not key.startswith("-"):
            linux.net_devices[key].CopyFrom(device)
    if requested.rdt.remove:
        linux.ClearField("rdt")
    replace_members(linux.rdt, requested.rdt, leave_out="remove")


def _adjust_keys(keys: MutableMapping[str, str], requested: MutableMapping[str, str]) -> None:
    # Runtimes apply removals and values in Go's random map order, so the result is random for a key
    # with both. This is the result that the plugin intended.
    for key in requested:
        if key.startswith("-"):
            keys.pop(key[1:], None)
    for key, value in requested.items():
        if not key.startswith("-"):
            keys[key] = value


def _adjust_env(env: MutableSequence[str], requested: MutableSequence[api.KeyValue]) -> None:
    if not requested:
        return
    entries = {entry.key.removeprefix("-"): entry for entry in requested}
    result: dict[str, str] = {}
    for variable in env:
        name, separator, value = variable.partition("=")
        if not separator:
            continue  # The generator loses it when any variable is adjusted.
        entry = entries.pop(name, None)
        if entry is None:
            result[name] = value
        elif not entry.key.startswith("-"):
            result[name] = entry.value
    for name, entry in entries.items():
        if not entry.key.startswith("-"):
            result[name] = entry.value
    env[:] = [f"{name}={value}" for name, value in result.items() if name]


def _adjust_devices(linux: api.LinuxContainer, requested: MutableSequence[api.LinuxDevice]) -> None:
    if not requested:
        return
    devices = KeyedItems(linux.devices, attrgetter("path"))
    for device in requested:
        devices.remove(device.path.removeprefix("-"))
        if device.path.startswith("-"):
            continue
        devices.append(device)
        rule = linux.resources.devices.add(allow=True, type=device.type)
        rule.major.value, rule.minor.value = device.major, device.minor
        rule.access = "rwm" if device.type == "b" else "rw"
    _refill(linux.devices, devices)


def _adjust_namespaces(
    namespaces: MutableSequence[api.LinuxNamespace], requested: MutableSequence[api.LinuxNamespace]
) -> None:
    if not requested:
        return
    result = KeyedItems(namespaces, attrgetter("type"))
    for entry in requested:
        if result.replace(entry):
            continue
        if entry.type.startswith("-"):
            result.remove(entry.type[1:])
        else:
            result.append(entry)
    _refill(namespaces, result)


def _adjust_mounts(
    mounts: MutableSequence[api.Mount], requested: MutableSequence[api.Mount]
) -> None:
    if not requested:
        return
    result = KeyedItems(mounts, attrgetter("destination"))
    for mount in requested:
        result.remove(mount.destination.removeprefix("-"))
        if not mount.destination.startswith("-"):
            result.append(mount)
    # Parents come before the mounts inside them.
    _refill(mounts, sorted(result, key=_mount_order))


def _mount_order(mount: api.Mount) -> tuple[int, str]:
    return normpath(mount.destination).count("/"), mount.destination


def _adjust_resources(target: api.LinuxResources, requested: api.LinuxResources) -> None:
    _set_memory_limit(target.memory, requested.memory)
    replace_members(target.cpu, requested.cpu)
    if requested.hugepage_limits:
        limits = KeyedItems(target.hugepage_limits, attrgetter("page_size"))
        for limit in requested.hugepage_limits:
            if not limits.replace(limit):
                limits.append(limit)
        _refill(target.hugepage_limits, limits)
    for key, value in requested.unified.items():
        target.unified[key] = value
    if requested.HasField("pids"):
        target.pids.SetInParent()
        # A negative limit means no limit, but the generator keeps an existing one.
        if requested.pids.limit >= 0:
            target.pids.limit = requested.pids.limit
    target.devices.extend(requested.devices)


def _set_memory_limit(target: api.LinuxMemory, requested: api.LinuxMemory) -> None:
    if limit := requested.limit.value:
        target.limit.value = limit
        target.swap.value = limit


def replace_members(target: Message, requested: Message, leave_out: str = "") -> None:
    """Copy each member that is set in `requested`, including wrapped numbers that are 0."""
    for descriptor, value in requested.ListFields():
        if descriptor.name == leave_out:
            continue
        if isinstance(value, Message):
            getattr(target, descriptor.name).CopyFrom(value)
        else:
            setattr(target, descriptor.name, value)


def _refill(entries: MutableSequence[_Entry], result: Iterable[_Entry]) -> None:
    new_entries = list(result)
    del entries[:]
    entries.extend(new_entries)
