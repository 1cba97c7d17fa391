# SPDX-License-Identifier: Apache-2.0
"""Messages with every field set, and the equivalent OCI specs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.specs import Json, Spec

_M = TypeVar("_M", bound=Message)


def assert_includes(spec: Json, part: Json) -> None:
    """Check that `spec` has every value of `part`; its objects and arrays may have more."""
    match part:
        case dict():
            assert isinstance(spec, dict)
            for key, value in part.items():
                assert_includes(spec.get(key), value)
        case list():
            assert isinstance(spec, list) and all(value in spec for value in part)
        case _:
            assert spec == part


def unset_fields(message: Message) -> set[str]:
    """Return ``Message.field`` of all fields that `message` and its submessages never set."""
    declared: set[str] = set()
    found: set[str] = set()
    _collect_fields(message, declared, found)
    return declared - found


def without_each_field(message: _M) -> Iterator[tuple[str, _M]]:
    """Yield copies of `message`, each without one of its set fields, at any depth."""
    for path in _paths(message):
        copy = type(message)()
        copy.CopyFrom(message)
        _clear(copy, path)
        yield ".".join(map(str, path)), copy


def _paths(message: Message) -> Iterator[tuple[str | int, ...]]:
    for field, value in message.ListFields():
        yield (field.name,)
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        if isinstance(value, Message):
            yield from ((field.name, *path) for path in _paths(value))
        else:
            for position, item in enumerate(value):
                yield from ((field.name, position, *path) for path in _paths(item))


def _clear(message: Message, path: tuple[str | int, ...]) -> None:
    name, *rest = path
    if not rest:
        message.ClearField(str(name))
    elif isinstance(rest[0], int):
        _clear(getattr(message, str(name))[rest[0]], tuple(rest[1:]))
    else:
        _clear(getattr(message, str(name)), tuple(rest))


def _collect_fields(message: Message, declared: set[str], found: set[str]) -> None:
    name = message.DESCRIPTOR.name
    declared.update(f"{name}.{field}" for field in message.DESCRIPTOR.fields_by_name)
    for field, value in message.ListFields():
        found.add(f"{name}.{field.name}")
        if field.message_type is None:
            continue
        if isinstance(value, Message):
            _collect_fields(value, declared, found)
        elif not field.message_type.GetOptions().map_entry:
            for item in value:
                _collect_fields(item, declared, found)
        elif field.message_type.fields_by_name["value"].message_type is not None:
            for item in value.values():
                _collect_fields(item, declared, found)


def _seccomp() -> api.LinuxSeccomp:
    return api.LinuxSeccomp(
        default_action="SCMP_ACT_ERRNO",
        default_errno=api.OptionalUInt32(value=38),
        architectures=["SCMP_ARCH_X86_64"],
        flags=["SECCOMP_FILTER_FLAG_LOG"],
        listener_path="/run/l.sock",
        listener_metadata="m",
        syscalls=[
            api.LinuxSyscall(
                names=["read", "write"],
                action="SCMP_ACT_ALLOW",
                errno_ret=api.OptionalUInt32(value=1),
                args=[api.LinuxSeccompArg(index=1, value=2, value_two=3, op="SCMP_CMP_EQ")],
            )
        ],
    )


SECCOMP: Spec = {
    "defaultAction": "SCMP_ACT_ERRNO",
    "defaultErrnoRet": 38,
    "architectures": ["SCMP_ARCH_X86_64"],
    "flags": ["SECCOMP_FILTER_FLAG_LOG"],
    "listenerPath": "/run/l.sock",
    "listenerMetadata": "m",
    "syscalls": [
        {
            "names": ["read", "write"],
            "action": "SCMP_ACT_ALLOW",
            "errnoRet": 1,
            "args": [{"index": 1, "value": 2, "valueTwo": 3, "op": "SCMP_CMP_EQ"}],
        }
    ],
}


def _hooks() -> api.Hooks:
    hook = api.Hook(path="/h", args=["h", "x"], env=["A=1"], timeout=api.OptionalInt(value=5))
    bare = api.Hook(path="/bare")
    return api.Hooks(
        prestart=[hook],
        create_runtime=[hook],
        create_container=[hook],
        start_container=[hook],
        poststart=[hook, bare],
        poststop=[bare],
    )


_HOOK: Spec = {"path": "/h", "args": ["h", "x"], "env": ["A=1"], "timeout": 5}
HOOKS: Spec = {
    "prestart": [_HOOK],
    "createRuntime": [_HOOK],
    "createContainer": [_HOOK],
    "startContainer": [_HOOK],
    "poststart": [_HOOK, {"path": "/bare"}],
    "poststop": [{"path": "/bare"}],
}


def _scheduler() -> api.LinuxScheduler:
    return api.LinuxScheduler(
        policy=api.SCHED_DEADLINE,
        nice=-3,
        priority=4,
        flags=[api.SCHED_FLAG_RECLAIM],
        runtime=5,
        deadline=6,
        period=7,
    )


SCHEDULER: Spec = {
    "policy": "SCHED_DEADLINE",
    "nice": -3,
    "priority": 4,
    "flags": ["SCHED_FLAG_RECLAIM"],
    "runtime": 5,
    "deadline": 6,
    "period": 7,
}


def _resources() -> api.LinuxResources:
    return api.LinuxResources(
        memory=api.LinuxMemory(
            limit=api.OptionalInt64(value=1),
            reservation=api.OptionalInt64(value=2),
            swap=api.OptionalInt64(value=3),
            kernel=api.OptionalInt64(value=4),
            kernel_tcp=api.OptionalInt64(value=5),
            swappiness=api.OptionalUInt64(value=6),
            disable_oom_killer=api.OptionalBool(value=True),
            use_hierarchy=api.OptionalBool(value=True),
        ),
        cpu=api.LinuxCPU(
            shares=api.OptionalUInt64(value=1),
            quota=api.OptionalInt64(value=2),
            period=api.OptionalUInt64(value=3),
            realtime_runtime=api.OptionalInt64(value=4),
            realtime_period=api.OptionalUInt64(value=5),
            cpus="0-1",
            mems="0",
        ),
        hugepage_limits=[api.HugepageLimit(page_size="2MB", limit=9)],
        blockio_class=api.OptionalString(value="slow"),
        rdt_class=api.OptionalString(value="gold"),
        unified={"memory.high": "1", "b": "2"},
        devices=[
            api.LinuxDeviceCgroup(
                allow=True,
                type="c",
                major=api.OptionalInt64(value=1),
                minor=api.OptionalInt64(value=3),
                access="rw",
            )
        ],
        pids=api.LinuxPids(limit=7),
    )


CPU: Spec = {
    "shares": 1,
    "quota": 2,
    "period": 3,
    "realtimeRuntime": 4,
    "realtimePeriod": 5,
    "cpus": "0-1",
    "mems": "0",
}
MEMORY: Spec = {
    "limit": 1,
    "reservation": 2,
    "swap": 3,
    "kernel": 4,
    "kernelTCP": 5,
    "swappiness": 6,
    "disableOOMKiller": True,
    "useHierarchy": True,
}
RULE: Spec = {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "rw"}
RESOURCES: Spec = {
    "devices": [RULE],
    "memory": MEMORY,
    "cpu": CPU,
    "pids": {"limit": 7},
    "blockIO": {"unresolvedClass": "slow"},
    "hugepageLimits": [{"pageSize": "2MB", "limit": 9}],
    "unified": {"b": "2", "memory.high": "1"},
}


def _device() -> api.LinuxDevice:
    return api.LinuxDevice(
        path="/dev/kvm",
        type="c",
        major=10,
        minor=232,
        file_mode=api.OptionalFileMode(value=0o660),
        uid=api.OptionalUInt32(value=1),
        gid=api.OptionalUInt32(value=2),
    )


DEVICE: Spec = {
    "path": "/dev/kvm",
    "type": "c",
    "major": 10,
    "minor": 232,
    "fileMode": 432,
    "uid": 1,
    "gid": 2,
}


def _rdt() -> api.LinuxRdt:
    return api.LinuxRdt(
        clos_id=api.OptionalString(value="silver"),
        schemata=api.OptionalRepeatedString(value=["L3:0=f"]),
        enable_monitoring=api.OptionalBool(value=True),
    )


RDT: Spec = {"closID": "silver", "schemata": ["L3:0=f"], "enableMonitoring": True}

MOUNT: Spec = {"destination": "/data", "type": "bind", "source": "/srv", "options": ["rbind", "ro"]}

CONTAINER = api.Container(
    annotations={"b": "2", "a": "1"},
    args=["sh", "-c", "true"],
    env=["A=1", "B=2"],
    mounts=[
        api.Mount(destination="/data", type="bind", source="/srv", options=["rbind", "ro"]),
        api.Mount(destination="/bare"),
    ],
    hooks=_hooks(),
    rlimits=[api.POSIXRlimit(type="RLIMIT_NOFILE", hard=2, soft=1)],
    CDI_devices=[api.CDIDevice(name="vendor.com/gpu=0")],
    user=api.User(uid=1, gid=2, additional_gids=[3, 4]),
    image=api.Image(name="busybox", digest="sha256:1", config_digest="sha256:2"),
    linux=api.LinuxContainer(
        namespaces=[api.LinuxNamespace(type="pid"), api.LinuxNamespace(type="ipc", path="/p")],
        devices=[_device()],
        resources=_resources(),
        oom_score_adj=api.OptionalInt(value=-5),
        cgroups_path="/cg",
        io_priority=api.LinuxIOPriority(**{"class": api.IOPRIO_CLASS_BE}, priority=3),
        seccomp_profile=api.SecurityProfile(
            profile_type=api.SecurityProfile.LOCALHOST, localhost_ref="x.json"
        ),
        seccomp_policy=_seccomp(),
        sysctl={"net.b": "2", "net.a": "1"},
        net_devices={"eth1": api.LinuxNetDevice(name="lan"), "eth0": api.LinuxNetDevice()},
        scheduler=_scheduler(),
        rdt=_rdt(),
    ),
)

CONTAINER_SPEC: Spec = {
    "process": {
        "user": {"uid": 1, "gid": 2, "additionalGids": [3, 4]},
        "args": ["sh", "-c", "true"],
        "env": ["A=1", "B=2"],
        "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 2, "soft": 1}],
        "oomScoreAdj": -5,
        "scheduler": SCHEDULER,
        "ioPriority": {"class": "IOPRIO_CLASS_BE", "priority": 3},
    },
    "mounts": [MOUNT, {"destination": "/bare"}],
    "hooks": HOOKS,
    "annotations": {"a": "1", "b": "2"},
    "linux": {
        "sysctl": {"net.a": "1", "net.b": "2"},
        "resources": RESOURCES,
        "cgroupsPath": "/cg",
        "namespaces": [{"type": "pid"}, {"type": "ipc", "path": "/p"}],
        "devices": [DEVICE],
        "netDevices": {"eth0": {}, "eth1": {"name": "lan"}},
        "seccomp": SECCOMP,
        "intelRdt": RDT,
    },
    "cdiDevices": [{"name": "vendor.com/gpu=0"}],
    "nri": {
        "image": {"name": "busybox", "digest": "sha256:1", "configDigest": "sha256:2"},
        "seccompProfile": {"profileType": "LOCALHOST", "localhostRef": "x.json"},
    },
}

ADJUSTMENT = api.ContainerAdjustment(
    annotations={"new": "1"},
    mounts=[api.Mount(destination="/data", type="bind", source="/srv", options=["rbind", "ro"])],
    env=[api.KeyValue(key="NEW", value="1")],
    hooks=_hooks(),
    rlimits=[api.POSIXRlimit(type="RLIMIT_CORE", hard=2, soft=1)],
    CDI_devices=[api.CDIDevice(name="vendor.com/gpu=0")],
    args=["sh"],
    linux=api.LinuxContainerAdjustment(
        devices=[_device()],
        resources=_resources(),
        cgroups_path="/cg",
        oom_score_adj=api.OptionalInt(value=-5),
        io_priority=api.LinuxIOPriority(**{"class": api.IOPRIO_CLASS_BE}, priority=3),
        seccomp_policy=_seccomp(),
        namespaces=[api.LinuxNamespace(type="ipc", path="/p")],
        sysctl={"net.a": "1"},
        net_devices={"eth1": api.LinuxNetDevice(name="lan")},
        scheduler=_scheduler(),
        rdt=_rdt(),
        memory_policy=api.LinuxMemoryPolicy(
            mode=api.MPOL_BIND, nodes="0", flags=[api.MPOL_F_STATIC_NODES]
        ),
    ),
)
"""Every field except RDT's ``remove``, and no removals."""

