# SPDX-License-Identifier: Apache-2.0
"""Adjustments: a plugin's changes to a container that is being created."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Self, get_args

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError

from . import checks
from .checks import build
from .resources import ResourceSettings, flag, number, put

HookStage = Literal[
    "prestart", "create_runtime", "create_container", "start_container", "poststart", "poststop"
]


class Adjustment(ResourceSettings[api.ContainerAdjustment]):
    """Changes to a container that is being created, for `create_container` to return.

    ::

        Adjustment().add_env("TZ", "UTC").set_cpu(shares=512)

    Methods return the object itself. They raise `UsageError`, with the setting's name, for a value
    that breaks a rule of NRI or OCI, or that the protocol cannot represent. If two plugins set the
    same field, creation of the container fails with a conflict. To replace another plugin's value,
    call ``remove_`` before ``add_``.
    """

    def __init__(self) -> None:
        self.message = api.ContainerAdjustment()
        """The message to send, for inspection and for fields without a method."""

    @property
    def resources(self) -> api.LinuxResources:
        """The message that the methods for resources fill."""
        return self.message.linux.resources

    # -- the process --------------------------------------------------------------------------

    def set_args(self, args: Sequence[str], *, replace: bool = False) -> Self:
        """Set the command to run. With ``replace``, also replace another plugin's command."""
        if not args or not args[0]:
            raise UsageError("the first element of args must be a command")
        words = [checks.text(word, "argument") for word in args]
        # An empty first argument marks a replacement.
        del self.message.args[:]
        self.message.args.extend(["", *words] if replace else words)
        return self

    def add_env(self, name: str, value: str) -> Self:
        """Set an environment variable, also if the image or the pod sets it."""
        checks.env_name(name)
        entry = build(api.KeyValue, key=name, value=checks.text(value, name))
        put(self.message.env, entry, lambda variable: variable.key)
        return self

    def remove_env(self, name: str) -> Self:
        """Remove an environment variable; call `add_env` afterwards to replace another plugin's."""
        entry = build(api.KeyValue, key=f"-{checks.env_name(name)}")
        put(self.message.env, entry, lambda variable: variable.key)
        return self

    def add_rlimit(self, type: str, *, soft: int, hard: int) -> Self:
        """Add a limit of getrlimit(2), such as "RLIMIT_NOFILE"."""
        checks.one_of(type, checks.RLIMITS, "rlimit")
        if soft > hard:
            raise UsageError(f"{type}: the soft limit {soft} is above the hard limit {hard}")
        entry = build(api.POSIXRlimit, type=type, soft=soft, hard=hard)
        put(self.message.rlimits, entry, lambda limit: limit.type)
        return self

    def set_oom_score_adj(self, value: int) -> Self:
        """Set the OOM killer's score, from -1000 (never killed) to 1000 (killed first)."""
        checks.within(value, -1000, 1000, "oom_score_adj")
        self.message.linux.oom_score_adj.CopyFrom(api.OptionalInt(value=value))
        return self

    def set_io_priority(self, io_class: str, priority: int = 0) -> Self:
        """Set the I/O class of ioprio_set(2) and the priority from 0 to 7.

        The classes are "IOPRIO_CLASS_RT", "IOPRIO_CLASS_BE", "IOPRIO_CLASS_IDLE" and
        "IOPRIO_CLASS_NONE".
        """
        checks.one_of(io_class, api.IOPrioClass.keys(), "I/O priority class")
        checks.within(priority, 0, 7, "I/O priority")
        # `class` is a keyword of Python.
        message = api.LinuxIOPriority(priority=priority)
        setattr(message, "class", api.IOPrioClass.Value(io_class))
        self.message.linux.io_priority.CopyFrom(message)
        return self

    def set_scheduler(
        self,
        policy: str,
        *,
        nice: int = 0,
        priority: int = 0,
        flags: Iterable[str] = (),
        runtime: int = 0,
        deadline: int = 0,
        period: int = 0,
    ) -> Self:
        """Set the policy of sched_setattr(2), such as "SCHED_FIFO".

        ``runtime``, ``deadline`` and ``period`` are in ns.
        """
        names = [
            checks.one_of(name, api.LinuxSchedulerFlag.keys(), "scheduler flag") for name in flags
        ]
        checks.one_of(policy, api.LinuxSchedulerPolicy.keys(), "scheduler policy")
        self.message.linux.scheduler.CopyFrom(
            build(
                api.LinuxScheduler,
                policy=api.LinuxSchedulerPolicy.Value(policy),
                nice=checks.within(nice, -20, 19, "nice"),
                priority=priority,
                flags=[api.LinuxSchedulerFlag.Value(name) for name in names],
                runtime=runtime,
                deadline=deadline,
                period=period,
            )
        )
        return self

    # -- files and devices --------------------------------------------------------------------

    def add_mount(
        self, destination: str, source: str, *, type: str = "bind", options: Iterable[str] = ()
    ) -> Self:
        """Mount ``source`` at ``destination``.

        A bind mount gets the option ``rbind`` unless it has ``bind`` or ``rbind``.
        """
        words = list(options)
        if type == "bind":
            checks.absolute(source, "source of a bind mount")
            if not {"bind", "rbind"} & set(words):
                words.insert(0, "rbind")
        entry = build(
            api.Mount,
            destination=checks.absolute(destination, "mount destination"),
            source=checks.text(source, "mount source"),
            type=type,
            options=words,
        )
        put(self.message.mounts, entry, lambda mount: mount.destination)
        return self

    def remove_mount(self, destination: str) -> Self:
        """Remove a mount; call `add_mount` afterwards to replace it."""
        entry = build(api.Mount, destination=f"-{checks.absolute(destination, 'destination')}")
        put(self.message.mounts, entry, lambda mount: mount.destination)
        return self

    def add_device(
        self,
        path: str,
        *,
        type: Literal["b", "c", "u", "p"],
        major: int,
        minor: int,
        file_mode: int | None = None,
        uid: int | None = None,
        gid: int | None = None,
    ) -> Self:
        """Create a device node: block (b), character (c or u) or named pipe (p)."""
        checks.one_of(type, ("b", "c", "u", "p"), "device type")
        if major < 0 or minor < 0:
            raise UsageError(f"{path}: device numbers {major}:{minor} must not be negative")
        if file_mode is not None:
            checks.within(file_mode, 0, 0o7777, "file mode")
        entry = build(
            api.LinuxDevice,
            path=checks.absolute(path, "device path"),
            type=type,
            major=major,
            minor=minor,
            file_mode=number(api.OptionalFileMode, file_mode),
            uid=number(api.OptionalUInt32, uid),
            gid=number(api.OptionalUInt32, gid),
        )
        put(self.message.linux.devices, entry, lambda device: device.path)
        return self

    def remove_device(self, path: str) -> Self:
        """Remove a device; call `add_device` afterwards to replace it."""
        entry = build(api.LinuxDevice, path=f"-{checks.absolute(path, 'device path')}")
        put(self.message.linux.devices, entry, lambda device: device.path)
        return self

    def add_cdi_device(self, name: str) -> Self:
        """Request a CDI device, ``vendor/class=device``, which the runtime injects."""
        entry = build(api.CDIDevice, name=checks.cdi_device(name))
        put(self.message.CDI_devices, entry, lambda device: device.name)
        return self

    def add_net_device(self, host_name: str, name: str = "") -> Self:
        """Move a network interface of the host into the container, and name it ``name`` there."""
        device = self.message.linux.net_devices[checks.net_device(host_name, "interface")]
        device.name = checks.net_device(name or host_name, "interface")
        return self

    def remove_net_device(self, host_name: str) -> Self:
        """Remove a network interface; call `add_net_device` afterwards to replace it."""
        key = f"-{checks.net_device(host_name, 'interface')}"
        self.message.linux.net_devices[key].SetInParent()
        return self

    # -- other settings -----------------------------------------------------------------------

    def add_annotation(self, key: str, value: str) -> Self:
        """Set an annotation, for the runtime and for later plugins."""
        self.message.annotations[checks.key(key, "annotation")] = checks.text(value, key)
        return self

    def remove_annotation(self, key: str) -> Self:
        """Remove an annotation; call `add_annotation` afterwards to replace it."""
        self.message.annotations[f"-{checks.key(key, 'annotation')}"] = ""
        return self

    def add_hook(
        self,
        stage: HookStage,
        path: str,
        *,
        args: Iterable[str] = (),
        env: Iterable[str] = (),
        timeout: int | None = None,
    ) -> Self:
        """Run the program ``path`` on the host at this stage; ``timeout`` is in seconds.

        The first of ``args`` is the program's name; ``env`` has the form ``NAME=value``. Hooks
        never conflict: those of all plugins run.
        """
        checks.one_of(stage, get_args(HookStage), "hook stage")
        if timeout is not None and timeout <= 0:
            raise UsageError(f"hook timeout {timeout} must be positive")
        variables = list(env)
        for variable in variables:
            if "=" not in variable[1:]:
                raise UsageError(f"{variable!r} in a hook's env is not of the form NAME=value")
        hook = build(
            api.Hook,
            path=checks.absolute(path, "hook path"),
            args=args,
            env=variables,
            timeout=number(api.OptionalInt, timeout),
        )
        getattr(self.message.hooks, stage).append(hook)
        return self

    def add_namespace(self, type: str, path: str = "") -> Self:
        """Use a new namespace of this type, or the one at ``path``."""
        checks.one_of(type, checks.NAMESPACES, "namespace")
        if path:
            checks.absolute(path, "namespace path")
        entry = build(api.LinuxNamespace, type=type, path=path)
        put(self.message.linux.namespaces, entry, lambda namespace: namespace.type)
        return self

    def remove_namespace(self, type: str) -> Self:
        """Share the host's namespace; call `add_namespace` afterwards to replace the namespace."""
        entry = api.LinuxNamespace(type=f"-{checks.one_of(type, checks.NAMESPACES, 'namespace')}")
        put(self.message.linux.namespaces, entry, lambda namespace: namespace.type)
        return self

    def add_sysctl(self, name: str, value: str) -> Self:
        """Set a sysctl in the container's namespaces, such as ``net.core.somaxconn``."""
        self.message.linux.sysctl[checks.key(name, "sysctl")] = checks.text(value, name)
        return self

    def remove_sysctl(self, name: str) -> Self:
        """Remove a sysctl; call `add_sysctl` afterwards to replace it."""
        self.message.linux.sysctl[f"-{checks.key(name, 'sysctl')}"] = ""
        return self

    def set_cgroups_path(self, path: str) -> Self:
        """Set the container's cgroup, in the form that the runtime's cgroup driver requires."""
        if not checks.text(path, "cgroups path"):
            raise UsageError("the cgroups path is empty")
        self.message.linux.cgroups_path = path
        return self

    def set_seccomp_policy(
        self,
        default_action: str,
        *,
        syscalls: Iterable[api.LinuxSyscall] = (),
        default_errno: int | None = None,
        architectures: Iterable[str] = (),
        flags: Iterable[str] = (),
        listener_path: str = "",
        listener_metadata: str = "",
    ) -> Self:
        """Replace the whole seccomp policy, in OCI's terms; `syscall_rule` builds ``syscalls``."""
        if not default_action.startswith("SCMP_ACT_"):
            raise UsageError(f"{default_action!r} is not a seccomp action such as SCMP_ACT_ALLOW")
        self.message.linux.seccomp_policy.CopyFrom(
            build(
                api.LinuxSeccomp,
                default_action=default_action,
                default_errno=number(api.OptionalUInt32, default_errno),
                architectures=architectures,
                flags=flags,
                listener_path=listener_path,
                listener_metadata=listener_metadata,
                syscalls=syscalls,
            )
        )
        return self

    def set_rdt(
        self,
        *,
        clos_id: str | None = None,
        schemata: Sequence[str] | None = None,
        enable_monitoring: bool | None = None,
    ) -> Self:
        """Set the class of service, schemata and monitoring of Intel RDT."""
        rdt = self.message.linux.rdt
        if clos_id is not None:
            rdt.clos_id.CopyFrom(api.OptionalString(value=checks.file_name(clos_id, "clos_id")))
        if schemata is not None:
            rdt.schemata.CopyFrom(build(api.OptionalRepeatedString, value=schemata))
        monitoring = flag(enable_monitoring)
        if monitoring is not None:
            rdt.enable_monitoring.CopyFrom(monitoring)
        return self

    def remove_rdt(self) -> Self:
        """Remove the RDT settings; call `set_rdt` afterwards to replace them."""
        self.message.linux.rdt.remove = True
        return self

    def set_memory_policy(self, mode: str, nodes: str = "", *, flags: Iterable[str] = ()) -> Self:
        """Set the policy of set_mempolicy(2), such as "MPOL_BIND".

        ``nodes`` is a list such as "0-1,3".
        """
        names = [checks.one_of(name, api.MpolFlag.keys(), "memory policy flag") for name in flags]
        checks.one_of(mode, api.MpolMode.keys(), "memory policy")
        self.message.linux.memory_policy.CopyFrom(
            build(
                api.LinuxMemoryPolicy,
                mode=api.MpolMode.Value(mode),
                nodes=checks.cpu_list(nodes, "nodes"),
                flags=[api.MpolFlag.Value(name) for name in names],
            )
        )
        return self


def syscall_rule(
    names: Iterable[str],
    action: str,
    *,
    errno: int | None = None,
    args: Iterable[api.LinuxSeccompArg] = (),
) -> api.LinuxSyscall:
    """Return one rule of a seccomp policy; `syscall_argument` builds ``args``."""
    if not action.startswith("SCMP_ACT_"):
        raise UsageError(f"{action!r} is not a seccomp action such as SCMP_ACT_ERRNO")
    return build(
        api.LinuxSyscall,
        names=names,
        action=action,
        errno_ret=number(api.OptionalUInt32, errno),
        args=args,
    )


def syscall_argument(index: int, op: str, value: int, value_two: int = 0) -> api.LinuxSeccompArg:
    """Return a condition on one argument of a system call, ``op`` such as ``SCMP_CMP_EQ``."""
    if not op.startswith("SCMP_CMP_"):
        raise UsageError(f"{op!r} is not a comparison such as SCMP_CMP_EQ")
    checks.within(index, 0, 5, "argument index")
    return build(api.LinuxSeccompArg, index=index, op=op, value=value, value_two=value_two)
