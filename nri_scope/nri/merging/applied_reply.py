# SPDX-License-Identifier: Apache-2.0
"""A container as later events show it, after a runtime applied the merged replies.

Runtimes apply an adjustment to the OCI spec with upstream's generator, and an update through the
CRI's resources; later events show the resulting spec. So of memory only the limit has an effect,
and becomes the swap limit too. No message contains the effects of a CDI device, a block I/O class
or an RDT class on the container, and NRI shows no memory policy.

From the sources of NRI's runtime-tools/generate, containerd 1.7 to 2.4 and CRI-O 1.37, and equal to
the messages that these sent (tests/data/captures).
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping, MutableSequence
from operator import attrgetter
from posixpath import normpath
from typing import TypeVar

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api

from .keyed_list import Indexed

_Entry = TypeVar("_Entry", bound=Message)


def adjusted(
    container: api.Container,
    adjustment: api.ContainerAdjustment,
    *,
    shows_rlimits: bool = True,
) -> api.Container:
    """Return a copy of the container after a merged adjustment.

    `shows_rlimits`: whether this runtime sends plugins the rlimits of a container, as containerd
    does from 2.3 on. State, pid and times are unchanged.
    """
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
    if shows_rlimits:
        result.rlimits.extend(adjustment.rlimits)
    if not result.hooks.ByteSize():
        # At creation, plugins saw a container with empty hooks.
        result.ClearField("hooks")
    return result


def updated(container: api.Container, update: api.ContainerUpdate) -> api.Container:
    """Return a copy of the container after a merged update of it."""
    return with_resources(container, update.linux.resources)


def with_resources(container: api.Container, resources: api.LinuxResources) -> api.Container:
    """Return a copy of the container updated with `resources`; zero means unchanged."""
    result = api.Container()
    result.CopyFrom(container)
    target = result.linux.resources
    # A memory limit without a swap limit: this node cannot limit swap.
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
    # Added even if the page size has a limit already; the last one counts.
    target.hugepage_limits.extend(resources.hugepage_limits)
    for key, value in resources.unified.items():
        target.unified[key] = value
    return result


def _adjust_linux(linux: api.LinuxContainer, wanted: api.LinuxContainerAdjustment) -> None:
    _adjust_devices(linux, wanted.devices)
    _adjust_resources(linux.resources, wanted.resources)
    if wanted.cgroups_path:
        linux.cgroups_path = wanted.cgroups_path
    if wanted.HasField("oom_score_adj"):
        linux.oom_score_adj.CopyFrom(wanted.oom_score_adj)
    if wanted.HasField("io_priority"):
        linux.io_priority.CopyFrom(wanted.io_priority)
    if wanted.HasField("seccomp_policy"):
        linux.seccomp_policy.CopyFrom(wanted.seccomp_policy)
        # The only member that the generator leaves out.
        linux.seccomp_policy.ClearField("default_errno")
    if wanted.HasField("scheduler"):
        if wanted.scheduler.policy == api.SCHED_NONE:
            linux.ClearField("scheduler")
        else:
            linux.scheduler.CopyFrom(wanted.scheduler)
    _adjust_namespaces(linux.namespaces, wanted.namespaces)
    _adjust_keys(linux.sysctl, wanted.sysctl)
    for key in (key for key in wanted.net_devices if key.startswith("-")):
        linux.net_devices.pop(key[1:], None)
    for key, device in wanted.net_devices.items():
        if not key.startswith("-"):
            linux.net_devices[key].CopyFrom(device)
    if wanted.rdt.remove:
        linux.ClearField("rdt")
    replace_members(linux.rdt, wanted.rdt, leave_out="remove")


def _adjust_keys(keys: MutableMapping[str, str], wanted: MutableMapping[str, str]) -> None:
    # Runtimes take removals and values in Go's random order: with both for one key, the outcome is
    # random. This is the outcome that the plugin intended.
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
    result: dict[str, str] = {}
    for variable in env:
        name, separator, value = variable.partition("=")
        if not separator:
            continue  # lost, as soon as any other variable is adjusted
        entry = entries.pop(name, None)
        if entry is None:
            result[name] = value
        elif not entry.key.startswith("-"):
            result[name] = entry.value
    for name, entry in entries.items():
        if not entry.key.startswith("-"):
            result[name] = entry.value
    env[:] = [f"{name}={value}" for name, value in result.items() if name]


def _adjust_devices(linux: api.LinuxContainer, wanted: MutableSequence[api.LinuxDevice]) -> None:
    if not wanted:
        return
    devices = Indexed(linux.devices, attrgetter("path"))
    for device in wanted:
        devices.remove(device.path.removeprefix("-"))
        if device.path.startswith("-"):
            continue
        devices.append(device)
        rule = linux.resources.devices.add(allow=True, type=device.type)
        rule.major.value, rule.minor.value = device.major, device.minor
        rule.access = "rwm" if device.type == "b" else "rw"
    _refill(linux.devices, devices)


def _adjust_namespaces(
    namespaces: MutableSequence[api.LinuxNamespace], wanted: MutableSequence[api.LinuxNamespace]
) -> None:
    if not wanted:
        return
    result = Indexed(namespaces, attrgetter("type"))
    for entry in wanted:
        if result.replace(entry):
            continue
        if entry.type.startswith("-"):
            result.remove(entry.type[1:])
        else:
            result.append(entry)
    _refill(namespaces, result)


def _adjust_mounts(mounts: MutableSequence[api.Mount], wanted: MutableSequence[api.Mount]) -> None:
    if not wanted:
        return
    result = Indexed(mounts, attrgetter("destination"))
    for mount in wanted:
        result.remove(mount.destination.removeprefix("-"))
        if not mount.destination.startswith("-"):
            result.append(mount)
    # Parents before the mounts inside them.
    _refill(mounts, sorted(result, key=lambda one: (_depth(one.destination), one.destination)))


def _depth(path: str) -> int:
    return normpath(path).count("/")


def _adjust_resources(target: api.LinuxResources, wanted: api.LinuxResources) -> None:
    _set_memory_limit(target.memory, wanted.memory)
    replace_members(target.cpu, wanted.cpu)
    if wanted.hugepage_limits:
        limits = Indexed(target.hugepage_limits, attrgetter("page_size"))
        for limit in wanted.hugepage_limits:
            if not limits.replace(limit):
                limits.append(limit)
        _refill(target.hugepage_limits, limits)
    for key, value in wanted.unified.items():
        target.unified[key] = value
    if wanted.HasField("pids"):
        target.pids.SetInParent()
        # A negative limit means none; but the generator keeps an existing one.
        if wanted.pids.limit >= 0:
            target.pids.limit = wanted.pids.limit
    target.devices.extend(wanted.devices)


def _set_memory_limit(target: api.LinuxMemory, wanted: api.LinuxMemory) -> None:
    if limit := wanted.limit.value:
        target.limit.value = limit
        target.swap.value = limit


def replace_members(target: Message, wanted: Message, leave_out: str = "") -> None:
    """Set each member that is set in `wanted`, also to 0 if it is a message around a number."""
    for descriptor, value in wanted.ListFields():
        if descriptor.name == leave_out:
            continue
        if isinstance(value, Message):
            getattr(target, descriptor.name).CopyFrom(value)
        else:
            setattr(target, descriptor.name, value)


def _refill(entries: MutableSequence[_Entry], result: Iterable[_Entry]) -> None:
    whole = list(result)
    del entries[:]
    entries.extend(whole)
