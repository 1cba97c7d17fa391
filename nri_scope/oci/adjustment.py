# SPDX-License-Identifier: Apache-2.0
"""A merged adjustment applied to a spec, as containerd and CRI-O apply it.

Both use the generator of containerd/nri (pkg/runtime-tools/generate, read at 0.12.2, the same up to
0.12.5). Behaviour that a reader of the API would not expect is described in the code below.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from typing import TypeVar

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.merging.keyed_list import KeyedItems

from . import values
from .resources import adjust_resources
from .spec import Json, Spec, drop_empty, entries, place, section, settle, text_at
from .unknown_fields import keep_unknown, unknown_fields

_M = TypeVar("_M", bound=Message)


def adjust(spec: Spec, adjustment: api.ContainerAdjustment) -> Spec:
    """Return a new spec: `spec` with `adjustment` applied; unchanged parts are shared.

    A plugin's own adjustment may be given as well as a merged one: a removal together with a new
    value replaces, in either order, as in merging, and the "" before arguments, which lets a plugin
    replace those of another, is ignored.

    Nothing is refused or looked up: an unknown namespace is added as requested, the propagation of
    a mount's source is assumed to suit the mount, CDI devices are listed under ``/cdiDevices``, a
    block I/O class is kept by name. `remarks` lists where a runtime would differ. Parts of `spec`
    that an adjustment touches and that have a wrong type in OCI (an object in place of an array)
    are replaced.
    """
    new = dict(spec)
    if adjustment.annotations:
        _set_members(new, "annotations", adjustment.annotations)
    _adjust_process(section(new, "process"), adjustment)
    settle(new, "process", spec)
    _add_hooks(new, adjustment.hooks)
    if adjustment.CDI_devices:
        entries(new, "cdiDevices").extend(values.cdi_device(d) for d in adjustment.CDI_devices)
    _adjust_linux(section(new, "linux"), adjustment.linux)
    settle(new, "linux", spec)
    if adjustment.mounts:
        _adjust_mounts(new, adjustment.mounts)
    keep_unknown(new, unknown_fields(adjustment, "adjustment"))
    return new


def sort_mounts(spec: Spec) -> Spec:
    """Return a new spec with its mounts sorted as by the first adjustment of a mount: parents
    first.

    `changes` from this spec to an adjusted one exclude moves by the sorting alone.
    """
    new = dict(spec)
    if isinstance(spec.get("mounts"), list):
        entries(new, "mounts").sort(key=_depth_and_destination)
    return new


def marked(key: str) -> str | None:
    """Return the key that a leading dash marks for removal, None if there is no dash."""
    return key[1:] if key.startswith("-") else None


def _set_members(parent: Spec, name: str, changes: Mapping[str, str | Spec]) -> None:
    members = section(parent, name)
    # A removal and a new value for one key replace. Go takes the two in random order.
    for key in changes:
        gone = marked(key)
        if gone is not None:
            members.pop(gone, None)
    for key in sorted(changes):
        if marked(key) is None:
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
    # Appended even if the type exists already: the list then has it twice.
    if adjustment.rlimits:
        entries(process, "rlimits").extend(values.rlimit(each) for each in adjustment.rlimits)
    if linux.HasField("oom_score_adj"):
        process["oomScoreAdj"] = linux.oom_score_adj.value
    if linux.HasField("io_priority"):
        place(process, "ioPriority", values.io_priority(linux.io_priority))
    if linux.HasField("scheduler"):
        place(process, "scheduler", values.scheduler(linux.scheduler))


def _adjust_env(process: Spec, changes: Iterable[api.KeyValue]) -> None:
    """Replace variables in place and append new ones; the whole environment is written again.

    Writing it again drops entries without "=" or without a name, and a duplicate name keeps its
    first place and its last value: even if the adjustment replaced the first.
    """
    pending: dict[str, api.KeyValue] = {}
    for change in _removals_first(changes, "key"):
        gone = marked(change.key)
        pending[change.key if gone is None else gone] = change
    env: dict[str, str] = {}
    for entry in entries(process, "env"):
        name, equals, value = entry.partition("=") if isinstance(entry, str) else ("", "", "")
        if not equals:
            continue
        change_or_none = pending.pop(name, None)
        if change_or_none is None:
            env[name] = value
        elif marked(change_or_none.key) is None:
            env[change_or_none.key] = change_or_none.value
    for change in changes:
        if marked(change.key) is None and change.key in pending:
            env[change.key] = change.value
    env.pop("", None)
    process["env"] = [f"{name}={value}" for name, value in env.items()]
    drop_empty(process, "env")


def _add_hooks(new: Spec, message: api.Hooks) -> None:
    for name, added in values.hook_lists(message):
        entries(section(new, "hooks"), name).extend(added)


def _adjust_linux(linux: Spec, message: api.LinuxContainerAdjustment) -> None:
    _adjust_devices(linux, message.devices)
    if message.cgroups_path:
        linux["cgroupsPath"] = message.cgroups_path
    if message.HasField("seccomp_policy"):
        policy = values.seccomp(message.seccomp_policy)
        policy.pop("defaultErrnoRet", None)  # the generator forgets it
        linux["seccomp"] = policy
    _adjust_namespaces(linux, message.namespaces)
    if message.sysctl:
        _set_members(linux, "sysctl", message.sysctl)
    if message.net_devices:
        devices = {name: values.net_device(each) for name, each in message.net_devices.items()}
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
    devices = KeyedItems(entries(linux, "devices"), text_at("path"))
    rules = entries(section(linux, "resources"), "devices")
    for change in added:
        devices.remove(change.path)
        device = values.device(change)
        if not devices.replace(device):
            devices.append(device)
        # Adding a device allows it in the cgroup; removing one denies nothing.
        rules.append(
            {
                "allow": True,
                "type": change.type,
                "major": change.major,
                "minor": change.minor,
                # A character device never gets "m", regardless of its file mode.
                "access": "rwm" if change.type == "b" else "rw",
            }
        )
    linux["devices"] = list(devices)


def _adjust_namespaces(linux: Spec, changes: Iterable[api.LinuxNamespace]) -> None:
    added = _remove_marked(linux, "namespaces", changes, "type")
    if not added:
        return
    namespaces = KeyedItems(entries(linux, "namespaces"), text_at("type"))
    for change in added:
        namespace = values.namespace(change)
        if not namespaces.replace(namespace):
            namespaces.append(namespace)
    linux["namespaces"] = list(namespaces)


def _adjust_rdt(linux: Spec, message: api.LinuxContainerAdjustment) -> None:
    if message.resources.HasField("rdt_class"):
        name = message.resources.rdt_class.value
        # Both runtimes use the class as the name of a CLOS.
        place(linux, "intelRdt", {"closID": name} if name else None)
    if message.rdt.remove:
        linux.pop("intelRdt", None)
    rdt = values.rdt(message.rdt)
    if rdt:
        section(linux, "intelRdt").update(rdt)


def _adjust_mounts(new: Spec, changes: Iterable[api.Mount]) -> None:
    mounts = KeyedItems(entries(new, "mounts"), text_at("destination"))
    for change in _removals_first(changes, "destination"):
        gone = marked(change.destination)
        mounts.remove(change.destination if gone is None else gone)
        if gone is None:
            mounts.append(values.mount(change))
            _propagate(new, change.options)
    new["mounts"] = sorted(mounts, key=_depth_and_destination)
    drop_empty(new, "mounts")


def _propagate(new: Spec, options: Iterable[str]) -> None:
    wanted = ""
    for option in options:
        if option in ("rprivate", "rshared", "rslave"):
            wanted = option
    if wanted == "rshared":
        section(new, "linux")["rootfsPropagation"] = wanted
    elif wanted == "rslave":
        linux = section(new, "linux")
        if linux.get("rootfsPropagation") not in ("rshared", "rslave"):
            linux["rootfsPropagation"] = wanted


def _depth_and_destination(mount: Json) -> tuple[int, str]:
    destination = mount.get("destination") if isinstance(mount, dict) else None
    if not isinstance(destination, str):
        return 0, ""
    clean = posixpath.normpath(destination)
    # Two leading slashes stay two in POSIX and become one in Go.
    return (clean[1:] if clean.startswith("//") else clean).count("/"), destination


def _remove_marked(parent: Spec, name: str, changes: Iterable[_M], key: str) -> list[_M]:
    """Apply the removals among `changes`, which precede all other changes; return the rest.

    A list that becomes empty is removed, and is last in `parent` if it is filled again.
    """
    removals: list[str] = []
    rest: list[_M] = []
    for change in changes:
        gone = marked(getattr(change, key))
        if gone is None:
            rest.append(change)
        else:
            removals.append(gone)
    if removals:
        items = KeyedItems(entries(parent, name), text_at(key))
        for gone in removals:
            items.remove(gone)
        parent[name] = list(items)
        drop_empty(parent, name)
    return rest


def _removals_first(changes: Iterable[_M], key: str) -> list[_M]:
    return sorted(changes, key=lambda change: marked(getattr(change, key)) is None)
