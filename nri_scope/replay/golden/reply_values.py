# SPDX-License-Identifier: Apache-2.0
"""Convert replies to the form of goldens: their meaning, independent of their encoding.

Field names are those of the API. Differences from `nri.plain`, which shows a message as it is:

- An optional value is replaced by its value.
- Lists whose members have a key become mappings by that key: environment, devices, namespaces,
  rlimits, hugepage limits, updates and evictions. Lists that are sets are sorted. Mounts, hooks,
  arguments and rules keep their order.
- Containers are identified by their names.
- A removal is ``-KEY: removed``. A replacement, which is a removal and a new value in either order,
  is ``-KEY: removed`` and ``KEY: value``. Other fields of a removal marker are omitted, as runtimes
  ignore them.
- Messages that only contain other messages are omitted if these are empty, so that an empty
  adjustment is an empty reply.

Lists that a mapping cannot represent stay lists: repeated keys, a namespace both removed and set,
and unknown fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import events_in, mask_of
from nri_scope.nri.plain import (
    LIST_KEYS,
    UNKNOWN,
    Plain,
    is_map,
    optional_value,
    plain,
    plain_value,
    value_field,
)

NameOf = Callable[[str], str]
"""Maps a container's id to ``namespace/pod/container``; "" if it is unknown."""

REMOVED = "removed"
"""Value of a key that marks a removal."""

MARK = "-"
"""Prefix of a key: NRI's sign for a removal."""

ALL_EVENTS = "all"
"""Value for a subscription mask of 0, which means all events."""

MOUNT_KEY = "destination"

UNORDERED = frozenset({"CDI_devices", "architectures", "flags", "names"})
"""Lists of strings whose order is meaningless (CDI devices; seccomp, scheduler, memory policy)."""

# By message and field; in other keys, a leading dash has no meaning.
_REMOVABLE = frozenset(
    {
        ("ContainerAdjustment", "annotations"),
        ("ContainerAdjustment", "env"),
        ("LinuxContainerAdjustment", "devices"),
        ("LinuxContainerAdjustment", "namespaces"),
        ("LinuxContainerAdjustment", "sysctl"),
        ("LinuxContainerAdjustment", "net_devices"),
    }
)
# A runtime processes these in order; for the others, it applies all removals first.
_ORDERED_REMOVALS = frozenset({"LinuxNamespace"})
# Empty messages of these types have no effect; others do (pids {} is a limit of 0).
_WRAPPERS = frozenset(
    {
        "ContainerAdjustment",
        "LinuxContainerAdjustment",
        "LinuxContainerUpdate",
        "LinuxResources",
        "LinuxMemory",
        "LinuxCPU",
        "LinuxRdt",
        "Hooks",
    }
)
# Messages in which an absent number means 0.
_WITH_ZEROS = frozenset(
    {
        "POSIXRlimit",
        "HugepageLimit",
        "LinuxPids",
        "LinuxDevice",
        "LinuxIOPriority",
        "LinuxMemoryPolicy",
        "LinuxSeccompArg",
    }
)


def plain_reply(message: Message, name_of: NameOf) -> dict[str, Plain]:
    """Return the fields that ``message`` sets; {} for an empty one.

    Accepts any reply of a plugin, and UpdateContainersRequest. The result contains no None. Equal
    results have the same effect on a runtime.
    """
    if isinstance(message, api.ConfigureResponse):
        return _subscription(message)
    return _Converter(name_of).fields(message)


def _subscription(reply: api.ConfigureResponse) -> dict[str, Plain]:
    mask = reply.events
    events = events_in(mask)
    names: list[Plain] = [event.name for event in events]
    strange = (mask & 0xFFFF_FFFF) & ~mask_of(events)
    names += [bit + 1 for bit in range(32) if strange >> bit & 1]
    values: dict[str, Plain] = {"events": names if mask else ALL_EVENTS}
    if policy := plain(reply.failure_policy):
        values["failure_policy"] = policy
    return values | _unknown(reply)


def _unknown(message: Message) -> dict[str, Plain]:
    if not len(UnknownFieldSet(message)):
        return {}
    return {UNKNOWN: plain(message)[UNKNOWN]}


