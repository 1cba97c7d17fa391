# SPDX-License-Identifier: Apache-2.0
"""Convert NRI messages to plain values for JSON and YAML, completely and with the API's names.

The kinds of fields in the messages determine how they are shown and written as text.

`message_from_plain` and `bytes_from_plain` make messages of such values again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from .element_limits import CUT, CUT_FIELD, MAX_IN_SYNCHRONIZE, bounded, encoded_field, varint

Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]
"""A JSON value."""

UNKNOWN = "unknown_fields"
"""Key for the unknown fields of a message; no field of the API has this name."""

MALFORMED_KEY = "malformed"
"""Key for the hexadecimal bytes of a malformed message."""
LEFT_OUT = "left_out"
"""Key for the note in a message that elements above a limit were left out."""
RAW = "raw"
"""Key for the hexadecimal bytes of a message of unknown type."""

JSON_VALUES_MAX = 250_000
"""Maximum number of values in a JSON message. Long seccomp profiles have thousands."""

_VARINT, _GROUP, _END_GROUP = 0, 3, 4
_FIXED_BITS = {1: 64, 5: 32}
"""Lengths of numbers, by the wire type; an unknown field has it as "bits", unless a varint."""
_GROUPS_MAX = 20


LIST_KEYS = {
    "KeyValue": "key",
    "POSIXRlimit": "type",
    "LinuxDevice": "path",
    "LinuxNamespace": "type",
    "HugepageLimit": "page_size",
    "ContainerUpdate": "container_id",
    "ContainerEviction": "container_id",
}
"""The field by which a runtime distinguishes the members of a list, by the members' message."""


def fields_of(kind: type[Message]) -> dict[str, FieldDescriptor]:
    """Return the fields of a message by name, in the order of their declaration."""
    return {field.name: cast("FieldDescriptor", field) for field in kind.DESCRIPTOR.fields}


def is_map(field: FieldDescriptor) -> bool:
    """Return whether a field is a map."""
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def key_field(field: FieldDescriptor) -> FieldDescriptor:
    """Return the field of a map's keys."""
    assert field.message_type is not None
    return field.message_type.fields_by_name["key"]


def value_field(field: FieldDescriptor) -> FieldDescriptor:
    """Return the field of a map's values."""
    assert field.message_type is not None
    return field.message_type.fields_by_name["value"]


def is_optional_value(message_name: str) -> bool:
    """Return whether a message only wraps a value that may be absent, such as OptionalInt."""
    return message_name.startswith("Optional")


def optional_value(message: Message) -> bool | int | str | list[str] | None:
    """Return the value that a message only wraps; None for any other message, and for a wrapper
    with unknown fields.
    """
    if not is_optional_value(message.DESCRIPTOR.name) or len(UnknownFieldSet(message)):
        return None
    value = cast("Any", message).value
    return value if isinstance(value, bool | int | str) else list(value)


def clear_fields(message: Message, names: Iterable[str]) -> None:
    """Remove the fields with these names from a message."""
    for name in names:
        message.ClearField(name)


def plain(message: Message) -> dict[str, Plain]:
    """Return the fields that are set, in the order of their numbers.

    Enum values become names, or numbers if unnamed; bytes and unknown fields become hexadecimal
    text; numbers stay numbers, regardless of size.
    """
    values: dict[str, Plain] = {}
    for field, value in message.ListFields():
        if is_map(field):
            of_value = value_field(field)
            entries = ((str(key), plain_value(of_value, value[key])) for key in value)
            # Sorted, because the order of a map on the wire has no meaning.
            values[field.name] = dict(sorted(entries, key=lambda entry: entry[0]))
        elif isinstance(value, str | bytes | int | float | Message):
            values[field.name] = plain_value(field, value)
        else:
            values[field.name] = [plain_value(field, item) for item in value]
    unknown = list(_unknown(UnknownFieldSet(message), 0))
    cut: Plain = {"field": CUT_FIELD, "value": CUT.encode().hex()}
    if cut in unknown:
        unknown = [field_value for field_value in unknown if field_value != cut]
        values[LEFT_OUT] = CUT
    if unknown:
        values[UNKNOWN] = unknown
    return values


