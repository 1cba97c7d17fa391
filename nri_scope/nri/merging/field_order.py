# SPDX-License-Identifier: Apache-2.0
"""The merge steps at each level of an adjustment, in upstream's order.

The order determines which of several conflicts is reported.
"""

from __future__ import annotations

from operator import attrgetter

from nri_scope._gen.nri import api_pb2 as api

from . import fields
from .field_kinds import Appended, AppendedMap, Args, Group, Hooks, MergeStep, Whole
from .removable_fields import KeyedList, KeyedMap, Namespaces, Rdt, Sysctls


def _name_of_variable(variable: str) -> str:
    return variable.partition("=")[0]


def _variable_of(entry: api.KeyValue) -> str:
    return f"{entry.key}={entry.value}"


FIRST: tuple[MergeStep, ...] = (
    KeyedMap("annotations", fields.ANNOTATIONS, ""),
    KeyedList("mounts", fields.MOUNTS, attrgetter("destination"), attrgetter("destination")),
    KeyedList("env", fields.ENV, attrgetter("key"), _name_of_variable, _variable_of),
    Args(),
    Hooks(),
)
"""Steps for an adjustment, before its Linux part."""

_MEMORY_AND_CPU: tuple[MergeStep, ...] = (
    Group("memory", fields.MEMORY),
    Group("cpu", fields.CPU),
    Appended("hugepage_limits", fields.HUGEPAGE_LIMITS, attrgetter("page_size")),
)
_UNIFIED_AND_CLASSES: tuple[MergeStep, ...] = (
    AppendedMap("unified", fields.UNIFIED),
    Whole("blockio_class", fields.BLOCKIO_CLASS),
    Whole("rdt_class", fields.RDT_CLASS),
)
UPDATED_RESOURCES: tuple[MergeStep, ...] = (*_MEMORY_AND_CPU, *_UNIFIED_AND_CLASSES)
"""Steps for an update's resources, without device rules and the pids limit."""
ADJUSTED_RESOURCES: tuple[MergeStep, ...] = (
    *_MEMORY_AND_CPU,
    Appended("devices", fields.DEVICE_RULES),
    *_UNIFIED_AND_CLASSES,
    Whole("pids", fields.PIDS_LIMIT),
)
"""Steps for an adjustment's resources."""

DEVICES = KeyedList("devices", fields.DEVICES, attrgetter("path"), attrgetter("path"))
"""Step for an adjustment's Linux part, before its resources."""
LINUX: tuple[MergeStep, ...] = (
    Whole("cgroups_path", fields.CGROUPS_PATH),
    Whole("oom_score_adj", fields.OOM_SCORE_ADJ),
    Whole("io_priority", fields.IO_PRIORITY),
    Whole("seccomp_policy", fields.SECCOMP_POLICY),
    Namespaces(),
    Sysctls("sysctl", fields.SYSCTL, ""),
    KeyedMap("net_devices", fields.NET_DEVICES, api.LinuxNetDevice()),
    Whole("scheduler", fields.SCHEDULER),
    Rdt(),
    Whole("memory_policy", fields.MEMORY_POLICY, hidden=True),
)
"""Steps for an adjustment's Linux part, after its resources."""

LAST: tuple[MergeStep, ...] = (
    Appended("rlimits", fields.RLIMITS, attrgetter("type")),
    Appended("CDI_devices", fields.CDI_DEVICES, attrgetter("name"), hidden=True),
)
"""Steps for an adjustment, after its Linux part."""
