# SPDX-License-Identifier: Apache-2.0
"""Events of a `Connection`. Named tuples are used because one is created for every message."""

from __future__ import annotations

from typing import NamedTuple

from nri_scope.errors import RemoteProtocolError


class RequestReceived(NamedTuple):
    """A request from the peer. Reply with `Connection.send_response` or `send_error`."""

    stream_id: int
    service: str
    method: str
    payload: bytes
    timeout_ns: int
    """The peer's timeout for the reply, in nanoseconds; 0 if not sent."""
    metadata: tuple[tuple[str, str], ...]


class ResponseReceived(NamedTuple):
    """The peer's response to one of our requests. ``payload`` is empty if ``code`` is not 0."""

    stream_id: int
    code: int
    message: str
    payload: bytes


class FrameIgnored(NamedTuple):
    """A mux frame for an unused connection id; Go ignores these frames too."""

    conn_id: int
    length: int


class MessageIgnored(NamedTuple):
    """A ttRPC message of an unknown type, or a response without a pending request."""

    conn_id: int
    stream_id: int
    type: int
    flags: int
    length: int


class MessageRejected(NamedTuple):
    """A request that violates a rule. The response with an error status is already queued."""

    conn_id: int
    stream_id: int
    code: int
    message: str


class ConnectionFailed(NamedTuple):
    """A protocol violation after which the stream cannot be decoded. Always the last event."""

    error: RemoteProtocolError


class PeerClosed(NamedTuple):
    """The end of the byte stream. Always the last event."""

    mid_message: bool
    """Whether the stream ended inside a frame or a message."""


WireEvent = (
    RequestReceived
    | ResponseReceived
    | FrameIgnored
    | MessageIgnored
    | MessageRejected
    | ConnectionFailed
    | PeerClosed
)
