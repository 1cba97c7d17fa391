# SPDX-License-Identifier: Apache-2.0
"""The CRI's answers in a recording: ContainerStatus, as events of a ``cri`` session.

The request is the CRI's own message. The reply is the JSON text under ``info`` of a verbose answer,
with the OCI spec that was actually used in ``runtimeSpec``, and ``status`` if the container failed
to start.
"""

from __future__ import annotations

import json
from typing import cast

from nri_scope.events import CONTAINER_STATUS, Event
from nri_scope.nri.plain import Plain

from .message_parts import field

# ContainerStatusRequest: container_id = 1, verbose = 2.
_CONTAINER_ID = 1
_VERBOSE = b"\x10\x01"
VALUES_MAX = 250_000
"""Maximum number of members of all objects and lists. Long seccomp profiles have thousands."""
_ID_MAX = 127
"""Maximum bytes of an id: as many as a length of one byte allows. Runtimes' own ids have 64."""


def status_request(container_id: str) -> bytes:
    """Build a verbose ContainerStatusRequest. Raises ValueError for impossible ids."""
    content = container_id.encode()
    if not 0 < len(content) <= _ID_MAX:
        raise ValueError("no container has such an id")
    return field(_CONTAINER_ID, content) + _VERBOSE


def requested_container_id(request: bytes) -> str | None:
    """Return the container id in a `status_request`; None for any other bytes."""
    content = request[2:].removesuffix(_VERBOSE)
    try:
        container_id = content.decode()
        return container_id if status_request(container_id) == request else None
    except ValueError:
        return None


def is_container_status(event: Event) -> bool:
    """Return whether an event is an answer of the CRI."""
    return event.method == CONTAINER_STATUS and not event.mark


def request_as_plain(request: bytes) -> Plain:
    """Decode a request for display; None if the bytes are malformed."""
    container_id = requested_container_id(request)
    return None if container_id is None else {"container_id": container_id, "verbose": True}


def reply_as_plain(reply: bytes) -> Plain:
    """Decode a reply for display; None if it is not a JSON object, or larger than any runtime's."""
    # Each member takes up to a hundred bytes once parsed, and one or two here.
    if sum(map(reply.count, (b",", b"[", b"{"))) > VALUES_MAX:
        return None
    try:
        read = cast(Plain, json.loads(reply, parse_constant=_refuse)) if reply else {}
    except (ValueError, RecursionError):
        return None
    return read if isinstance(read, dict) else None


def _refuse(constant: str) -> Plain:
    # Python accepts NaN and similar constants, which JSON does not have.
    raise ValueError(constant)