class _Converter:
    def __init__(self, name_of: NameOf) -> None:
        self._name_of = name_of

    def fields(self, message: Message) -> dict[str, Plain]:
        kind = message.DESCRIPTOR
        set_fields: list[tuple[FieldDescriptor, object]] = list(message.ListFields())
        if kind.name in _WITH_ZEROS:
            present = {field.number for field, _ in set_fields}
            numbers = filter(_is_number, cast("Iterable[FieldDescriptor]", kind.fields))
            set_fields += [(field, 0) for field in numbers if field.number not in present]
            set_fields.sort(key=lambda entry: entry[0].number)
        values: dict[str, Plain] = {}
        for field, value in set_fields:
            if isinstance(value, str | bytes | int | float | Message):
                converted = self._value(field, value)
            else:
                converted = self._many(kind.name, field, value)
            if converted != {} or not _is_wrapper(field):
                values[field.name] = converted
        return values | _unknown(message)

    def _value(self, field: FieldDescriptor, value: object) -> Plain:
        if isinstance(value, Message):
            inner = optional_value(value)
            return self.fields(value) if inner is None else cast("Plain", inner)
        if field.name == "container_id":
            return self._name_of(cast("str", value)) or cast("str", value)
        return plain_value(field, value)

    def _many(self, kind: str, field: FieldDescriptor, value: object) -> Plain:
        removable = (kind, field.name) in _REMOVABLE
        if is_map(field):
            return self._map(field, cast("dict[object, object]", value), removable)
        items = cast("Iterable[object]", value)
        of = field.message_type.name if field.message_type is not None else ""
        if of == "Mount":
            return self._mounts(cast("Iterable[Message]", items))
        values = [self._value(field, item) for item in items]
        if of in LIST_KEYS:
            by_key = _by_key(values, LIST_KEYS[of], removable)
            if by_key is None or (of in _ORDERED_REMOVALS and _has_replacement(by_key)):
                return values
            return by_key
        if field.name in UNORDERED:
            return unordered([_bare_name(item) for item in values])
        return values

    def _map(
        self, field: FieldDescriptor, entries: dict[object, object], removable: bool
    ) -> dict[str, Plain] | list[Plain]:
        of_value = value_field(field)
        values = {str(key): self._value(of_value, entries[key]) for key in entries}
        if not removable:
            return dict(sorted(values.items()))
        if any(_is_marker(key) and _has_unknown(value) for key, value in values.items()):
            return [{"key": key, "value": value} for key, value in sorted(values.items())]
        return _in_order((key, REMOVED if _is_marker(key) else values[key]) for key in values)

    def _mounts(self, mounts: Iterable[Message]) -> list[Plain]:
        removals: dict[str, Plain] = {}
        others: list[Plain] = []
        for mount in mounts:
            fields = self.fields(mount)
            destination = fields.get(MOUNT_KEY)
            if isinstance(destination, str) and _is_marker(destination) and UNKNOWN not in fields:
                removals[destination] = {MOUNT_KEY: destination}
            else:
                others.append(fields)
        return [removals[key] for key in sorted(removals)] + others


_Item = TypeVar("_Item")


def unordered(items: list[_Item]) -> list[_Item]:
    """Sort a list that is a set, as in goldens: texts first."""
    return sorted(items, key=lambda item: (not isinstance(item, str), str(item)))


def _by_key(items: list[Plain], key_field: str, removable: bool) -> dict[str, Plain] | None:
    """Return the items as a mapping by key; None if a mapping cannot represent them."""
    values: dict[str, Plain] = {}
    for item in items:
        assert isinstance(item, dict)
        key = item.get(key_field, "")
        assert isinstance(key, str)
        content: Plain = {name: value for name, value in item.items() if name != key_field}
        if key_field == "key" and UNKNOWN not in item:
            content = item.get("value", "")
        if removable and _is_marker(key):
            if UNKNOWN in item:
                return None
            # Repeated removals are one removal.
            values.pop(key, None)
            content = REMOVED
        if key in values:
            return None
        values[key] = content
    return _in_order(values.items())


def _has_replacement(by_key: dict[str, Plain]) -> bool:
    return any(_is_marker(key) and key.removeprefix(MARK) in by_key for key in by_key)


def _in_order(entries: Iterable[tuple[str, Plain]]) -> dict[str, Plain]:
    """Sort entries by key, each removal directly before its new value."""
    return dict(
        sorted(entries, key=lambda entry: (entry[0].removeprefix(MARK), not _is_marker(entry[0])))
    )


def _is_marker(key: str) -> bool:
    return key.startswith(MARK)


def _has_unknown(value: Plain) -> bool:
    return isinstance(value, dict) and UNKNOWN in value


def _bare_name(item: Plain) -> Plain:
    """Return a CDI device's name if that is its only field."""
    if isinstance(item, dict) and list(item) == ["name"]:
        return item["name"]
    return item


def _is_wrapper(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.name in _WRAPPERS


def _is_number(field: FieldDescriptor) -> bool:
    return field.cpp_type in _NUMBERS and not field.has_presence and field.default_value == 0


_NUMBERS = frozenset(
    {
        FieldDescriptor.CPPTYPE_INT32,
        FieldDescriptor.CPPTYPE_INT64,
        FieldDescriptor.CPPTYPE_UINT32,
        FieldDescriptor.CPPTYPE_UINT64,
        FieldDescriptor.CPPTYPE_ENUM,
    }
)
