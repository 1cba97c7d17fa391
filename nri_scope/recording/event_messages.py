# SPDX-License-Identifier: Apache-2.0
"""The messages of events: NRI requests from stored parts, CRI calls, and both as plain values.

ContainerStatus, a CRI call, is an event of a ``cri`` session. The request is the CRI message; the
reply is described in `cri_answers`.

The event's time is that of the question, and its duration ends after the files were read.
"""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf.message import DecodeError

from nri_scope.events import CONTAINER_STATUS, Event
from nri_scope.nri.element_limits import MAX_IN_SYNCHRONIZE, bounded, varint
from nri_scope.nri.events import METHODS, SYNCHRONIZE
from nri_scope.nri.plain import MALFORMED_KEY, Plain, json_or_malformed, plain_bytes
from nri_scope.nri.request_subject import kind_of_reply, kind_of_request
from nri_scope.nri.v01 import is_invocation

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