def plain_bytes(kind: type[Message] | None, content: bytes) -> dict[str, Plain]:
    """Return the fields of an encoded message of type `kind`, or its raw bytes if that is None."""
    if kind is None:
        return {RAW: content.hex()} if content else {}
    try:
        return plain(kind.FromString(bounded(kind, content, MAX_IN_SYNCHRONIZE)))
    except DecodeError:
        return {MALFORMED_KEY: content.hex()}


def plain_json(content: bytes) -> dict[str, Plain] | None:
    """Return a message that is a JSON object; {} for b"".

    None for other bytes, and for too many values.
    """
    # A value of one or two bytes can take a hundred bytes of memory once parsed.
    if sum(map(content.count, (b",", b"[", b"{"))) > JSON_VALUES_MAX:
        return None
    try:
        read = json.loads(content, parse_constant=refuse_constant) if content else {}
    except (ValueError, RecursionError):
        return None
    return read if isinstance(read, dict) else None


def json_or_malformed(content: bytes) -> dict[str, Plain]:
    """Return a message that is a JSON object, or its bytes in hexadecimal if it is not."""
    read = plain_json(content)
    return {MALFORMED_KEY: content.hex()} if read is None else read


def refuse_constant(constant: str) -> Plain:
    """Raise ValueError: Python's parser accepts NaN and similar constants, which are not JSON."""
    raise ValueError(f"{constant} is no JSON value")


def plain_value(field: FieldDescriptor, value: object) -> Plain:
    """Return one value of a field as `plain` does."""
    if isinstance(value, Message):
        return plain(value)
    if isinstance(value, bytes):
        return value.hex()
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(cast("int", value))
        return named.name if named else cast("int", value)
    return cast("Plain", value)


def _unknown(fields: UnknownFieldSet, depth: int) -> Iterator[Plain]:
    for index in range(len(fields)):
        field = fields[index]
        data = field.data
        if isinstance(data, bytes):
            value: Plain = data.hex()
        elif field.wire_type == _GROUP:
            value = list(_unknown(data, depth + 1)) if depth < _GROUPS_MAX else "…"
        else:
            value = int(data)
        bits = _FIXED_BITS.get(field.wire_type)
        length: dict[str, Plain] = {"bits": bits} if bits else {}
        yield {"field": field.field_number, "value": value, **length}


_FIELD_MAX = (1 << 29) - 1


class NotPlain(ValueError):
    """A value that `plain` does not return. The text names its place."""


def bytes_from_plain(kind: type[Message] | None, value: Plain) -> bytes:
    """Return an encoded message of type ``kind``, or raw bytes if that is None.

    The inverse of `plain.plain_bytes`, except for the order of fields. Raises NotPlain.
    """
    entries = _mapping(value, "")
    if kind is None and not entries:
        return b""
    for name in (MALFORMED_KEY, RAW):
        if name in entries:
            return _hexadecimal(entries[name], name)
    if kind is None:
        raise NotPlain(f"the key {RAW} is missing")
    return message_from_plain(kind, entries).SerializeToString()


def message_from_plain(kind: type[Message], value: Plain) -> Message:
    """Return the message. Raises NotPlain."""
    message = kind()
    _fill(message, _mapping(value, ""), "")
    return message


def _fill(message: Message, entries: dict[str, Plain], path: str) -> None:
    described = fields_of(type(message))
    for name, value in entries.items():
        inner = f"{path}.{name}" if path else name
        if name == LEFT_OUT:
            message.MergeFromString(encoded_field(CUT_FIELD, CUT.encode()))
        elif name == UNKNOWN:
            try:
                message.MergeFromString(b"".join(_encoded(value, inner, 0)))
            except DecodeError as error:
                raise NotPlain(f"{inner}: {error}") from None
        elif name in described:
            _set(message, described[name], value, inner)
        else:
            raise NotPlain(f"{inner}: unknown key")


