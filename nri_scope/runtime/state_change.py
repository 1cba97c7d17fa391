# SPDX-License-Identifier: Apache-2.0
"""StateChange, the RPC shared by nine events up to NRI 0.11, and by plugins built for it."""

from __future__ import annotations

from collections.abc import Callable

from google.protobuf.message import DecodeError, Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import LocalProtocolError
from nri_scope.nri.events import Event
from nri_scope.nri.methods import METHODS
from nri_scope.nri.request_subject import container_of, pod_of


def as_state_change(event: Event, request: Message) -> bytes:
    """Return the StateChange for ``request``, the event's own request message."""
    return api.StateChangeEvent(
        event=api.Event.ValueType(event.value),
        pod=pod_of(event.name, request),
        container=container_of(event.name, request),
    ).SerializeToString()


def state_change_of(event: Event, payload: bytes) -> bytes:
    """Return the StateChange for ``payload``, the event's own request as bytes.

    Raises `LocalProtocolError` if it cannot be decoded.
    """
    try:
        request = METHODS[event.name].request.FromString(payload)
    except DecodeError as error:
        raise LocalProtocolError(f"{event.name}: the request cannot be decoded: {error}") from error
    return as_state_change(event, request)


def own_request(kind: Callable[[], Message], change: api.StateChangeEvent) -> Message:
    """Return the content of a StateChange as the event's own request message."""
    request = kind()
    fields = request.DESCRIPTOR.fields_by_name
    for name in ("pod", "container"):
        if name in fields and change.HasField(name):
            getattr(request, name).CopyFrom(getattr(change, name))
    return request
