# SPDX-License-Identifier: Apache-2.0
"""Convert the messages of events to plain values: of NRI, of the CRI, and of NRI 0.1."""

from __future__ import annotations

from nri_scope.events import Event
from nri_scope.nri.plain import MALFORMED, Plain, json_or_malformed, plain_bytes
from nri_scope.nri.request_subject import kind_of_reply, kind_of_request
from nri_scope.nri.v01 import is_invocation

from .cri_answers import is_container_status, request_as_plain


def has_parts(event: Event) -> bool:
    """Return whether an event's request is a protobuf message, of which parts are stored apart."""
    return not (event.mark or is_container_status(event) or is_invocation(event.method, event.mark))


def request_of(event: Event, content: bytes) -> Plain:
    """Return an event's request in readable form."""
    if is_container_status(event):
        read = request_as_plain(content)
        return {MALFORMED: content.hex()} if read is None else read
    if is_invocation(event.method, event.mark):
        return json_or_malformed(content)
    return plain_bytes(kind_of_request(event.method, event.mark), content)


def reply_of(event: Event, content: bytes) -> Plain:
    """Return an event's reply in readable form."""
    if is_container_status(event) or is_invocation(event.method, event.mark):
        return json_or_malformed(content)
    return plain_bytes(kind_of_reply(event.method, event.mark), content)
