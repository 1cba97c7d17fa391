# SPDX-License-Identifier: Apache-2.0
"""The messages of events: NRI requests from stored parts, CRI calls, both as plain values and, by
SQL functions, as JSON.

ContainerStatus, a CRI call, is an event of a ``cri`` session. The request is the CRI message; the
reply is described in `cri_answers`.

The event's time is that of the question, and its duration ends after the files were read.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from typing import Protocol

from google.protobuf.message import DecodeError, Message

from nri_scope._gen.nri.api_pb2 import Container, PodSandbox
from nri_scope.errors import RecordingError
from nri_scope.events import CONTAINER_STATUS, Event
from nri_scope.nri.element_limits import MAX_IN_SYNCHRONIZE, bounded, varint
from nri_scope.nri.events import METHODS, SYNCHRONIZE
from nri_scope.nri.plain import MALFORMED_KEY, Plain, json_or_malformed, plain_bytes
from nri_scope.nri.request_subject import kind_of_reply, kind_of_request
from nri_scope.nri.v01 import is_invocation

from ..file.blobs import ObjectKind

# ContainerStatusRequest: container_id = 1, verbose = 2.
_CONTAINER_ID = 1
_VERBOSE = b"\x10\x01"
_ID_MAX = 127
"""Maximum bytes of an id, so that its length is encoded in one byte. Runtimes use 64."""

_LENGTH_DELIMITED = 2
_SYNC_PODS = METHODS[SYNCHRONIZE].request.DESCRIPTOR.fields_by_name["pods"].number
_SYNC_CONTAINERS = METHODS[SYNCHRONIZE].request.DESCRIPTOR.fields_by_name["containers"].number


def field(number: int, content: bytes) -> bytes:
    """Return an encoded length-delimited field: tag, length and content."""
    return varint(number << 3 | _LENGTH_DELIMITED) + varint(len(content)) + content


def request(method: str, base: bytes, pod: bytes | None, container: bytes | None) -> bytes:
    """Return a request built from its parts, serialised deterministically.

    None means that a part was absent, b"" that it was present and empty. A message that is too
    large is truncated (`element_limits.bounded`). Raises ValueError if the parts do not form such
    a request.
    """
    parts = [base]
    for name, content in (("pod", pod), ("container", container)):
        if content is not None:
            parts.append(field(_number(method, name), content))
    return _parsed(method, parts)


def synchronize(base: bytes, pods: Iterable[bytes], containers: Iterable[bytes]) -> bytes:
    """Return a Synchronize request built from its parts, serialised deterministically."""
    parts = [base]
    parts += [field(_SYNC_PODS, pod) for pod in pods]
    parts += [field(_SYNC_CONTAINERS, container) for container in containers]
    return _parsed(SYNCHRONIZE, parts)


def _number(method: str, name: str) -> int:
    rpc = METHODS.get(method)
    described = rpc.request.DESCRIPTOR.fields_by_name.get(name) if rpc else None
    if described is None:
        raise ValueError(f"{method} has no {name}")
    return described.number


def _parsed(method: str, parts: list[bytes]) -> bytes:
    # Protobuf merges concatenated messages. Parsing puts the fields in order and detects damage.
    joined = b"".join(parts)
    rpc = METHODS.get(method)
    if rpc is None:
        raise ValueError(f"{method} is not a known method")
    try:
        message = rpc.request.FromString(bounded(rpc.request, joined, MAX_IN_SYNCHRONIZE))
        return message.SerializeToString(deterministic=True)
    except DecodeError as error:
        raise ValueError(f"no request of {method}") from error


def status_request(container_id: str) -> bytes:
    """Return a verbose ContainerStatusRequest. Raises ValueError for an empty or overlong id."""
    content = container_id.encode()
    if not 0 < len(content) <= _ID_MAX:
        raise ValueError("no container has such an id")
    return field(_CONTAINER_ID, content) + _VERBOSE


def requested_container_id(request: bytes) -> str | None:
    """Return the container id in a `status_request`; None for other bytes."""
    content = request[2:].removesuffix(_VERBOSE)
    try:
        container_id = content.decode()
        return container_id if status_request(container_id) == request else None
    except ValueError:
        return None


def is_container_status(event: Event) -> bool:
    """Return whether an event is a well-formed ContainerStatus call."""
    return event.method == CONTAINER_STATUS and not event.mark


def request_as_plain(request: bytes) -> Plain:
    """Decode a request for display; None if the bytes are malformed."""
    container_id = requested_container_id(request)
    return None if container_id is None else {"container_id": container_id, "verbose": True}


def has_parts(event: Event) -> bool:
    """Return whether an event's request is a protobuf message, of which parts are stored apart."""
    return not (event.mark or is_container_status(event) or is_invocation(event.method, event.mark))


def request_of(event: Event, content: bytes) -> Plain:
    """Return an event's request in readable form."""
    if is_container_status(event):
        read = request_as_plain(content)
        return {MALFORMED_KEY: content.hex()} if read is None else read
    if is_invocation(event.method, event.mark):
        return json_or_malformed(content)
    return plain_bytes(kind_of_request(event.method, event.mark), content)


def reply_of(event: Event, content: bytes) -> Plain:
    """Return an event's reply in readable form."""
    if is_container_status(event) or is_invocation(event.method, event.mark):
        return json_or_malformed(content)
    return plain_bytes(kind_of_reply(event.method, event.mark), content)


# -- SQL functions --------------------------------------------------------------------------------

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
