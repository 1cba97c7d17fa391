# SPDX-License-Identifier: Apache-2.0
"""SQL functions that show a recording's messages as JSON.

========================  ====================================================================
``nri_json(id)``          the request of the event with this id
``nri_json(id, 'reply')`` its reply
``nri_object(id)``        an object: a pod or a container
========================  ====================================================================

The JSON is protobuf's, with the field names of the protocol: 64-bit numbers are strings, enums are
names, fields that are not set are left out, and fields that this version does not know too. What
cannot be read as a message comes as ``{"malformed": "<hexadecimal>"}``. Where there is nothing, or
the file is damaged there, the result is NULL; an error never.
"""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING

from google.protobuf.json_format import Error as JsonError
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import DecodeError, Message

from nri_scope._gen.nri.api_pb2 import Container, PodSandbox
from nri_scope.errors import RecordingError
from nri_scope.nri.methods import METHODS
from nri_scope.recorder.content import Kind

if TYPE_CHECKING:
    from nri_scope.recorder.reader import Recording

_KINDS: dict[int, type[Message]] = {Kind.POD: PodSandbox, Kind.CONTAINER: Container}


def register(connection: sqlite3.Connection, recording: Recording) -> None:
    """Give a connection these functions, about ``recording``."""

    def nri_json(event_id: object, part: object = "request") -> str | None:
        if type(event_id) is not int:
            return None
        try:
            event = recording.event(event_id)
            if event is None or part not in ("request", "reply"):
                return None
            known = None if event.mark else METHODS.get(event.method)
            if part == "request":
                return _json(known.request if known else None, recording.request(event_id))
            return _json(known.reply if known else None, recording.reply(event_id))
        except RecordingError:
            return None

    def nri_object(object_id: object) -> str | None:
        if type(object_id) is not int:
            return None
        try:
            kind, content = recording.object(object_id)
        except RecordingError:
            return None
        return _json(_KINDS.get(kind), content)

    connection.create_function("nri_json", 1, nri_json)
    connection.create_function("nri_json", 2, nri_json)
    connection.create_function("nri_object", 1, nri_object)


def message_json(message: Message) -> str:
    """A message as one line of JSON. Raises ValueError where it has no JSON."""
    try:
        return MessageToJson(
            message, preserving_proto_field_name=True, indent=None, ensure_ascii=False
        )
    except (JsonError, RecursionError) as error:
        raise ValueError(str(error)) from error


def _json(kind: type[Message] | None, content: bytes) -> str | None:
    if kind is not None:
        try:
            return message_json(kind.FromString(content))
        except (DecodeError, ValueError):
            pass
    return json.dumps({"malformed": content.hex()})
