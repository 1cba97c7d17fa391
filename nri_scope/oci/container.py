# SPDX-License-Identifier: Apache-2.0
"""Convert a container in an NRI message to a partial OCI runtime spec."""

from __future__ import annotations

from copy import deepcopy
from functools import lru_cache

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.merging.fields import KeyedItems
from nri_scope.nri.plain import clear_fields
from nri_scope.specs.json_spec import (
    Spec,
    copy_array,
    copy_object,
    restore_if_unchanged,
    set_or_remove,
    text_at,
)

from . import values
from .values import device_rule, keep_unknown, oci_name, texts, unknown_fields

UNRESOLVED_CLASS = "unresolvedClass"
"""Key in ``/linux/resources/blockIO`` for a class name, whose weights and limits are only in the
node's configuration.
"""


def resources(message: api.LinuxResources) -> Spec:
    """Return ``/linux/resources`` of a container: the whole message except its RDT class."""
    # Of several limits for one page size, the last is effective.
    sizes = {limit.page_size: limit.limit for limit in message.hugepage_limits}
    name = message.blockio_class.value
    return values.present(
        {
            "devices": [device_rule(rule) for rule in message.devices],
            "memory": memory_values(message.memory),
            "cpu": cpu_values(message.cpu),
            "pids": {"limit": message.pids.limit} if message.HasField("pids") else None,
            "blockIO": {UNRESOLVED_CLASS: name} if name else None,
            "hugepageLimits": [{"pageSize": size, "limit": sizes[size]} for size in sizes],
            "unified": texts(message.unified),
        }
    )


def memory_values(message: api.LinuxMemory) -> Spec:
    """Return the memory settings that a message sets, under OCI's names."""
    return {oci_name(field.name): value.value for field, value in message.ListFields()}


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
        field.name: value.value
        for field, value in message.memory.ListFields()
        if field.name in ("limit", "reservation", "swap") and value.value
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
        oci_name(field.name): value if isinstance(value, str) else value.value
        for field, value in message.ListFields()
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
        for limit in message.hugepage_limits:
            new: Spec = {"pageSize": limit.page_size, "limit": limit.limit}
            if not limits.replace(new):
                limits.append(new)
        parts["hugepageLimits"] = list(limits)
    if message.unified:
        copy_object(parts, "unified").update(texts(message.unified))


_CACHED_LENGTH = 8 << 10
"""Maximum size in bytes of a container whose spec is cached."""


_STATE = (
    *("labels", "state", "pid", "created_at", "started_at", "finished_at"),
    *("exit_code", "status_reason", "status_message"),
)
"""Fields that change without a request, and that plugins cannot set; a spec has none of them."""


def without_state(container: api.Container) -> bytes:
    """Return the serialized container without its state, and without empty hooks."""
    plain = deepcopy(container)
    clear_fields(plain, _STATE)
    if not plain.hooks.ByteSize():
        # containerd sends them in CreateContainer, and not later.
        plain.ClearField("hooks")
    return plain.SerializeToString(deterministic=True)


def spec_of(
    container: api.Container, pod: api.PodSandbox | None = None, *, known: bytes | None = None
) -> Spec:
    """Return the parts of the container's OCI spec that NRI messages contain.

    Two keys are not OCI's. ``/cdiDevices`` has only names, as messages do not contain the effects
    of a CDI device. ``/nri`` has values that have no equivalent in a spec: the image, the type of
    the seccomp profile, the runtime handler of `pod`, and raw fields of a newer API.

    ``known``: the result of `without_state`, if it is at hand.
    """
    if pod is None and container.ByteSize() <= _CACHED_LENGTH:
        # Many events show one container, in different states.
        return _spec_of_bytes(without_state(container) if known is None else known)
    return _spec_of(container, pod)


@lru_cache(maxsize=64)
def _spec_of_bytes(content: bytes) -> Spec:
    return _spec_of(api.Container.FromString(content), None)


def _spec_of(container: api.Container, pod: api.PodSandbox | None) -> Spec:
    spec = values.present(
        {
            "process": _process(container),
            "mounts": [values.mount(mount) for mount in container.mounts],
            "hooks": dict(values.hook_lists(container.hooks)),
            "annotations": texts(container.annotations),
            "linux": _linux(container.linux),
            "cdiDevices": [values.cdi_device(device) for device in container.CDI_devices],
            "nri": _nri_values(container, pod),
        }
    )
    keep_unknown(spec, unknown_fields(container, "container"))
    return spec


def _process(container: api.Container) -> Spec:
    linux = container.linux
    has_score = linux.HasField("oom_score_adj")
    return values.present(
        {
            "user": values.user(container.user) if container.HasField("user") else None,
            "args": values.strings(container.args),
            "env": values.strings(container.env),
            "rlimits": [values.rlimit(rlimit) for rlimit in container.rlimits],
            "oomScoreAdj": linux.oom_score_adj.value if has_score else None,
            "scheduler": values.scheduler(linux.scheduler),
            "ioPriority": values.io_priority(linux.io_priority),
        }
    )


def _linux(message: api.LinuxContainer) -> Spec:
    devices = {name: message.net_devices[name] for name in sorted(message.net_devices)}
    has_seccomp = message.HasField("seccomp_policy")
    rdt_class = message.resources.rdt_class.value
    rdt: Spec = {"closID": rdt_class} if rdt_class else {}
    return values.present(
        {
            "sysctl": texts(message.sysctl),
            "resources": resources(message.resources),
            "cgroupsPath": message.cgroups_path or None,
            "namespaces": [values.namespace(item) for item in message.namespaces],
            "devices": [values.device(item) for item in message.devices],
            "netDevices": {name: values.net_device(item) for name, item in devices.items()},
            "seccomp": values.seccomp(message.seccomp_policy) if has_seccomp else None,
            "intelRdt": rdt | values.rdt(message.rdt),
        }
    )


def _nri_values(container: api.Container, pod: api.PodSandbox | None) -> Spec:
    nri: Spec = {}
    if container.HasField("image"):
        nri["image"] = {
            "name": container.image.name,
            "digest": container.image.digest,
            "configDigest": container.image.config_digest,
        }
    if container.linux.HasField("seccomp_profile"):
        nri["seccompProfile"] = values.security_profile(container.linux.seccomp_profile)
    if pod is not None and pod.runtime_handler:
        nri["runtimeHandler"] = pod.runtime_handler
    return nri
