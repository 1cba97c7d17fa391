# SPDX-License-Identifier: Apache-2.0
"""Kinds of fields in NRI's messages, which determine how messages are shown and written as text."""

from __future__ import annotations

from typing import cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

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
    return {one.name: cast("FieldDescriptor", one) for one in kind.DESCRIPTOR.fields}


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
