# SPDX-License-Identifier: Apache-2.0
"""Events of a `Connection`. Named tuples, because one is made for every message."""

from __future__ import annotations

from typing import NamedTuple

from nri_scope.errors import RemoteProtocolError


class RequestReceived(NamedTuple):
    """The peer calls us. Answer with `Connection.send_response` or `send_error`."""

    stream_id: int
    service: str
    method: str
    payload: bytes
    timeout_ns: int
    """How long the peer waits for the answer, in nanoseconds; 0 if not sent."""
    metadata: tuple[tuple[str, str], ...]


class ResponseReceived(NamedTuple):
    """The peer answered our call. ``payload`` is empty when ``code`` is not 0."""

    stream_id: int
    code: int
    message: str
    payload: bytes


class FrameIgnored(NamedTuple):
    """A mux frame for a connection id that was never opened; Go ignores such frames too."""

    conn_id: int
    length: int


class MessageIgnored(NamedTuple):
    """A ttRPC message that has no meaning here: an unknown type, or a response to no open call."""

    conn_id: int
    stream_id: int
    type: int
    flags: int
    length: int


class MessageRejected(NamedTuple):
    """A request that breaks the rules. The answer, an error status, has already been queued."""

    conn_id: int
    stream_id: int
    code: int
    message: str


class ConnectionFailed(NamedTuple):
    """The peer broke the protocol irreparably. Always the last event."""

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