ADJUSTMENT_SPEC: Spec = {
    "annotations": {"new": "1"},
    "process": {
        "env": ["NEW=1"],
        "args": ["sh"],
        "rlimits": [{"type": "RLIMIT_CORE", "hard": 2, "soft": 1}],
        "oomScoreAdj": -5,
        "ioPriority": {"class": "IOPRIO_CLASS_BE", "priority": 3},
        "scheduler": SCHEDULER,
    },
    "hooks": HOOKS,
    "cdiDevices": [{"name": "vendor.com/gpu=0"}],
    "linux": {
        "devices": [DEVICE],
        "resources": {
            "devices": [
                {"allow": True, "type": "c", "major": 10, "minor": 232, "access": "rw"},
                RULE,
            ],
            "cpu": CPU,
            "memory": {"limit": 1, "swap": 1},
            "hugepageLimits": [{"pageSize": "2MB", "limit": 9}],
            "unified": {"b": "2", "memory.high": "1"},
            "pids": {"limit": 7},
            "blockIO": {"unresolvedClass": "slow"},
        },
        "cgroupsPath": "/cg",
        "seccomp": {key: value for key, value in SECCOMP.items() if key != "defaultErrnoRet"},
        "namespaces": [{"type": "ipc", "path": "/p"}],
        "sysctl": {"net.a": "1"},
        "netDevices": {"eth1": {"name": "lan"}},
        "memoryPolicy": {"mode": "MPOL_BIND", "nodes": "0", "flags": ["MPOL_F_STATIC_NODES"]},
        "intelRdt": RDT,
    },
    "mounts": [MOUNT],
}
"""The empty spec after `ADJUSTMENT`."""

UPDATE = api.ContainerUpdate(
    container_id="c",
    linux=api.LinuxContainerUpdate(resources=_resources()),
    ignore_failure=True,
)
"""Every field."""

UPDATE_SPEC: Spec = {
    "linux": {
        "resources": {
            "cpu": {"shares": 1, "quota": 2, "period": 3, "cpus": "0-1", "mems": "0"},
            "memory": {"limit": 1, "swap": 1},
            "hugepageLimits": [{"pageSize": "2MB", "limit": 9}],
            "unified": {"b": "2", "memory.high": "1"},
        }
    }
}
"""The empty spec after `UPDATE`."""
