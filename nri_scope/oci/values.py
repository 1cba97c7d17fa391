# SPDX-License-Identifier: Apache-2.0
"""Single NRI messages as the OCI objects that they stand for.

Names and what is left out when empty follow the runtime spec's Go types (``omitempty``), so that
the result reads like a ``config.json`` that a runtime wrote. Where NRI says whether a value is
there at all, a zero is kept. A number that an enumeration has no name for stays a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from google.protobuf.descriptor import EnumDescriptor

from nri_scope._gen.nri import api_pb2 as api

from .spec import Json, Spec

HOOKS = {
    "prestart": "prestart",
    "create_runtime": "createRuntime",
    "create_container": "createContainer",
    "start_container": "startContainer",
    "poststart": "poststart",
    "poststop": "poststop",
}
"""NRI's names of the hooks, and OCI's."""


def strings(values: Iterable[str]) -> list[Json]:
    """Return a JSON array of these strings."""
    return [*values]


def texts(values: Mapping[str, str]) -> Spec:
    """Return a JSON object of these strings, by key: a protobuf map has no order of its own."""
    return {key: values[key] for key in sorted(values)}


def mount(message: api.Mount) -> Spec:
    """Return an entry of ``/mounts``."""
    # Containers have dozens of them and share most: what is made once is told apart by identity.
    return _mount(message.SerializeToString(deterministic=True))


@lru_cache(maxsize=1024)
def _mount(content: bytes) -> Spec:
    message = api.Mount.FromString(content)
    value: Spec = {"destination": message.destination}
    if message.type:
        value["type"] = message.type
    if message.source:
        value["source"] = message.source
    if message.options:
        value["options"] = strings(message.options)
    return value


def hook(message: api.Hook) -> Spec:
    """Return an entry of ``/hooks/*``; the timeout is in seconds."""
    value: Spec = {"path": message.path}
    if message.args:
        value["args"] = strings(message.args)
    if message.env:
        value["env"] = strings(message.env)
    if message.HasField("timeout"):
        value["timeout"] = message.timeout.value
    return value


def hook_lists(message: api.Hooks) -> Iterable[tuple[str, list[Json]]]:
    """Return the arrays of ``/hooks`` that are not empty."""
    for field, value in message.ListFields():
        if field.name in HOOKS:
            yield HOOKS[field.name], [hook(item) for item in value]


def rlimit(message: api.POSIXRlimit) -> Spec:
    """Return an entry of ``/process/rlimits``."""
    return {"type": message.type, "hard": message.hard, "soft": message.soft}


def user(message: api.User) -> Spec:
    """Return ``/process/user``."""
    value: Spec = {"uid": message.uid, "gid": message.gid}
    if message.additional_gids:
        value["additionalGids"] = [*message.additional_gids]
    return value


def namespace(message: api.LinuxNamespace) -> Spec:
    """Return an entry of ``/linux/namespaces``."""
    value: Spec = {"type": message.type}
    if message.path:
        value["path"] = message.path
    return value


def device(message: api.LinuxDevice) -> Spec:
    """Return an entry of ``/linux/devices``; the file mode is decimal, as in every config.json."""
    value: Spec = {
        "path": message.path,
        "type": message.type,
        "major": message.major,
        "minor": message.minor,
    }
    if message.HasField("file_mode"):
        value["fileMode"] = message.file_mode.value
    if message.HasField("uid"):
        value["uid"] = message.uid.value
    if message.HasField("gid"):
        value["gid"] = message.gid.value
    return value


def device_rule(message: api.LinuxDeviceCgroup) -> Spec:
    """Return an entry of ``/linux/resources/devices``."""
    value: Spec = {"allow": message.allow}
    if message.type:
        value["type"] = message.type
    if message.HasField("major"):
        value["major"] = message.major.value
    if message.HasField("minor"):
        value["minor"] = message.minor.value
    if message.access:
        value["access"] = message.access
    return value


def net_device(message: api.LinuxNetDevice) -> Spec:
    """Return an entry of ``/linux/netDevices``."""
    return {"name": message.name} if message.name else {}


def cdi_device(message: api.CDIDevice) -> Spec:
    """Return an entry of ``/cdiDevices``."""
    return {"name": message.name}


def scheduler(message: api.LinuxScheduler) -> Spec | None:
    """Return ``/process/scheduler``; None for no policy. Times are in nanoseconds."""
    if message.policy == api.SCHED_NONE:
        return None
    value: Spec = {"policy": _name(api.LinuxSchedulerPolicy.DESCRIPTOR, message.policy)}
    if message.nice:
        value["nice"] = message.nice
    if message.priority:
        value["priority"] = message.priority
    if message.flags:
        value["flags"] = [_name(api.LinuxSchedulerFlag.DESCRIPTOR, flag) for flag in message.flags]
    if message.runtime:
        value["runtime"] = message.runtime
    if message.deadline:
        value["deadline"] = message.deadline
    if message.period:
        value["period"] = message.period
    return value


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
    value: Spec = {"defaultAction": message.default_action}
    if message.HasField("default_errno"):
        value["defaultErrnoRet"] = message.default_errno.value
    if message.architectures:
        value["architectures"] = strings(message.architectures)
    if message.flags:
        value["flags"] = strings(message.flags)
    if message.listener_path:
        value["listenerPath"] = message.listener_path
    if message.listener_metadata:
        value["listenerMetadata"] = message.listener_metadata
    if message.syscalls:
        value["syscalls"] = [_syscall(rule) for rule in message.syscalls]
    return value


def _syscall(message: api.LinuxSyscall) -> Spec:
    value: Spec = {"names": strings(message.names), "action": message.action}
    if message.HasField("errno_ret"):
        value["errnoRet"] = message.errno_ret.value
    if message.args:
        value["args"] = [_seccomp_arg(arg) for arg in message.args]
    return value


def _seccomp_arg(message: api.LinuxSeccompArg) -> Spec:
    value: Spec = {"index": message.index, "value": message.value}
    if message.value_two:
        value["valueTwo"] = message.value_two
    value["op"] = message.op
    return value


def security_profile(message: api.SecurityProfile) -> Spec:
    """Return which seccomp profile the pod asked for: OCI has the policy itself, not its name."""
    value: Spec = {
        "profileType": _name(api.SecurityProfile.ProfileType.DESCRIPTOR, message.profile_type)
    }
    if message.localhost_ref:
        value["localhostRef"] = message.localhost_ref
    return value


def rdt(message: api.LinuxRdt) -> Spec:
    """Return ``/linux/intelRdt`` with the fields that `message` sets."""
    value: Spec = {}
    if message.HasField("clos_id"):
        value["closID"] = message.clos_id.value
    if message.HasField("schemata"):
        value["schemata"] = strings(message.schemata.value)
    if message.HasField("enable_monitoring"):
        value["enableMonitoring"] = message.enable_monitoring.value
    return value


def _name(enum: EnumDescriptor, number: int) -> Json:
    value = enum.values_by_number.get(number)
    return number if value is None else value.name
