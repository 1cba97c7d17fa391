# SPDX-License-Identifier: Apache-2.0
"""Methods for resources, shared by adjustments and updates, with the checks of their values.

The checks follow the rules of NRI and OCI. A runtime detects most of these errors only when it
creates the container, which then fails. Each check returns the value or raises `UsageError`.
"""

from __future__ import annotations

from collections.abc import Callable, MutableSequence
from typing import Generic, Literal, Protocol, Self, TypeVar

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError

from . import checks
from .checks import build

_Number = TypeVar("_Number", covariant=True)
_Sent = TypeVar("_Sent", bound=Message)


class _MakesNumber(Protocol[_Number]):
    def __call__(self, *, value: int = ...) -> _Number: ...


def number(make: _MakesNumber[_Number], value: int | None) -> _Number | None:
    """Wrap a number, 0 included; None leaves the setting unchanged."""
    return None if value is None else build(make, value=value)


def flag(value: bool | None) -> api.OptionalBool | None:
    """Wrap a Boolean; None leaves the setting unchanged."""
    return None if value is None else api.OptionalBool(value=value)


class AroundMessage(Generic[_Sent]):
    """Wrapper of a protocol message; wrappers of equal messages are equal."""

    message: _Sent

    def __repr__(self) -> str:
        return f"{type(self).__name__}({' '.join(str(self.message).split())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.message == other.message

    __hash__ = None  # type: ignore[assignment]


class ResourceSettings(AroundMessage[_Sent]):
    """Methods that set resources. Each returns the object itself, for chaining.

    None, or an empty string, leaves a setting unchanged.
    """

    @property
    def resources(self) -> api.LinuxResources:
        """The underlying message, for inspection and for fields without a method."""
        raise NotImplementedError

    def set_cpu(
        self,
        *,
        shares: int | None = None,
        quota: int | None = None,
        period: int | None = None,
        realtime_runtime: int | None = None,
        realtime_period: int | None = None,
        cpus: str = "",
        mems: str = "",
    ) -> Self:
        """Set CPU time and placement. ``quota`` (-1: unlimited) and ``period`` are in µs; ``cpus``
        and ``mems`` are lists as in cpuset(7): ``0-3,8``.
        """
        overwrite(
            self.resources.cpu,
            build(
                api.LinuxCPU,
                shares=number(api.OptionalUInt64, shares),
                quota=number(api.OptionalInt64, quota),
                period=number(api.OptionalUInt64, period),
                realtime_runtime=number(api.OptionalInt64, realtime_runtime),
                realtime_period=number(api.OptionalUInt64, realtime_period),
                cpus=checks.cpu_list(cpus, "cpus"),
                mems=checks.cpu_list(mems, "mems"),
            ),
        )
        return self

    def set_memory(
        self,
        *,
        limit: int | None = None,
        reservation: int | None = None,
        swap: int | None = None,
        kernel: int | None = None,
        kernel_tcp: int | None = None,
        swappiness: int | None = None,
        disable_oom_killer: bool | None = None,
        use_hierarchy: bool | None = None,
    ) -> Self:
        """Set memory limits in bytes; -1 means unlimited. ``swap`` limits memory plus swap."""
        if swappiness is not None:
            checks.within(swappiness, 0, 100, "swappiness")
        overwrite(
            self.resources.memory,
            build(
                api.LinuxMemory,
                limit=number(api.OptionalInt64, limit),
                reservation=number(api.OptionalInt64, reservation),
                swap=number(api.OptionalInt64, swap),
                kernel=number(api.OptionalInt64, kernel),
                kernel_tcp=number(api.OptionalInt64, kernel_tcp),
                swappiness=number(api.OptionalUInt64, swappiness),
                disable_oom_killer=flag(disable_oom_killer),
                use_hierarchy=flag(use_hierarchy),
            ),
        )
        return self

    def add_hugepage_limit(self, page_size: str, limit: int) -> Self:
        """Limit huge pages of ``page_size``, such as ``2MB``, to ``limit`` bytes."""
        entry = build(api.HugepageLimit, page_size=checks.page_size(page_size), limit=limit)
        put(self.resources.hugepage_limits, entry, lambda limit: limit.page_size)
        return self

    def set_pids_limit(self, limit: int) -> Self:
        """Limit the number of processes and threads; -1 means unlimited."""
        self.resources.pids.CopyFrom(build(api.LinuxPids, limit=limit))
        return self

    def add_unified(self, file: str, value: str) -> Self:
        """Write ``value`` to a file of the container's cgroup v2, such as ``memory.high``."""
        self.resources.unified[checks.file_name(file, "cgroup file")] = checks.text(value, file)
        return self

    def set_blockio_class(self, name: str) -> Self:
        """Set the block I/O class, which is defined in the runtime's configuration."""
        self.resources.blockio_class.CopyFrom(api.OptionalString(value=checks.text(name, "class")))
        return self

    def set_rdt_class(self, name: str) -> Self:
        """Set the RDT class, which is defined in the runtime's configuration."""
        self.resources.rdt_class.CopyFrom(api.OptionalString(value=checks.text(name, "class")))
        return self

    def add_device_rule(
        self,
        allow: bool,
        *,
        type: Literal["a", "b", "c"] = "a",
        major: int | None = None,
        minor: int | None = None,
        access: str = "rwm",
    ) -> Self:
        """Add a rule of the device cgroup; None means any number.

        Current runtimes accept such rules only from plugins of the NRI 0.1 draft.
        """
        checks.one_of(type, ("a", "b", "c"), "device type")
        if not access or set(access) - set("rwm"):
            raise UsageError(f"device access {access!r} must consist of r, w and m")
        self.resources.devices.append(
            build(
                api.LinuxDeviceCgroup,
                allow=allow,
                type=type,
                major=number(api.OptionalInt64, major),
                minor=number(api.OptionalInt64, minor),
                access=access,
            )
        )
        return self


_Entry = TypeVar("_Entry", bound=Message)


def overwrite(target: _Entry, source: _Entry) -> None:
    """Replace the fields of ``target`` that are set in ``source``; a merge would not set 0."""
    for field, _ in source.ListFields():
        target.ClearField(field.name)
    target.MergeFrom(source)


def put(
    entries: MutableSequence[_Entry], entry: _Entry, key_of: Callable[[_Entry], object]
) -> None:
    """Append ``entry``, or replace the entry of the same key: a reply must not repeat a key."""
    for known in entries:
        if key_of(known) == key_of(entry):
            known.CopyFrom(entry)
            return
    entries.append(entry)


class Update(ResourceSettings[api.ContainerUpdate]):
    """New resources for one existing container, set by the methods of `ResourceSettings`.

    With ``ignore_failure`` the runtime continues if it cannot apply them.
    """

    def __init__(self, container_id: str, *, ignore_failure: bool = False) -> None:
        if not container_id:
            raise UsageError("an update needs the container's id")
        self.message = build(
            api.ContainerUpdate, container_id=container_id, ignore_failure=ignore_failure
        )
        """The message to send, for inspection and for fields without a method."""

    @property
    def resources(self) -> api.LinuxResources:
        """The message that the methods for resources fill."""
        return self.message.linux.resources


class Eviction(AroundMessage[api.ContainerEviction]):
    """Request to evict a container. containerd and CRI-O accept it and do nothing."""

    def __init__(self, container_id: str, reason: str) -> None:
        if not container_id:
            raise UsageError("an eviction needs the container's id")
        self.message = build(api.ContainerEviction, container_id=container_id, reason=reason)
        """The message to send."""
