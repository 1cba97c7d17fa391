# SPDX-License-Identifier: Apache-2.0
"""NRI's messages as editable YAML, in both directions and without loss.

Field names are those of the API, and absent fields are left out. As in goldens, an optional value
is written as the value itself, and a list whose members have a key as a mapping by that key:
namespaces, devices, rlimits, hugepage limits. The environment of a container is a mapping by name.
Mappings keep their order. A list that a mapping cannot represent, because a key is repeated, stays
a list; both forms can be read. The key ``unknown_fields`` has the fields that this version of the
API does not know, as hexadecimal protobuf.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.plain import (
    LIST_KEYS,
    UNKNOWN,
    clear_fields,
    fields_of,
    is_map,
    is_optional_value,
    key_field,
    optional_value,
    plain_value,
    value_field,
)
from nri_scope.text.yaml_reader import Node
from nri_scope.text.yaml_text import FlowList, FlowMapping, YamlValue

from .model import Position, nearest, shown
from .value_readers import ValueReader, flag, integer, list_of, mapping_of, text_of

ABSENT = "absent"
"""Value of a field that is a message, to remove it from a message that has it."""

_ENVIRONMENT = ("Container", "env")
_KEY_VALUE = "KeyValue"
"""Message whose value stands for it in a mapping by its key."""
_ON_ONE_LINE = frozenset({"Mount", "LinuxNamespace", "POSIXRlimit", "HugepageLimit", "LinuxDevice"})
_NUMBERS = {
    FieldDescriptor.CPPTYPE_INT32: integer(-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: integer(-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: integer(0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: integer(0, 2**64 - 1),
}
_INTEGER = re.compile(r"[0-9]{1,9}")
_KINDS: dict[str, type[Message]] = {
    name: getattr(api, name) for name in api.DESCRIPTOR.message_types_by_name
}


# -- writing ----------------------------------------------------------------------------------


def message_form(message: Message) -> dict[str, YamlValue]:
    """Return the fields that are set, in the order of their numbers."""
    form: dict[str, YamlValue] = {}
    for descriptor, value in message.ListFields():
        if isinstance(value, str | int | Message):
            form[descriptor.name] = _value_form(descriptor, value)
        elif is_map(descriptor):
            of_value = value_field(descriptor)
            form[descriptor.name] = {
                str(key): _value_form(of_value, value[key]) for key in sorted(value)
            }
        else:
            form[descriptor.name] = _list_form(message, descriptor, value)
    if len(UnknownFieldSet(message)):
        form[UNKNOWN] = _unknown_fields(message).hex()
    if message.DESCRIPTOR.name in _ON_ONE_LINE:
        return FlowMapping(form)
    return form


def _unknown_fields(message: Message) -> bytes:
    remainder = deepcopy(message)
    clear_fields(remainder, fields_of(type(message)))
    return remainder.SerializeToString(deterministic=True)


def _value_form(field: FieldDescriptor, value: object) -> YamlValue:
    if isinstance(value, Message):
        inner = optional_value(value)
        return message_form(value) if inner is None else cast("YamlValue", inner)
    return cast("str | int", plain_value(field, value))


def _list_form(message: Message, field: FieldDescriptor, values: Iterable[object]) -> YamlValue:
    if (message.DESCRIPTOR.name, field.name) == _ENVIRONMENT:
        texts = [cast("str", value) for value in values]
        return dict(text.split("=", 1) for text in texts) if _is_environment(texts) else texts
    forms = [_value_form(field, value) for value in values]
    key = LIST_KEYS.get(field.message_type.name) if field.message_type is not None else None
    if key is None:
        short = all(isinstance(form, str) for form in forms) and message.DESCRIPTOR.name == "Mount"
        return FlowList(cast("list[str]", forms)) if short else forms
    members = [cast("dict[str, YamlValue]", form) for form in forms]
    names = [cast("str", member.get(key, "")) for member in members]
    if len(set(names)) < len(names):
        return forms
    if _is_key_value(field):
        if any(UNKNOWN in member for member in members):
            return forms
        return {name: member.get("value", "") for name, member in zip(names, members, strict=True)}
    return {
        name: FlowMapping({other: value for other, value in member.items() if other != key})
        for name, member in zip(names, members, strict=True)
    }


def _is_key_value(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.name == _KEY_VALUE


def _is_environment(texts: list[str]) -> bool:
    names = [text.partition("=")[0] for text in texts]
    return all("=" in text for text in texts) and len(set(names)) == len(names)


# -- reading ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FieldsReader:
    """A reader of one of NRI's messages, with additional keys that are no fields."""

    kind: type[Message]
    keys: Mapping[str, ValueReader] = field(default_factory=dict[str, ValueReader])
    can_remove: bool = False
    """Whether `ABSENT` is accepted as the value of a field that is a message."""

    def read(self, node: Node, position: Position) -> Message:
        """Return the message. Raises UsageError."""
        return self.parts(node, position)[0]

    def parts(self, node: Node, position: Position) -> tuple[Message, dict[str, Any], set[str]]:
        """Return the message, the values of the additional keys, and the names of its fields."""
        message = self.kind()
        values: dict[str, Any] = {}
        names: set[str] = set()
        described = fields_of(self.kind)
        for name, value in mapping_of(node, position).items():
            inner = position.key(name, value.line)
            if name in self.keys:
                values[name] = self.keys[name](value, inner)
                continue
            if name == UNKNOWN:
                _read_unknown(message, value, inner)
                continue
            field = described.get(name)
            if field is None:
                raise inner.error("unknown key", nearest(name, [*self.keys, *described]))
            names.add(name)
            if self.can_remove and value.value == ABSENT and field.has_presence:
                continue
            _read_field(message, field, value, inner)
        return message, values, names