def _set(message: Message, field: FieldDescriptor, value: Plain, path: str) -> None:
    target = getattr(message, field.name)
    if is_map(field):
        of_value = value_field(field)
        for key, item in _mapping(value, path).items():
            inner = f"{path}.{key}"
            if of_value.message_type is not None:
                _fill(target[_key(field, key, inner)], _mapping(item, inner), inner)
            else:
                target[_key(field, key, inner)] = _scalar(of_value, item, inner)
    elif field.is_repeated:
        if not isinstance(value, list):
            raise NotPlain(f"{path}: not a list")
        for number, item in enumerate(value):
            inner = f"{path}[{number}]"
            if field.message_type is not None:
                _fill(target.add(), _mapping(item, inner), inner)
            else:
                target.append(_scalar(field, item, inner))
    elif field.message_type is not None:
        target.SetInParent()
        _fill(target, _mapping(value, path), path)
    else:
        setattr(message, field.name, _scalar(field, value, path))


def _key(field: FieldDescriptor, key: str, path: str) -> str | int:
    if key_field(field).cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return key
    try:
        return int(key)
    except ValueError:
        raise NotPlain(f"{path}: not a number") from None


def _scalar(field: FieldDescriptor, value: Plain, path: str) -> str | int | bytes:
    if field.enum_type is not None and isinstance(value, str):
        named = field.enum_type.values_by_name
        if value not in named:
            raise NotPlain(f"{path}: unknown value")
        return named[value].number
    if field.type == FieldDescriptor.TYPE_BYTES:
        return _hexadecimal(value, path)
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        if not isinstance(value, str):
            raise NotPlain(f"{path}: not a text")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise NotPlain(f"{path}: not a valid text") from None
        return value
    is_bool = field.cpp_type == FieldDescriptor.CPPTYPE_BOOL
    if isinstance(value, bool) != is_bool or not isinstance(value, int):
        raise NotPlain(f"{path}: not {'true or false' if is_bool else 'an integer'}")
    low, high = _RANGES.get(field.cpp_type, (-(2**31), 2**31 - 1))
    if not low <= value <= high:
        raise NotPlain(f"{path}: not between {low} and {high}")
    return value


_RANGES = {
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}


def _mapping(value: Plain, path: str) -> dict[str, Plain]:
    if not isinstance(value, dict):
        raise NotPlain(f"{path}: not a mapping" if path else "not a mapping")
    return value


def _hexadecimal(value: Plain, path: str) -> bytes:
    try:
        return bytes.fromhex(value if isinstance(value, str) else "-")
    except ValueError:
        raise NotPlain(f"{path}: not hexadecimal") from None


def _encoded(value: Plain, path: str, depth: int) -> Iterable[bytes]:
    """Yield the encoding of unknown fields."""
    if not isinstance(value, list) or depth > _GROUPS_MAX:
        raise NotPlain(f"{path}: not a list of fields")
    for item in value:
        field = item.get("field") if isinstance(item, dict) else None
        if not isinstance(item, dict) or not isinstance(field, int) or not 0 < field <= _FIELD_MAX:
            raise NotPlain(f"{path}: not a list of fields")
        content, bits = item.get("value"), item.get("bits")
        wire = next((wire for wire, length in _FIXED_BITS.items() if length == bits), _VARINT)
        length = _FIXED_BITS.get(wire, 64)
        if isinstance(content, list):
            inner = b"".join(_encoded(content, path, depth + 1))
            yield varint(field << 3 | _GROUP) + inner + varint(field << 3 | _END_GROUP)
        elif isinstance(content, int) and 0 <= content < 2**length:
            fixed = content.to_bytes(length // 8, "little")
            yield varint(field << 3 | wire) + (varint(content) if wire == _VARINT else fixed)
        else:
            yield encoded_field(field, _hexadecimal(content, path))
