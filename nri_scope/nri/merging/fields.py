# SPDX-License-Identifier: Apache-2.0
"""The fields that plugins can set and own, and lists edited by their members' keys."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from nri_scope._gen.nri import api_pb2 as api

from ..changes import path_of_field, pointer

_Item = TypeVar("_Item")


class KeyedItems(Generic[_Item]):
    """A copy of a list with an index by key; of several members with one key, the first counts.

    A reply can have a hundred thousand members: a search through the list for each of them would
    block the process for minutes.
    """

    def __init__(self, items: Iterable[_Item], key_of: Callable[[_Item], str | None]) -> None:
        """Copy `items`. Members for which `key_of` returns None cannot be removed or replaced."""
        self._key_of = key_of
        self._by_index: dict[int, _Item] = {}
        self._indices: dict[str, deque[int]] = {}
        self._next = 0
        for item in items:
            self.append(item)

    def append(self, item: _Item) -> None:
        """Add a member at the end, even if its key exists already."""
        index = self._next
        self._next += 1
        self._by_index[index] = item
        key = self._key_of(item)
        if key is not None:
            self._indices.setdefault(key, deque()).append(index)

    def remove(self, key: str) -> None:
        """Remove the first member with the key, if any."""
        indices = self._indices.get(key)
        if indices:
            del self._by_index[indices.popleft()]

    def replace(self, item: _Item) -> bool:
        """Replace the first member with the key of `item`; return False if there is none."""
        key = self._key_of(item)
        indices = None if key is None else self._indices.get(key)
        if not indices:
            return False
        self._by_index[indices[0]] = item
        return True

    def __iter__(self) -> Iterator[_Item]:
        return iter(self._by_index.values())


@dataclass(frozen=True, slots=True, eq=False)
class AdjustableField:
    """An adjustable field. Fields are compared by identity, as each exists once in `FIELDS`."""

    number: int
    """Number in NRI's enum Field; 0 if the field has no owner."""
    name: str
    """Name in conflict messages from NRI 0.10 on: the name in that enum."""
    noun: str
    """Name in conflict messages before NRI 0.10; "" if plugins cannot set the field there."""
    since: str
    """The first NRI version whose runtimes accept it."""
    path: str
    """Path in the OCI spec."""

    def path_of(self, key: str | None) -> str:
        """Return the path of the field, or of its member `key`, in the OCI spec."""
        return self.path if key is None else pointer(self.path, key)


def _field(number: api.Field.ValueType, noun: str, since: str = "0.2.0") -> AdjustableField:
    return AdjustableField(number, api.Field.Name(number), noun, since, path_of_field(number))


ANNOTATIONS = _field(api.Annotations, "annotation")
MOUNTS = _field(api.Mounts, "mount")
HOOKS = _field(api.OciHooks, "")
DEVICES = _field(api.Devices, "device")
CDI_DEVICES = _field(api.CdiDevices, "CDI device", "0.7.0")
ENV = _field(api.Env, "env")
ARGS = _field(api.Args, "", "0.10.0")
HUGEPAGE_LIMITS = _field(api.HugepageLimits, "hugepage limit of size")
BLOCKIO_CLASS = _field(api.BlockioClass, "block I/O class")
RDT_CLASS = _field(api.RdtClass, "RDT class")
UNIFIED = _field(api.CgroupsUnified, "unified resource")
PIDS_LIMIT = _field(api.PidsLimit, "pids pinning", "0.7.0")
DEVICE_RULES = AdjustableField(0, "", "", "0.10.0", "/linux/resources/devices")
CGROUPS_PATH = _field(api.CgroupsPath, "cgroups path")
OOM_SCORE_ADJ = _field(api.OomScoreAdj, "oom score adj", "0.7.0")
RLIMITS = _field(api.Rlimits, "rlimit", "0.4.0")
IO_PRIORITY = _field(api.IoPriority, "", "0.10.0")
SECCOMP_POLICY = _field(api.SeccompPolicy, "", "0.10.0")
NAMESPACES = _field(api.Namespace, "", "0.10.0")
SYSCTL = _field(api.Sysctl, "", "0.11.0")
NET_DEVICES = _field(api.LinuxNetDevices, "", "0.11.0")
SCHEDULER = _field(api.LinuxSched, "", "0.11.0")
MEMORY_POLICY = _field(api.MemoryPolicy, "", "0.12.0")

# By the names of the members in LinuxMemory, LinuxCPU and LinuxRdt.
MEMORY = {
    "limit": _field(api.MemLimit, "memory limit"),
    "reservation": _field(api.MemReservation, "memory reservation"),
    "swap": _field(api.MemSwapLimit, "memory swap limit"),
    "kernel": _field(api.MemKernelLimit, "memory kernel limit"),
    "kernel_tcp": _field(api.MemTCPLimit, "memory TCP limit"),
    "swappiness": _field(api.MemSwappiness, "memory swappiness"),
    "disable_oom_killer": _field(api.MemDisableOomKiller, "memory disable OOM killer"),
    "use_hierarchy": _field(api.MemUseHierarchy, "memory 'UseHierarchy'"),
}
CPU = {
    "shares": _field(api.CPUShares, "CPU shares"),
    "quota": _field(api.CPUQuota, "CPU quota"),
    "period": _field(api.CPUPeriod, "CPU period"),
    "realtime_runtime": _field(api.CPURealtimeRuntime, "CPU realtime runtime"),
    "realtime_period": _field(api.CPURealtimePeriod, "CPU realtime period"),
    "cpus": _field(api.CPUSetCPUs, "CPU pinning"),
    "mems": _field(api.CPUSetMems, "memory pinning"),
}
RDT = {
    "clos_id": _field(api.RdtClosID, "", "0.11.0"),
    "schemata": _field(api.RdtSchemata, "", "0.11.0"),
    "enable_monitoring": _field(api.RdtEnableMonitoring, "", "0.11.0"),
}

FIELDS = (
    *(field for field in tuple(globals().values()) if isinstance(field, AdjustableField)),
    *(*MEMORY.values(), *CPU.values(), *RDT.values()),
)
"""All fields."""
HIDDEN_FIELDS = {
    "CDI_devices": (CDI_DEVICES,),
    "linux.rdt": tuple(RDT.values()),
    "linux.memory_policy": (MEMORY_POLICY,),
}
"""Fields that runtimes hide from later plugins of the chain, by their place in an adjustment."""