def _read_unknown(message: Message, node: Node, position: Position) -> None:
    try:
        message.MergeFromString(bytes.fromhex(text_of(node, position)))
    except (ValueError, DecodeError):
        raise position.error("not hexadecimal protobuf") from None


def _read_field(message: Message, field: FieldDescriptor, node: Node, position: Position) -> None:
    name = field.name
    if is_map(field):
        of_value = value_field(field)
        target = getattr(message, name)
        has_numbers = key_field(field).cpp_type in _NUMBERS
        for name_or_number, value in mapping_of(node, position).items():
            inner = position.key(name_or_number, value.line)
            key: str | int = name_or_number
            if has_numbers:
                if _INTEGER.fullmatch(name_or_number) is None:
                    raise inner.error(f"{shown(name_or_number)} is not a number of a field")
                key = int(name_or_number)
            if of_value.message_type is not None:
                target[key].CopyFrom(_read_message(of_value, value, inner))
            else:
                target[key] = _read_scalar(of_value, value, inner)
    elif field.is_repeated:
        getattr(message, name).extend(_read_list(message, field, node, position))
    elif field.message_type is not None:
        getattr(message, name).CopyFrom(_read_message(field, node, position))
    else:
        setattr(message, name, _read_scalar(field, node, position))


def _read_message(field: FieldDescriptor, node: Node, position: Position) -> Message:
    kind = _kind(field)
    if is_optional_value(kind.DESCRIPTOR.name) and not isinstance(node.value, dict):
        message = kind()
        _read_field(message, fields_of(kind)["value"], node, position)
        return message
    return FieldsReader(kind).read(node, position)


def _read_list(
    message: Message, field: FieldDescriptor, node: Node, position: Position
) -> Iterable[Message | str | int]:
    if isinstance(node.value, dict) and (message.DESCRIPTOR.name, field.name) == _ENVIRONMENT:
        for name, value in node.value.items():
            yield f"{name}={text_of(value, position.key(name, value.line))}"
        return
    key = LIST_KEYS.get(field.message_type.name) if field.message_type is not None else None
    if isinstance(node.value, dict) and key is not None:
        for name, value in node.value.items():
            inner = position.key(name, value.line)
            if _is_key_value(field) and not isinstance(value.value, dict):
                yield api.KeyValue(key=name, value=text_of(value, inner))
                continue
            member = FieldsReader(_kind(field)).read(value, inner)
            if getattr(member, key):
                raise inner.key(key, value.line).error("it is the key of the mapping, too")
            setattr(member, key, name)
            yield member
        return
    for number, item in enumerate(list_of(node, position)):
        inner = position.item(number, item.line)
        if field.message_type is not None:
            yield _read_message(field, item, inner)
        else:
            yield _read_scalar(field, item, inner)


def _read_scalar(field: FieldDescriptor, node: Node, position: Position) -> str | int:
    if field.enum_type is not None and not _is_number(node):
        named = field.enum_type.values_by_name
        text = text_of(node, position)
        if text not in named:
            raise position.error(f"{shown(text)} is unknown", nearest(text, named))
        return named[text].number
    value = _scalar_reader(field)(node, position)
    assert isinstance(value, str | int)
    return value


def _scalar_reader(field: FieldDescriptor) -> ValueReader:
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return flag
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return text_of
    return _NUMBERS[
        FieldDescriptor.CPPTYPE_INT32 if field.enum_type is not None else field.cpp_type
    ]


def _is_number(node: Node) -> bool:
    return isinstance(node.value, int) and not isinstance(node.value, bool)


def _kind(field: FieldDescriptor) -> type[Message]:
    assert field.message_type is not None
    return _KINDS[field.message_type.name]
