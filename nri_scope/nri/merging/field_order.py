# SPDX-License-Identifier: Apache-2.0
"""The merge steps at each level of an adjustment, in upstream's order.

The order determines which of several conflicts is reported.

A step copies one field of a reply's message (``source``) to the corresponding messages in the
request (``shown``: the container as the next plugin sees it) and in the merged adjustment
(``merged``). All steps claim a value before setting it, and treat a key with a leading ``-`` as a
removal.

Upstream iterates over maps in Go's random order; here, keys are in alphabetical order, and
namespaces in the order of the reply. Where upstream's result is random (the order of namespaces and
of removed mounts, and which of several conflicts within one map is reported), the result here is
always the same one of the possible results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any, Protocol

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api

from . import fields
from .fields import ARGS, AdjustableField
from .owners import Turn
from .removable_fields import KeyedList, KeyedMap, Namespaces, Rdt, Sysctls


class MergeStep(Protocol):
    """The merging of one field."""

    def merge(self, source: Message, current: Message, merged: Message | None, turn: Turn) -> None:
        """Merge the field. Raises AdjustmentRefused. `merged` is None in an update."""


def _targets(name: str, *messages: Message | None) -> list[Any]:
    return [getattr(message, name) for message in messages if message is not None]


_HIDDEN = frozenset(chain.from_iterable(fields.HIDDEN_FIELDS.values()))


@dataclass(frozen=True, slots=True)
class Whole:
    """A field that one plugin sets as a whole: a message, or a string that is not empty."""

    name: str
    field: AdjustableField

    def merge(self, source: Message, current: Message, merged: Message | None, turn: Turn) -> None:
        """Claim the field and replace it."""
        value = getattr(source, self.name)
        if not (value if isinstance(value, str) else source.HasField(self.name)):
            return
        if not turn.supports(self.field, value):
            return
        turn.claim(self.field)
        set_field(self.name, value, None if self.field in _HIDDEN else current, merged)


def set_field(name: str, value: Any, *messages: Message | None) -> None:
    """Set a text or a message in several messages."""
    for message in messages:
        if message is None:
            continue
        if isinstance(value, str):
            setattr(message, name, value)
        else:
            getattr(message, name).CopyFrom(value)


@dataclass(frozen=True, slots=True)
class Group:
    """A message whose members are claimed individually (memory, cpu)."""

    name: str
    members: dict[str, AdjustableField]

    def merge(self, source: Message, current: Message, merged: Message | None, turn: Turn) -> None:
        """Claim and replace each member that is set, in the order of their numbers."""
        if not source.HasField(self.name):
            return
        targets = _targets(self.name, current, merged)
        for descriptor, value in getattr(source, self.name).ListFields():
            turn.claim(self.members[descriptor.name])
            set_field(descriptor.name, value, *targets)


@dataclass(frozen=True, slots=True)
class Appended:
    """A list to which plugins append members; none are removed."""

    name: str
    field: AdjustableField
    key: Callable[[Any], str] | None = None
    """Returns a member's key; None if members have no keys and are not claimed."""

    def merge(self, source: Message, current: Message, merged: Message | None, turn: Turn) -> None:
        """Claim and append each member."""
        entries = getattr(source, self.name)
        if not entries:
            return
        targets = _targets(self.name, None if self.field in _HIDDEN else current, merged)
        for entry in entries:
            key = None if self.key is None else self.key(entry)
            if not turn.supports(self.field, entry, key):
                continue
            if key is not None:
                turn.claim(self.field, key)
            for target in targets:
                target.append(entry)


@dataclass(frozen=True, slots=True)
class AppendedMap:
    """A map to which plugins add keys; none are removed."""

    name: str
    field: AdjustableField

    def merge(self, source: Message, current: Message, merged: Message | None, turn: Turn) -> None:
        """Claim and set each key."""
        entries = getattr(source, self.name)
        if not entries:
            return
        targets = _targets(self.name, current, merged)
        for key in sorted(entries):
            turn.claim(self.field, key)
            for target in targets:
                target[key] = entries[key]


@dataclass(frozen=True, slots=True)
class Args:
    """The command line. With an empty first argument, it replaces another plugin's command line."""

    def merge(self, source: Message, current: Message, merged: Message | None, turn: Turn) -> None:
        """Claim and replace the command line."""
        assert isinstance(source, api.ContainerAdjustment)
        args = list(source.args)
        if not args or not turn.supports(ARGS, " ".join(args)):
            return
        if not args[0]:
            turn.clear(ARGS)
            del args[0]
        turn.claim(ARGS)
        for target in _targets("args", current, merged):
            target[:] = args


@dataclass(frozen=True, slots=True)
class Hooks:
    """Hooks of all kinds; they are appended to earlier hooks and never conflict."""

    def merge(self, source: Message, current: Message, merged: Message | None, turn: Turn) -> None:
        """Append the hooks, and add the plugin to their owners."""
        assert isinstance(source, api.ContainerAdjustment)
        requested = source.hooks.ListFields()
        for descriptor, hooks in requested:
            for target in _targets("hooks", current, merged):
                getattr(target, descriptor.name).extend(hooks)
        if requested:
            turn.owners.join_hooks(turn.plugin)


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
    Whole("memory_policy", fields.MEMORY_POLICY),
)
"""Steps for an adjustment's Linux part, after its resources."""

LAST: tuple[MergeStep, ...] = (
    Appended("rlimits", fields.RLIMITS, attrgetter("type")),
    Appended("CDI_devices", fields.CDI_DEVICES, attrgetter("name")),
)
"""Steps for an adjustment, after its Linux part."""
