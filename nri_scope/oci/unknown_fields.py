# SPDX-License-Identifier: Apache-2.0
"""Preserve raw fields that are missing in nri-scope's copy of the API, under their numbers."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Protocol

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from nri_scope.specs.json_spec import Json, Spec, copy_array, copy_object


class _Field(Protocol):
    field_number: int
    wire_type: int
    data: object


_WIRE_TYPES = {0: "varint", 1: "fixed64", 2: "bytes", 3: "group", 5: "fixed32"}


def unknown_fields(message: Message, name: str) -> Spec:
    """Return the unknown fields of `message` and its members, as ``{"NAME.linux.23": ["varint
    7"]}``.

    `name` is the first part of each key. Each value starts with its wire type, as its real type is
    unknown; bytes are Base64. A repeated field has several values.
    """
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    if known.ByteSize() == message.ByteSize():
        return {}
    found: dict[str, list[Json]] = {}
    for key, value in _walk(message, name):
        found.setdefault(key, []).append(value)
    return dict(found)


def keep_unknown(spec: Spec, found: Spec) -> None:
    """Add the result of `unknown_fields` to ``/nri/unknown``. `spec` must be a copy."""
    if found:
        unknown = copy_object(copy_object(spec, "nri"), "unknown")
        for key, values in found.items():
            if isinstance(values, list):
                copy_array(unknown, key).extend(values)


def _walk(message: Message, path: str) -> Iterator[tuple[str, Json]]:
    for field in _fields(UnknownFieldSet(message)):
        yield f"{path}.{field.field_number}", _raw(field.wire_type, field.data)
    for descriptor, value in message.ListFields():
        name = f"{path}.{descriptor.name}"
        kind = descriptor.message_type
        if kind is None:
            continue
        if kind.GetOptions().map_entry:
            if kind.fields_by_name["value"].message_type is not None:
                for key in sorted(value):
                    yield from _walk(value[key], f"{name}[{key}]")
        elif isinstance(value, Message):
            yield from _walk(value, name)
        else:
            for position, item in enumerate(value):
                yield from _walk(item, f"{name}[{position}]")


def _fields(fields: UnknownFieldSet) -> Iterator[_Field]:
    return (fields[position] for position in range(len(fields)))


def _raw(wire_type: int, data: object) -> str:
    if isinstance(data, bytes):
        text = base64.b64encode(data).decode()
    elif isinstance(data, UnknownFieldSet):
        text = " ".join(f"{f.field_number}={_raw(f.wire_type, f.data)}" for f in _fields(data))
    else:
        text = str(data)
    return f"{_WIRE_TYPES.get(wire_type, wire_type)} {text}"
