# SPDX-License-Identifier: Apache-2.0
"""Fields of plugins' replies that a runtime ignores although its NRI version has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import NamedTuple, cast

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.merging import Dropped

Reply = api.CreateContainerResponse | api.UpdateContainerResponse | api.StopContainerResponse
"""A reply that may request changes."""


class IgnoredField(NamedTuple):
    """One field that the runtime ignores."""

    field: str
    """Its path in a ContainerAdjustment, and below ``linux.resources`` in a ContainerUpdate."""
    path: str
    """JSON pointer into the OCI spec, as in ``nri.changes``."""
    reason: str


def without(
    ignored: Sequence[IgnoredField], reply: Reply, plugin: str, container_id: str
) -> tuple[Reply, list[Dropped]]:
    """Return a copy of a reply without the ignored fields, and the fields that were removed.

    ``reply`` is from ``plugin``; an adjustment in it is about ``container_id``.
    """
    if not ignored:
        return reply, []
    rest = deepcopy(reply)
    parts: list[tuple[str, Message]] = [(update.container_id, update) for update in rest.update]
    if isinstance(rest, api.CreateContainerResponse) and rest.HasField("adjust"):
        parts.insert(0, (container_id, rest.adjust))
    dropped = []
    for about, part in parts:
        for field in ignored:
            value = _pop_text(part, field.field.split("."))
            if value:
                dropped.append(Dropped(plugin, about, field.path, value, field.reason))
    return (rest, dropped) if dropped else (reply, dropped)


def _pop_text(message: Message, path: list[str]) -> str:
    """Clear the field at ``path``; return its former value as text, "" if it was not set."""
    *parents, name = path
    for parent in parents:
        if parent not in message.DESCRIPTOR.fields_by_name or not message.HasField(parent):
            return ""
        message = cast("Message", getattr(message, parent))
    for descriptor, value in message.ListFields():
        if descriptor.name == name:
            text = _text(value)
            message.ClearField(name)
            return text
    return ""


def _text(value: object) -> str:
    if isinstance(value, api.OptionalString):
        return value.value or '""'
    if isinstance(value, Message):
        return " ".join(str(value).split())
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ", ".join(one.path if isinstance(one, api.Hook) else str(one) for one in value)
    return str(value)
