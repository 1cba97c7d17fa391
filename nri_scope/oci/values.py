# SPDX-License-Identifier: Apache-2.0
"""OCI values of messages' fields, and fields of a later NRI, which have none."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from functools import lru_cache
from typing import Protocol

from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.specs.json_spec import Json, Spec, copy_array, copy_object


class _UnknownField(Protocol):
    field_number: int
    wire_type: int
    data: object


_WIRE_TYPES = {0: "varint", 1: "fixed64", 2: "bytes", 3: "group", 5: "fixed32"}


def unknown_fields(message: Message, name: str) -> Spec:
    """Return the unknown fields of `message` and its members, as ``{"NAME.linux.23": ["varint
    7"]}``.

    `name` is the first part of each key. Each value starts with its wire type, as its real type is
    unknown; bytes are Base64. A repeated field has several values.
    """
    described = deepcopy(message)
    described.DiscardUnknownFields()
    if described.ByteSize() == message.ByteSize():
        return {}
    entries: dict[str, list[Json]] = {}
    for key, value in _walk(message, name):
        entries.setdefault(key, []).append(value)
    return dict(entries)


def keep_unknown(spec: Spec, entries: Spec) -> None:
    """Add the result of `unknown_fields` to ``/nri/unknown``. `spec` must be a copy."""
    if entries:
        unknown = copy_object(copy_object(spec, "nri"), "unknown")
        for key, values in entries.items():
            if isinstance(values, list):
                copy_array(unknown, key).extend(values)


def _walk(message: Message, path: str) -> Iterator[tuple[str, Json]]:
    for field in _unknown(UnknownFieldSet(message)):
        yield f"{path}.{field.field_number}", _raw(field.wire_type, field.data)
    for descriptor, value in message.ListFields():
        name = f"{path}.{descriptor.name}"
        kind = descriptor.message_type
        if kind is None:
            continue
        if kind.GetOptions().map_entry:
            if kind.fields_by_name["value"].message_type is not None:
                for key in sorted(value):
                    yield from _walk(value[key], f"{name}[{key}]")
        elif isinstance(value, Message):
            yield from _walk(value, name)
        else:
            for position, item in enumerate(value):
                yield from _walk(item, f"{name}[{position}]")


def _unknown(fields: UnknownFieldSet) -> Iterator[_UnknownField]:
    return (fields[position] for position in range(len(fields)))


def _raw(wire_type: int, data: object) -> str:
    if isinstance(data, bytes):
        text = base64.b64encode(data).decode()
    elif isinstance(data, UnknownFieldSet):
        text = " ".join(f"{f.field_number}={_raw(f.wire_type, f.data)}" for f in _unknown(data))
    else:
        text = str(data)
    return f"{_WIRE_TYPES.get(wire_type, wire_type)} {text}"


CACHED_LENGTH = 4096
"""Maximum length of a cached value; untrusted values may be a thousand times as long."""
_OCI_NAMES = {
    "clos_id": "closID",
    "default_errno": "defaultErrnoRet",
    "kernel_tcp": "kernelTCP",
    "disable_oom_killer": "disableOOMKiller",
}
"""Fields whose name in OCI is not NRI's name in camel case."""


def _fields(message: Message, *names: str) -> Spec:
    """Return the fields `names` of a message under OCI's names, in this order.

    Fields whose name does not end with ``!`` are omitted if empty or not set.
    """
    fields: Spec = {}
    for name, oci_name, is_required in _plan(names):
        value = getattr(message, name)
        if isinstance(value, Message):
            # One of the Optional… messages, in which a zero is explicit.
            if message.HasField(name):
                inner = value.value  # type: ignore[attr-defined]
                fields[oci_name] = inner if isinstance(inner, str | int) else [*inner]
        elif value or is_required:
            fields[oci_name] = value if isinstance(value, str | int) else [*value]
    return fields


@lru_cache
def _plan(names: tuple[str, ...]) -> list[tuple[str, str, bool]]:
    """Return each field's name, name in OCI, and whether it is always present."""
    fields: list[tuple[str, str, bool]] = []
    for marked_name in names:
        name = marked_name.rstrip("!")
        fields.append((name, oci_name(name), name != marked_name))
    return fields


@lru_cache
def oci_name(name: str) -> str:
    """Return OCI's name of a field of an NRI message."""
    first, *others = name.split("_")
    return _OCI_NAMES.get(name, first + "".join(map(str.capitalize, others)))


def present(fields: Mapping[str, Json]) -> Spec:
    """Return the fields that are set: neither None nor an empty object or array."""
    return {
        name: value
        for name, value in fields.items()
        if value is not None and value != {} and value != []
    }


def strings(values: Iterable[str]) -> list[Json]:
    """Return a JSON array of these strings."""
    return [*values]


def texts(values: Mapping[str, str]) -> Spec:
    """Return a JSON object of these strings, sorted by key: a protobuf map has no order."""
    return {key: values[key] for key in sorted(values)}


def mount(message: api.Mount) -> Spec:
    """Return an entry of ``/mounts``."""
    # Containers have dozens of mounts and share most of them, so results are cached and shared.
    content = message.SerializeToString(deterministic=True)
    return _mount(content) if len(content) <= CACHED_LENGTH else _mount.__wrapped__(content)


@lru_cache(maxsize=1024)
def _mount(content: bytes) -> Spec:
    return _fields(api.Mount.FromString(content), "destination!", "type", "source", "options")


def hook(message: api.Hook) -> Spec:
    """Return an entry of ``/hooks/*``; the timeout is in seconds."""
    return _fields(message, "path!", "args", "env", "timeout")


def hook_lists(message: api.Hooks) -> Iterable[tuple[str, list[Json]]]:
    """Return the non-empty arrays of ``/hooks``."""
    for field, value in message.ListFields():
        yield oci_name(field.name), [hook(item) for item in value]


def rlimit(message: api.POSIXRlimit) -> Spec:
    """Return an entry of ``/process/rlimits``."""
    return _fields(message, "type!", "hard!", "soft!")


def user(message: api.User) -> Spec:
    """Return ``/process/user``."""
    return _fields(message, "uid!", "gid!", "additional_gids")


def namespace(message: api.LinuxNamespace) -> Spec:
    """Return an entry of ``/linux/namespaces``."""
    kind, path = message.type, message.path
    is_short = len(kind) + len(path) <= CACHED_LENGTH
    return _namespace(kind, path) if is_short else _namespace.__wrapped__(kind, path)


@lru_cache(maxsize=1024)
def _namespace(kind: str, path: str) -> Spec:
    return {"type": kind, "path": path} if path else {"type": kind}


def device(message: api.LinuxDevice) -> Spec:
    """Return an entry of ``/linux/devices``; the file mode is decimal, as in every config.json."""
    return _fields(message, "path!", "type!", "major!", "minor!", "file_mode", "uid", "gid")


def device_rule(message: api.LinuxDeviceCgroup) -> Spec:
    """Return an entry of ``/linux/resources/devices``."""
    return _fields(message, "allow!", "type", "major", "minor", "access")


def net_device(message: api.LinuxNetDevice) -> Spec:
    """Return an entry of ``/linux/netDevices``."""
    return _fields(message, "name")


def cdi_device(message: api.CDIDevice) -> Spec:
    """Return an entry of ``/cdiDevices``."""
    return _fields(message, "name!")


def scheduler(message: api.LinuxScheduler) -> Spec | None:
    """Return ``/process/scheduler``; None for no policy. Times are in nanoseconds."""
    if message.policy == api.SCHED_NONE:
        return None
    value: Spec = {"policy": _name(api.LinuxSchedulerPolicy.DESCRIPTOR, message.policy)}
    value |= _fields(message, "nice", "priority")
    if message.flags:
        value["flags"] = [_name(api.LinuxSchedulerFlag.DESCRIPTOR, flag) for flag in message.flags]
    return value | _fields(message, "runtime", "deadline", "period")


def io_priority(message: api.LinuxIOPriority) -> Spec | None:
    """Return ``/process/ioPriority``; None for no class."""
    number: int = getattr(message, "class")  # a keyword of Python
    if number == api.IOPRIO_CLASS_NONE:
        return None
    return {"class": _name(api.IOPrioClass.DESCRIPTOR, number), "priority": message.priority}


def memory_policy(message: api.LinuxMemoryPolicy) -> Spec:
    """Return ``/linux/memoryPolicy``."""
    value: Spec = {"mode": _name(api.MpolMode.DESCRIPTOR, message.mode), "nodes": message.nodes}
    if message.flags:
        value["flags"] = [_name(api.MpolFlag.DESCRIPTOR, flag) for flag in message.flags]
    return value


def seccomp(message: api.LinuxSeccomp) -> Spec:
    """Return ``/linux/seccomp``."""
    value = _fields(
        message,
        *("default_action!", "default_errno", "architectures", "flags"),
        *("listener_path", "listener_metadata"),
    )
    if message.syscalls:
        value["syscalls"] = [_syscall(rule) for rule in message.syscalls]
    return value


def _syscall(message: api.LinuxSyscall) -> Spec:
    value = _fields(message, "names!", "action!", "errno_ret")
    if message.args:
        value["args"] = [
            _fields(arg, "index!", "value!", "value_two", "op!") for arg in message.args
        ]
    return value


def security_profile(message: api.SecurityProfile) -> Spec:
    """Return the seccomp profile requested by the pod; OCI has only the policy, not its name."""
    value: Spec = {
        "profileType": _name(api.SecurityProfile.ProfileType.DESCRIPTOR, message.profile_type)
    }
    if message.localhost_ref:
        value["localhostRef"] = message.localhost_ref
    return value


def rdt(message: api.LinuxRdt) -> Spec:
    """Return ``/linux/intelRdt`` with the fields that `message` sets."""
    return _fields(message, "clos_id", "schemata", "enable_monitoring")


def _name(enum: EnumDescriptor, number: int) -> Json:
    value = enum.values_by_number.get(number)
    return number if value is None else value.name
