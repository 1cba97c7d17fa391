# SPDX-License-Identifier: Apache-2.0
"""Encode and decode ContainerStatus, a CRI call, as an event of a ``cri`` session.

The request is the CRI message. The reply is the JSON text from ``info`` of a verbose reply, with
the OCI spec that the runtime used in ``runtimeSpec``, and ``status`` if the container failed to
start. A recorder on the container's node adds ``cgroup``, the limits in its cgroups by OCI path,
and ``bundleSpec``, the differences of its config.json from ``runtimeSpec`` (`specs.patch_of`).
For a container that the runtime does not know, the reply is `NOT_FOUND`.

The event's time is that of the question, and its duration ends after the files were read.
"""

from __future__ import annotations

import json

from nri_scope.events import CONTAINER_STATUS, Event
from nri_scope.nri.plain import Plain

from .message_parts import field

CREATION_SECONDS = 10.0
"""Time after a creation's chain from which `NOT_FOUND` shows that the creation failed. Until the
end of a creation, runtimes do not know the container."""
NOT_FOUND = '{"notFound": true}'
"""Reply for a container that the runtime does not know."""
# ContainerStatusRequest: container_id = 1, verbose = 2.
_CONTAINER_ID = 1
_VERBOSE = b"\x10\x01"
_ID_MAX = 127
"""Maximum bytes of an id, so that its length is encoded in one byte. Runtimes use 64."""


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


def is_not_found(reply: bytes) -> bool:
    """Return whether an answer says that the runtime does not know the container."""
    try:
        answer = json.loads(reply)
    except (ValueError, RecursionError):
        return False
    return isinstance(answer, dict) and answer.get("notFound") is True


def is_container_status(event: Event) -> bool:
    """Return whether an event is a well-formed ContainerStatus call."""
    return event.method == CONTAINER_STATUS and not event.mark


def request_as_plain(request: bytes) -> Plain:
    """Decode a request for display; None if the bytes are malformed."""
    container_id = requested_container_id(request)
    return None if container_id is None else {"container_id": container_id, "verbose": True}
