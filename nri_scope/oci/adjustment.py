# SPDX-License-Identifier: Apache-2.0
"""Apply a merged adjustment to a spec, as containerd and CRI-O do.

Both use the generator of containerd/nri (pkg/runtime-tools/generate, from the source of 0.12.2,
unchanged up to 0.12.5). Comments in the code describe unexpected behaviour.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeVar

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.merging.fields import KeyedItems
from nri_scope.specs.json_spec import (
    Json,
    Spec,
    copy_array,
    copy_object,
    drop_empty,
    restore_if_unchanged,
    set_or_remove,
    text_at,
)

from . import values
from .container import adjust_resources
from .values import keep_unknown, unknown_fields

_M = TypeVar("_M", bound=Message)


def adjust(spec: Spec, adjustment: api.ContainerAdjustment) -> Spec:
    """Return `spec` with `adjustment` applied, as a new spec that shares unchanged parts.

    The adjustment may be merged or a single plugin's: as in merging, a removal together with a new
    value replaces the value, in either order, and an initial argument of "" is ignored.

    Nothing is refused or looked up: an unknown namespace is added as requested, the propagation of
    a mount's source is assumed to suit the mount, CDI devices are listed under ``/cdiDevices``, and
    a block I/O class is stored by name. `remarks` lists where a runtime would differ. Adjusted
    parts of `spec` with an invalid type (an object instead of an array) are replaced.
    """
    new = dict(spec)
    if adjustment.annotations:
        _set_members(new, "annotations", adjustment.annotations)
    _adjust_process(copy_object(new, "process"), adjustment)
    restore_if_unchanged(new, "process", spec)
    _add_hooks(new, adjustment.hooks)
    if adjustment.CDI_devices:
        copy_array(new, "cdiDevices").extend(values.cdi_device(d) for d in adjustment.CDI_devices)
    _adjust_linux(copy_object(new, "linux"), adjustment.linux)
    restore_if_unchanged(new, "linux", spec)
    if adjustment.mounts:
        _adjust_mounts(new, adjustment.mounts)
    keep_unknown(new, unknown_fields(adjustment, "adjustment"))
    return new


def sort_mounts(spec: Spec) -> Spec:
    """Return a new spec with sorted mounts, parents first, as after an adjustment of a mount.

    `changes` from this spec to the adjusted spec contains no moves caused only by the sorting.
    """
    new = dict(spec)
    if isinstance(spec.get("mounts"), list):
        copy_array(new, "mounts").sort(key=_depth_and_destination)
    return new


def removed_key(key: str) -> str | None:
    """Return the key after the leading dash of a removal; None if there is no dash."""
    return key[1:] if key.startswith("-") else None


def _set_members(parent: Spec, name: str, changes: Mapping[str, str | Spec]) -> None:
    members = copy_object(parent, name)
    # Removals first, so that a removal and a new value for one key replace the value. Go applies
    # them in random order.
    for key in changes:
        removed = removed_key(key)
        if removed is not None:
            members.pop(removed, None)
    for key in sorted(changes):
        if removed_key(key) is None:
            members[key] = changes[key]
    drop_empty(parent, name)


def _adjust_process(process: Spec, adjustment: api.ContainerAdjustment) -> None:
    linux = adjustment.linux
    if adjustment.env:
        _adjust_env(process, adjustment.env)
    args = values.strings(adjustment.args)
    if args[:1] == [""]:
        del args[0]
    if args:
        process["args"] = args
    # Appended even if the type exists already, so that the list can have duplicates.
    if adjustment.rlimits:
        copy_array(process, "rlimits").extend(values.rlimit(limit) for limit in adjustment.rlimits)
    if linux.HasField("oom_score_adj"):
        process["oomScoreAdj"] = linux.oom_score_adj.value
    if linux.HasField("io_priority"):
        set_or_remove(process, "ioPriority", values.io_priority(linux.io_priority))
    if linux.HasField("scheduler"):
        set_or_remove(process, "scheduler", values.scheduler(linux.scheduler))


def _adjust_env(process: Spec, changes: Iterable[api.KeyValue]) -> None:
    """Replace variables in place and append new ones, then rewrite the environment.

    Rewriting drops entries without "=" or without a name. A duplicate name has its first position
    and its last value, even if the adjustment replaced the first value.
    """
    pending: dict[str, api.KeyValue] = {}
    for change in _removals_first(changes, "key"):
        removed = removed_key(change.key)
        pending[change.key if removed is None else removed] = change
    env: dict[str, str] = {}
    for entry in copy_array(process, "env"):
        name, equals, value = entry.partition("=") if isinstance(entry, str) else ("", "", "")
        if not equals:
            continue
        change_or_none = pending.pop(name, None)
        if change_or_none is None:
            env[name] = value
        elif removed_key(change_or_none.key) is None:
            env[change_or_none.key] = change_or_none.value
    for change in changes:
        if removed_key(change.key) is None and change.key in pending:
            env[change.key] = change.value
    env.pop("", None)
    process["env"] = [f"{name}={value}" for name, value in env.items()]
    drop_empty(process, "env")


def _add_hooks(new: Spec, message: api.Hooks) -> None:
    for name, added in values.hook_lists(message):
        copy_array(copy_object(new, "hooks"), name).extend(added)


def _adjust_linux(linux: Spec, message: api.LinuxContainerAdjustment) -> None:
    _adjust_devices(linux, message.devices)
    if message.cgroups_path:
        linux["cgroupsPath"] = message.cgroups_path
    if message.HasField("seccomp_policy"):
        policy = values.seccomp(message.seccomp_policy)
        policy.pop("defaultErrnoRet", None)  # The generator omits it.
        linux["seccomp"] = policy
    _adjust_namespaces(linux, message.namespaces)
    if message.sysctl:
        _set_members(linux, "sysctl", message.sysctl)
    if message.net_devices:
        devices = {name: values.net_device(device) for name, device in message.net_devices.items()}
        _set_members(linux, "netDevices", devices)
    if message.HasField("memory_policy"):
        linux["memoryPolicy"] = values.memory_policy(message.memory_policy)
    if message.HasField("resources"):
        adjust_resources(linux, message.resources)
    _adjust_rdt(linux, message)


def _adjust_devices(linux: Spec, changes: Iterable[api.LinuxDevice]) -> None:
    added = _remove_marked(linux, "devices", changes, "path")
    if not added:
        return
    devices = KeyedItems(copy_array(linux, "devices"), text_at("path"))
    rules = copy_array(copy_object(linux, "resources"), "devices")
    for change in added:
        devices.remove(change.path)
        device = values.device(change)
        if not devices.replace(device):
            devices.append(device)
        # Adding a device allows it in the cgroup; removing a device does not deny it.
        rules.append(
            {
                "allow": True,
                "type": change.type,
                "major": change.major,
                "minor": change.minor,
                # A character device never has "m" here, regardless of its file mode.
                "access": "rwm" if change.type == "b" else "rw",
            }
        )
    linux["devices"] = list(devices)


def _adjust_namespaces(linux: Spec, changes: Iterable[api.LinuxNamespace]) -> None:
    added = _remove_marked(linux, "namespaces", changes, "type")
    if not added:
        return
    namespaces = KeyedItems(copy_array(linux, "namespaces"), text_at("type"))
    for change in added:
        namespace = values.namespace(change)
        if not namespaces.replace(namespace):
            namespaces.append(namespace)
    linux["namespaces"] = list(namespaces)


def _adjust_rdt(linux: Spec, message: api.LinuxContainerAdjustment) -> None:
    if message.resources.HasField("rdt_class"):
        name = message.resources.rdt_class.value
        # Both runtimes use the class as the name of a CLOS.
        set_or_remove(linux, "intelRdt", {"closID": name} if name else None)
    if message.rdt.remove:
        linux.pop("intelRdt", None)
    rdt = values.rdt(message.rdt)
    if rdt:
        copy_object(linux, "intelRdt").update(rdt)


def _adjust_mounts(new: Spec, changes: Iterable[api.Mount]) -> None:
    mounts = KeyedItems(copy_array(new, "mounts"), text_at("destination"))
    for change in _removals_first(changes, "destination"):
        removed = removed_key(change.destination)
        mounts.remove(change.destination if removed is None else removed)
        if removed is None:
            mounts.append(values.mount(change))
            _propagate(new, change.options)
    new["mounts"] = sorted(mounts, key=_depth_and_destination)
    drop_empty(new, "mounts")


def _propagate(new: Spec, options: Iterable[str]) -> None:
    propagation = ""
    for option in options:
        if option in ("rprivate", "rshared", "rslave"):
            propagation = option
    if propagation == "rshared":
        copy_object(new, "linux")["rootfsPropagation"] = propagation
    elif propagation == "rslave":
        linux = copy_object(new, "linux")
        if linux.get("rootfsPropagation") not in ("rshared", "rslave"):
            linux["rootfsPropagation"] = propagation


def _depth_and_destination(mount: Json) -> tuple[int, str]:
    destination = mount.get("destination") if isinstance(mount, dict) else None
    if not isinstance(destination, str):
        return 0, ""
    is_short = len(destination) <= values.CACHED_LENGTH
    return (_depth if is_short else _depth.__wrapped__)(destination), destination


@lru_cache(maxsize=1024)
def _depth(destination: str) -> int:
    clean = posixpath.normpath(destination)
    # posixpath keeps two leading slashes; Go reduces them to one.
    return (clean[1:] if clean.startswith("//") else clean).count("/")


def _remove_marked(parent: Spec, name: str, changes: Iterable[_M], key: str) -> list[_M]:
    """Apply the removals in `changes`, which come before all other changes; return the others.

    A list that becomes empty is removed; if it is filled again, it is the last member of `parent`.
    """
    removals: list[str] = []
    remaining: list[_M] = []
    for change in changes:
        removed = removed_key(getattr(change, key))
        if removed is None:
            remaining.append(change)
        else:
            removals.append(removed)
    if removals:
        items = KeyedItems(copy_array(parent, name), text_at(key))
        for removed in removals:
            items.remove(removed)
        parent[name] = list(items)
        drop_empty(parent, name)
    return remaining


def _removals_first(changes: Iterable[_M], key: str) -> list[_M]:
    return sorted(changes, key=lambda change: removed_key(getattr(change, key)) is None)
