# SPDX-License-Identifier: Apache-2.0
"""``/linux/resources``: of a container, and as set by an adjustment or an update."""

from __future__ import annotations

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.merging.keyed_list import KeyedItems
from nri_scope.specs.json_spec import (
    Spec,
    copy_array,
    copy_object,
    restore_if_unchanged,
    set_or_remove,
    text_at,
)

from .values import device_rule, texts

MEMORY = {
    "limit": "limit",
    "reservation": "reservation",
    "swap": "swap",
    "kernel": "kernel",
    "kernel_tcp": "kernelTCP",
    "swappiness": "swappiness",
    "disable_oom_killer": "disableOOMKiller",
    "use_hierarchy": "useHierarchy",
}
"""NRI's names in LinuxMemory, and OCI's; sizes are in bytes."""

CPU = {
    "shares": "shares",
    "quota": "quota",
    "period": "period",
    "realtime_runtime": "realtimeRuntime",
    "realtime_period": "realtimePeriod",
    "cpus": "cpus",
    "mems": "mems",
}
"""NRI's names in LinuxCPU, and OCI's; times are in microseconds."""

UNRESOLVED_CLASS = "unresolvedClass"
"""Key in ``/linux/resources/blockIO`` for a class name, whose weights and limits are only in the
node's configuration.
"""


def resources(message: api.LinuxResources) -> Spec:
    """Return ``/linux/resources`` of a container: the whole message except its RDT class."""
    value: Spec = {}
    if message.devices:
        value["devices"] = [device_rule(rule) for rule in message.devices]
    memory = memory_values(message.memory)
    if memory:
        value["memory"] = memory
    cpu = cpu_values(message.cpu)
    if cpu:
        value["cpu"] = cpu
    if message.HasField("pids"):
        value["pids"] = {"limit": message.pids.limit}
    if message.blockio_class.value:
        value["blockIO"] = {UNRESOLVED_CLASS: message.blockio_class.value}
    if message.hugepage_limits:
        # Of several limits for one size, the last is effective.
        sizes = {limit.page_size: limit.limit for limit in message.hugepage_limits}
        value["hugepageLimits"] = [
            {"pageSize": size, "limit": limit} for size, limit in sizes.items()
        ]
    if message.unified:
        value["unified"] = texts(message.unified)
    return value


def memory_values(message: api.LinuxMemory) -> Spec:
    """Return the memory settings that a message sets, under OCI's names."""
    return {
        MEMORY[field.name]: each.value
        for field, each in message.ListFields()
        if field.name in MEMORY
    }


def adjust_resources(linux: Spec, message: api.LinuxResources) -> None:
    """Apply an adjustment's resources to `linux`, which must be a copy.

    As in the generator of containerd/nri up to 0.12.5, only the limit of the memory settings is
    applied, which also sets the swap limit; 0 means no limit. `remarks` lists the other settings.
    """
    before = dict(linux)
    parts = copy_object(linux, "resources")
    cpu = cpu_values(message.cpu)
    if cpu:
        copy_object(parts, "cpu").update(cpu)
    _limit_memory(parts, message.memory.limit.value)
    _set_hugepages_and_unified(parts, message)
    if message.HasField("pids"):
        pids = copy_object(parts, "pids")
        # -1 means unlimited, in OCI a missing limit; but the generator keeps an existing limit.
        if message.pids.limit > -1:
            pids["limit"] = message.pids.limit
    if message.devices:
        copy_array(parts, "devices").extend(device_rule(rule) for rule in message.devices)
    if message.HasField("blockio_class"):
        name = message.blockio_class.value
        set_or_remove(parts, "blockIO", {UNRESOLVED_CLASS: name} if name else None)
    restore_if_unchanged(linux, "resources", before)


def update_resources(
    linux: Spec, message: api.LinuxResources, *, sets_swap: bool = True, of_cri: bool = True
) -> None:
    """Apply an update's resources to `linux`, which must be a copy.

    As in containerd and CRI-O, only fields of the CRI's LinuxContainerResources are applied, in
    which 0 and "" mean "unchanged". Without `sets_swap`, the swap limit does not follow the memory
    limit; without `of_cri`, only settings that all runtimes apply on all nodes are applied.
    """
    before = dict(linux)
    parts = copy_object(linux, "resources")
    _update_cpu(parts, message)
    memory = parts.get("memory")
    # A memory limit without a swap limit means that this node cannot limit swap.
    swapless = isinstance(memory, dict) and "limit" in memory and "swap" not in memory
    _limit_memory(parts, message.memory.limit.value, swap=sets_swap and not swapless)
    if of_cri:
        _set_hugepages_and_unified(parts, message)
    restore_if_unchanged(linux, "resources", before)


def update_by_oci_runtime(linux: Spec, message: api.LinuxResources) -> None:
    """Apply an update's resources to `linux`, which must be a copy, as ``runc update`` does.

    For runc, 0 and "" mean "unchanged", too; it sets the memory limit, reservation and swap limit
    separately (runc-update(8); pids and the reservation were tested on CRI-O 1.37).
    """
    before = dict(linux)
    parts = copy_object(linux, "resources")
    _update_cpu(parts, message)
    memory: Spec = {
        MEMORY[field.name]: each.value
        for field, each in message.memory.ListFields()
        if field.name in ("limit", "reservation", "swap") and each.value
    }
    if memory:
        copy_object(parts, "memory").update(memory)
    if message.pids.limit > 0:
        copy_object(parts, "pids")["limit"] = message.pids.limit
    if message.unified:
        copy_object(parts, "unified").update(texts(message.unified))
    restore_if_unchanged(linux, "resources", before)


def _update_cpu(parts: Spec, message: api.LinuxResources) -> None:
    cpu: Spec = {
        name: value
        for name, value in cpu_values(message.cpu).items()
        if value and name in ("shares", "quota", "period", "cpus", "mems")
    }
    if cpu:
        copy_object(parts, "cpu").update(cpu)


def cpu_values(message: api.LinuxCPU) -> Spec:
    """Return the CPU settings that a message sets, under OCI's names."""
    return {
        CPU[field.name]: value if isinstance(value, str) else value.value
        for field, value in message.ListFields()
        if field.name in CPU
    }


def _limit_memory(parts: Spec, limit: int, *, swap: bool = True) -> None:
    if limit:
        memory = copy_object(parts, "memory")
        memory["limit"] = limit
        if swap:
            memory["swap"] = limit


def _set_hugepages_and_unified(parts: Spec, message: api.LinuxResources) -> None:
    if message.hugepage_limits:
        limits = KeyedItems(copy_array(parts, "hugepageLimits"), text_at("pageSize"))
        for each in message.hugepage_limits:
            new: Spec = {"pageSize": each.page_size, "limit": each.limit}
            if not limits.replace(new):
                limits.append(new)
        parts["hugepageLimits"] = list(limits)
    if message.unified:
        copy_object(parts, "unified").update(texts(message.unified))
