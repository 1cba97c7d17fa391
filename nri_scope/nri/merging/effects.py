# SPDX-License-Identifier: Apache-2.0
"""How later events show a container, after a runtime did what the merged replies say.

containerd and CRI-O apply an adjustment to the OCI spec with upstream's generator, and later events
show what is in that spec. Two things follow that surprise: of an adjusted memory only the limit
has an effect, and it becomes the limit of swap too. What a CDI device, a block I/O or an RDT class
does to the container is in no message, and NRI shows no memory policy.
"""

from __future__ import annotations

from collections.abc import MutableMapping, MutableSequence
from posixpath import normpath
from typing import TypeVar

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api

_Entry = TypeVar("_Entry", bound=Message)


def adjusted(container: api.Container, adjustment: api.ContainerAdjustment) -> api.Container:
    """The container after a merged adjustment. A copy."""
    result = api.Container()
    result.CopyFrom(container)
    _adjust_keys(result.annotations, adjustment.annotations)
    _adjust_env(result.env, adjustment.env)
    if adjustment.args:
        result.args[:] = adjustment.args
    for descriptor, hooks in adjustment.hooks.ListFields():
        getattr(result.hooks, descriptor.name).extend(hooks)
    _adjust_linux(result.linux, adjustment.linux)
    _adjust_mounts(result.mounts, adjustment.mounts)
    result.rlimits.extend(adjustment.rlimits)
    return result


def updated(container: api.Container, update: api.ContainerUpdate) -> api.Container:
    """The container after a merged update of it. A copy."""
    return with_resources(container, update.linux.resources)


def with_resources(container: api.Container, resources: api.LinuxResources) -> api.Container:
    """The container after it got what is set in `resources`, and kept the rest. A copy."""
    result = api.Container()
    result.CopyFrom(container)
    target = result.linux.resources
    _replace_members(target.memory, resources.memory)
    _set_common(target, resources)
    return result


def _adjust_linux(linux: api.LinuxContainer, wanted: api.LinuxContainerAdjustment) -> None:
    _adjust_devices(linux, wanted.devices)
    _adjust_resources(linux.resources, wanted.resources)
    if wanted.cgroups_path:
        linux.cgroups_path = wanted.cgroups_path
    for name in ("oom_score_adj", "io_priority", "seccomp_policy", "scheduler"):
        if wanted.HasField(name):
            getattr(linux, name).CopyFrom(getattr(wanted, name))
    _adjust_namespaces(linux.namespaces, wanted.namespaces)
    _adjust_keys(linux.sysctl, wanted.sysctl)
    for key in (key for key in wanted.net_devices if key.startswith("-")):
        linux.net_devices.pop(key[1:], None)
    for key, device in wanted.net_devices.items():
        if not key.startswith("-"):
            linux.net_devices[key].CopyFrom(device)
    if wanted.rdt.remove:
        linux.ClearField("rdt")
    _replace_members(linux.rdt, wanted.rdt, leave_out="remove")


def _adjust_keys(keys: MutableMapping[str, str], wanted: MutableMapping[str, str]) -> None:
    # Runtimes take removals and values in Go's random order: with both for one key, the outcome is
    # a matter of luck. This is the one that the plugin meant.
    for key in wanted:
        if key.startswith("-"):
            keys.pop(key[1:], None)
    for key, value in wanted.items():
        if not key.startswith("-"):
            keys[key] = value


def _adjust_env(env: MutableSequence[str], wanted: MutableSequence[api.KeyValue]) -> None:
    if not wanted:
        return
    entries = {entry.key.removeprefix("-"): entry for entry in wanted}
    result: list[str] = []
    for variable in env:
        name, separator, _ = variable.partition("=")
        if not separator:
            continue  # lost, as soon as any other variable is adjusted
        entry = entries.pop(name, None)
        if entry is None:
            result.append(variable)
        elif not entry.key.startswith("-"):
            result.append(f"{name}={entry.value}")
    result += (
        f"{entry.key}={entry.value}" for entry in entries.values() if not entry.key.startswith("-")
    )
    env[:] = result


def _adjust_devices(linux: api.LinuxContainer, wanted: MutableSequence[api.LinuxDevice]) -> None:
    for device in wanted:
        _remove(linux.devices, "path", device.path.removeprefix("-"))
        if device.path.startswith("-"):
            continue
        linux.devices.append(device)
        rule = linux.resources.devices.add(allow=True, type=device.type)
        rule.major.value, rule.minor.value = device.major, device.minor
        rule.access = "rwm" if device.type == "b" else "rw"


def _adjust_namespaces(
    namespaces: MutableSequence[api.LinuxNamespace], wanted: MutableSequence[api.LinuxNamespace]
) -> None:
    for entry in wanted:
        for namespace in namespaces:
            if namespace.type == entry.type:
                namespace.CopyFrom(entry)
                break
        else:
            if entry.type.startswith("-"):
                _remove(namespaces, "type", entry.type[1:])
            else:
                namespaces.append(entry)


def _adjust_mounts(mounts: MutableSequence[api.Mount], wanted: MutableSequence[api.Mount]) -> None:
    if not wanted:
        return
    for mount in wanted:
        _remove(mounts, "destination", mount.destination.removeprefix("-"))
        if not mount.destination.startswith("-"):
            mounts.append(mount)
    # The parents before what is mounted in them.
    in_order = sorted(mounts, key=lambda one: (_depth(one.destination), one.destination))
    del mounts[:]
    mounts.extend(in_order)


def _depth(path: str) -> int:
    return normpath(path).count("/")


def _adjust_resources(target: api.LinuxResources, wanted: api.LinuxResources) -> None:
    if limit := wanted.memory.limit.value:
        target.memory.limit.value = limit
        target.memory.swap.value = limit
    _set_common(target, wanted)
    if wanted.HasField("pids"):
        target.pids.CopyFrom(wanted.pids)
    target.devices.extend(wanted.devices)


def _set_common(target: api.LinuxResources, wanted: api.LinuxResources) -> None:
    _replace_members(target.cpu, wanted.cpu)
    for limit in wanted.hugepage_limits:
        for there in target.hugepage_limits:
            if there.page_size == limit.page_size:
                there.limit = limit.limit
                break
        else:
            target.hugepage_limits.append(limit)
    for key, value in wanted.unified.items():
        target.unified[key] = value


def _replace_members(target: Message, wanted: Message, leave_out: str = "") -> None:
    for descriptor, value in wanted.ListFields():
        if descriptor.name == leave_out:
            continue
        if isinstance(value, Message):
            getattr(target, descriptor.name).CopyFrom(value)
        else:
            setattr(target, descriptor.name, value)


def _remove(entries: MutableSequence[_Entry], attribute: str, key: str) -> None:
    for position in reversed(range(len(entries))):
        if getattr(entries[position], attribute) == key:
            del entries[position]
