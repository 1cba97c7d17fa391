# SPDX-License-Identifier: Apache-2.0
"""Convert NRI messages to plain values for JSON and YAML, completely and with the API's names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from .element_limits import CUT, CUT_FIELD, MAX_IN_SYNCHRONIZE, bounded
from .message_fields import is_map, value_field

Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]
"""A JSON value."""

UNKNOWN = "unknown_fields"
"""Key for the unknown fields of a message; no field of the API has this name."""

MALFORMED = "malformed"
"""Key for the hexadecimal bytes of a malformed message."""
LEFT_OUT = "left_out"
"""Key for the note in a message that elements above a limit were left out."""
RAW = "raw"
"""Key for the hexadecimal bytes of a message of unknown type."""

JSON_VALUES_MAX = 250_000
"""Maximum number of values in a JSON message. Long seccomp profiles have thousands."""

_GROUP = 3
_MAX_GROUPS = 20


def plain(message: Message) -> dict[str, Plain]:
    """Return the fields that are set, in the order of their numbers.

    Enum values become names, or numbers if unnamed; bytes and unknown fields become hexadecimal
    text; numbers stay numbers, regardless of size.
    """
    values: dict[str, Plain] = {}
    for field, value in message.ListFields():
        if is_map(field):
            of_value = value_field(field)
            entries = ((str(key), _plain_value(of_value, value[key])) for key in value)
            # Sorted, because the order of a map on the wire has no meaning.
            values[field.name] = dict(sorted(entries, key=lambda entry: entry[0]))
        elif isinstance(value, str | bytes | int | float | Message):
            values[field.name] = _plain_value(field, value)
        else:
            values[field.name] = [_plain_value(field, item) for item in value]
    unknown = list(_unknown(UnknownFieldSet(message), 0))
    cut: Plain = {"field": CUT_FIELD, "value": CUT.encode().hex()}
    if cut in unknown:
        unknown = [each for each in unknown if each != cut]
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
        return {MALFORMED: content.hex()}


def plain_json(content: bytes) -> dict[str, Plain] | None:
    """Return a message that is a JSON object; {} for b"".

    None for other bytes, and for too many values.
    """
    # A value of one or two bytes can take a hundred bytes of memory once parsed.
    if sum(map(content.count, (b",", b"[", b"{"))) > JSON_VALUES_MAX:
        return None
    try:
        read = json.loads(content, parse_constant=_refuse) if content else {}
    except (ValueError, RecursionError):
        return None
    return read if isinstance(read, dict) else None


def json_or_malformed(content: bytes) -> dict[str, Plain]:
    """Return a message that is a JSON object, or its bytes in hexadecimal if it is not."""
    read = plain_json(content)
    return {MALFORMED: content.hex()} if read is None else read


def _refuse(constant: str) -> Plain:
    # Python's parser accepts NaN and similar constants, which are not JSON.
    raise ValueError(constant)


def _plain_value(field: FieldDescriptor, value: object) -> Plain:
    if isinstance(value, Message):
        return plain(value)
    if isinstance(value, bytes):
        return value.hex()
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(cast("int", value))
        return named.name if named else cast("int", value)
    return cast("Plain", value)


def _unknown(fields: UnknownFieldSet, depth: int) -> Iterator[Plain]:
    for at in range(len(fields)):
        field = fields[at]
        data = field.data
        if isinstance(data, bytes):
            shown: Plain = data.hex()
        elif field.wire_type == _GROUP:
            shown = list(_unknown(data, depth + 1)) if depth < _MAX_GROUPS else "…"
        else:
            shown = int(data)
        yield {"field": field.field_number, "value": shown}
