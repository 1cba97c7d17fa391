# SPDX-License-Identifier: Apache-2.0
"""SQL functions that return a recording's messages as JSON."""

from __future__ import annotations

import json
import sqlite3
from typing import Protocol

from google.protobuf.message import Message

from nri_scope._gen.nri.api_pb2 import Container, PodSandbox
from nri_scope.errors import RecordingError
from nri_scope.events import Event
from nri_scope.nri.plain import plain_bytes

from .blobs import ObjectKind
from .event_messages import reply_of, request_of

FUNCTIONS = {
    "nri_json(event.id)": "the request of an event",
    "nri_json(event.id, 'reply')": "its reply",
    "nri_object(object.id)": "a pod or a container",
}
"""Functions that `register` adds, with their results, for the documentation."""

OBJECT_MESSAGES: dict[int, type[Message]] = {
    ObjectKind.POD: PodSandbox,
    ObjectKind.CONTAINER: Container,
}
"""Classes of the messages in objects, by `ObjectKind`."""


class Messages(Protocol):
    """Source of the messages. Its methods raise RecordingError."""

    def event(self, event_id: int, /) -> Event | None:
        """Return an event, or None."""
        ...

    def request(self, event_id: int, /) -> bytes:
        """Return the request of an event."""
        ...

    def reply(self, event_id: int, /) -> bytes:
        """Return the payload of an event's reply."""
        ...

    def object(self, object_id: int, /) -> tuple[int, bytes]:
        """Return the kind and content of an object."""
        ...


def register(connection: sqlite3.Connection, recording: Messages) -> None:
    """Register the `FUNCTIONS` for ``recording`` on a connection.

    They return JSON with the protocol's field names, enum values by name, and unknown fields under
    "unknown_fields". A malformed message becomes ``{"malformed": "<hexadecimal>"}``; a message of
    an unknown method, service or kind ``{"raw": "<hexadecimal>"}``. The result is NULL for NULL and
    for a missing or damaged row. An argument of the wrong type is an error.
    """

    def nri_json(event_id: object, part: object = "request") -> str | None:
        if event_id is None or part is None:
            return None
        if type(event_id) is not int:
            raise TypeError("not an event's id")
        if part not in ("request", "reply"):
            raise ValueError("neither 'request' nor 'reply'")
        try:
            event = recording.event(event_id)
            if event is None:
                return None
            if part == "request":
                document = request_of(event, recording.request(event_id))
            else:
                document = reply_of(event, recording.reply(event_id))
            return json.dumps(document, ensure_ascii=False)
        except RecordingError:
            return None

    def nri_object(object_id: object) -> str | None:
        if object_id is None:
            return None
        if type(object_id) is not int:
            raise TypeError("not an object's id")
        try:
            kind, content = recording.object(object_id)
        except RecordingError:
            return None
        return json.dumps(plain_bytes(OBJECT_MESSAGES.get(kind), content), ensure_ascii=False)

    connection.create_function("nri_json", 1, nri_json)
    connection.create_function("nri_json", 2, nri_json)
    connection.create_function("nri_object", 1, nri_object)
