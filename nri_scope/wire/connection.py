# SPDX-License-Identifier: Apache-2.0
"""State machine of one socket: a mux with a ttRPC server on one id and a client on another.

The server's rules for requests (odd, strictly increasing stream ids; which requests are rejected
with which status, and which are only ignored) are those of containerd/ttrpc's server.go.

Its events are named tuples because one is created for every message.

`PassiveDecoder` decodes the traffic between two peers without taking part in it. It enforces no
rules, as the peers have to handle each other's errors; even messages without context, such as the
response to a request that was not observed, are reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from google.protobuf.message import DecodeError

from nri_scope._gen.ttrpc.ttrpc_pb2 import KeyValue, Request, Response
from nri_scope.errors import LocalProtocolError, RemoteProtocolError

from .ttrpc import (
    Code,
    Limits,
    Message,
    MessageReader,
    MessageType,
    MuxReader,
    frame_message,
    size_words,
)


class RequestReceived(NamedTuple):
    """A request from a peer. Reply with `Connection.send_response` or `send_error`."""

    stream_id: int
    service: str
    method: str
    payload: bytes
    timeout_ns: int
    """The peer's timeout for the reply, in nanoseconds; 0 if not sent."""
    metadata: tuple[tuple[str, str], ...]
    conn_id: int = 0
    """The mux id; 0 for that of the `Connection`."""


def request_received(stream_id: int, request: Request, conn_id: int = 0) -> RequestReceived:
    """Return the event of a decoded request."""
    metadata = request.metadata
    return RequestReceived(
        stream_id,
        request.service,
        request.method,
        request.payload,
        request.timeout_nano,
        tuple((pair.key, pair.value) for pair in metadata) if metadata else (),
        conn_id,
    )


class ResponseReceived(NamedTuple):
    """A peer's response to a request. ``payload`` is empty if ``code`` is not 0."""

    stream_id: int
    code: int
    message: str
    payload: bytes
    conn_id: int = 0
    """The mux id; 0 for that of the `Connection`."""


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


_LAST_STREAM_ID = 0xFFFFFFFF


class Connection:
    """Both directions of one socket, for either end of it.

    ``serves`` is the mux id on which the peer calls us, ``calls`` the id on which we call the peer.
    Errors of the peer are never raised; they become events, a fatal one `ConnectionFailed`. Errors
    of the caller raise `LocalProtocolError`.
    """

    def __init__(self, *, serves: int, calls: int, limits: Limits | None = None) -> None:
        if serves == calls:
            raise LocalProtocolError(f"mux id {serves} cannot both serve and call")
        self._limits = limits or Limits()
        self._serves = serves
        self._calls = calls
        self._mux = MuxReader(self._limits)
        self._server = MessageReader((MessageType.REQUEST,), self._limits)
        self._client = MessageReader((MessageType.RESPONSE,), self._limits)
        self._ended = False
        self._events: list[WireEvent] = []
        self._output: list[bytes] = []
        self._last_request_id = 0
        """Highest stream id the peer has used; ids must increase."""
        self._unanswered: set[int] = set()
        self._next_call_id = 1
        self._pending_calls: set[int] = set()

    # -- receiving --------------------------------------------------------------------------

    def receive_data(self, data: bytes) -> None:
        """Process the next bytes of the socket, split in any way."""
        if self._ended:
            return
        pieces, error = self._mux.feed(data)
        for conn_id, length, piece in pieces:
            if conn_id == self._serves:
                for message in self._server.feed(piece):
                    self._on_server_message(message)
            elif conn_id == self._calls:
                for message in self._client.feed(piece):
                    failure = self._on_client_message(message)
                    if failure is not None:
                        self._fail(failure)
                        return
            elif length >= 0:
                self._events.append(FrameIgnored(conn_id, length))
        if error is not None:
            problem = self._server.oversized
            self._fail(RemoteProtocolError(problem) if problem else error)

    def _fail(self, error: RemoteProtocolError) -> None:
        self._ended = True
        self._events.append(ConnectionFailed(error))

    def receive_eof(self) -> None:
        """Record the end of the socket's byte stream."""
        if not self._ended:
            self._ended = True
            self._events.append(
                PeerClosed(self._mux.in_frame or self._server.in_message or self._client.in_message)
            )

    def events_received(self) -> list[WireEvent]:
        """Return all events since the last call, in order."""
        events, self._events = self._events, []
        return events

    def _on_server_message(self, message: Message) -> None:
        stream_id, kind, flags, length, data, head = message
        if length > (limit := self._limits.message_data):
            self._reject(stream_id, Code.RESOURCE_EXHAUSTED, size_words(head, length, limit))
        elif stream_id % 2 != 1:
            self._reject(stream_id, Code.INVALID_ARGUMENT, "stream id must be odd")
        elif kind == MessageType.DATA:
            # NRI has no streaming calls, so no stream can be open for data.
            self._reject(stream_id, Code.INVALID_ARGUMENT, "stream is not active")
        elif kind != MessageType.REQUEST or data is None:
            self._events.append(MessageIgnored(self._serves, stream_id, kind, flags, length))
        elif stream_id <= self._last_request_id:
            self._reject(
                stream_id, Code.INVALID_ARGUMENT, "stream id must be higher than all earlier ones"
            )
        else:
            self._last_request_id = stream_id
            self._on_request(stream_id, data)

    def _on_request(self, stream_id: int, data: bytes) -> None:
        try:
            request = Request.FromString(data)
        except DecodeError as error:
            self._reject(stream_id, Code.INVALID_ARGUMENT, f"request cannot be decoded: {error}")
            return
        if len(self._unanswered) >= self._limits.requests_in_flight:
            self._reject(
                stream_id,
                Code.RESOURCE_EXHAUSTED,
                f"{len(self._unanswered)} requests are unanswered already",
            )
            return
        self._unanswered.add(stream_id)
        self._events.append(request_received(stream_id, request))

    def _reject(self, stream_id: int, code: Code, text: str) -> None:
        # Sent with the peer's stream id, even an invalid one, so that the peer can match it.
        self._send_status(stream_id, code, text)
        self._events.append(MessageRejected(self._serves, stream_id, code, text))

    def _on_client_message(self, message: Message) -> RemoteProtocolError | None:
        stream_id, kind, flags, length, data, _ = message
        if kind != MessageType.RESPONSE or stream_id not in self._pending_calls:
            self._events.append(MessageIgnored(self._calls, stream_id, kind, flags, length))
            return None
        self._pending_calls.remove(stream_id)
        if data is None:
            self._events.append(
                ResponseReceived(
                    stream_id,
                    Code.RESOURCE_EXHAUSTED,
                    f"response of {length} bytes exceeds the limit of {self._limits.message_data}",
                    b"",
                )
            )
            return None
        try:
            response = Response.FromString(data)
        except DecodeError as error:
            # If it were ignored, the call would wait forever; and later messages may be wrong, too.
            return RemoteProtocolError(f"response cannot be decoded: {error}")
        status = response.status
        self._events.append(
            ResponseReceived(
                stream_id,
                status.code,
                status.message,
                b"" if status.code else response.payload,
            )
        )
        return None

    # -- sending ----------------------------------------------------------------------------

    def data_to_send(self) -> list[bytes]:
        """Return the bytes queued for the socket since the last call, in order."""
        output, self._output = self._output, []
        return output

    def send_request(
        self,
        service: str,
        method: str,
        payload: bytes,
        *,
        timeout_ns: int = 0,
        metadata: Sequence[tuple[str, str]] = (),
    ) -> int:
        """Queue a request; return the stream id that its `ResponseReceived` will have."""
        if self._ended:
            raise LocalProtocolError(f"{method}: the connection has ended")
        if self._next_call_id > _LAST_STREAM_ID:
            raise LocalProtocolError(f"{method}: all stream ids of this connection are used up")
        request = Request(
            service=service,
            method=method,
            payload=payload,
            timeout_nano=timeout_ns,
            metadata=[KeyValue(key=key, value=value) for key, value in metadata],
        )
        stream_id = self._next_call_id
        self._send(self._calls, stream_id, MessageType.REQUEST, request.SerializeToString())
        self._next_call_id += 2
        self._pending_calls.add(stream_id)
        return stream_id

    def forget_request(self, stream_id: int) -> None:
        """Stop waiting for a response; if it still arrives, it becomes `MessageIgnored`."""
        self._pending_calls.discard(stream_id)

    def send_response(self, stream_id: int, payload: bytes = b"") -> None:
        """Answer a request with status OK."""
        self._check_unanswered(stream_id)
        # Without a payload, the message is empty, exactly like an empty reply of a Go peer.
        data = Response(payload=payload).SerializeToString() if payload else b""
        self._send(self._serves, stream_id, MessageType.RESPONSE, data)
        self._unanswered.discard(stream_id)

    def send_error(self, stream_id: int, code: int, message: str) -> None:
        """Answer a request with an error status and no payload."""
        if code == Code.OK:
            raise LocalProtocolError("an error status needs a code other than 0")
        self._check_unanswered(stream_id)
        self._send_status(stream_id, code, message)
        self._unanswered.discard(stream_id)

    def _check_unanswered(self, stream_id: int) -> None:
        if stream_id not in self._unanswered:
            raise LocalProtocolError(f"stream {stream_id} has no unanswered request")

    def _send_status(self, stream_id: int, code: int, message: str) -> None:
        response = Response()
        response.status.code = code
        response.status.message = message
        self._send(self._serves, stream_id, MessageType.RESPONSE, response.SerializeToString())

    def _send(self, conn_id: int, stream_id: int, kind: MessageType, data: bytes) -> None:
        if len(data) > self._limits.message_data:
            raise LocalProtocolError(
                f"message of {len(data)} bytes exceeds the limit of {self._limits.message_data}"
            )
        self._output += frame_message(conn_id, stream_id, kind, 0, data, self._limits.safe_frame)


FRAME_MAX = 64 << 20
"""Maximum payload of a frame: NRI before 0.7 sends a Synchronize of any size, which only its
receiver refuses."""
_TYPES = (MessageType.REQUEST, MessageType.RESPONSE)


class MessageSkipped(NamedTuple):
    """A message that could not be decoded; later messages are still reported."""

    conn_id: int
    stream_id: int
    reason: str
    is_oversized: bool = False
    """Whether only its size is wrong."""


class DecodingEnded(NamedTuple):
    """An error after which this direction cannot be decoded. Always its last event."""

    offset: int
    """Number of bytes of this direction received before the chunk with the error."""
    error: RemoteProtocolError


PassiveEvent = RequestReceived | ResponseReceived | MessageSkipped | DecodingEnded


class PassiveDecoder:
    """Decoder for one direction of a socket, whose bytes may be split in any way.

    ``conn_ids`` are the mux ids to decode; frames for others are ignored, as by peers. Buffers at
    most one message for each id, and never allocates a size only because a peer declares it. Never
    raises for received bytes.
    """

    __slots__ = ("_ended", "_limits", "_mux", "_offset", "_readers")

    def __init__(self, conn_ids: tuple[int, ...], limits: Limits | None = None) -> None:
        self._limits = limits or Limits(frame_payload=FRAME_MAX)
        self._mux = MuxReader(self._limits)
        self._readers = {conn_id: MessageReader(_TYPES, self._limits) for conn_id in conn_ids}
        self._offset = 0
        self._ended = False

    @property
    def in_message(self) -> bool:
        """Whether a frame or message is incomplete."""
        return self._mux.in_frame or any(reader.in_message for reader in self._readers.values())

    def feed(self, data: bytes) -> list[PassiveEvent]:
        """Return the events for the messages that ``data`` completes, in order."""
        events: list[PassiveEvent] = []
        if self._ended:
            return events
        pieces, error = self._mux.feed(data)
        for conn_id, _, piece in pieces:
            reader = self._readers.get(conn_id)
            if reader is not None:
                for message in reader.feed(piece):
                    events.append(self._decode(conn_id, message))
        if error is not None:
            self._ended = True
            events.append(DecodingEnded(self._offset, error))
        self._offset += len(data)
        return events

    def _decode(self, conn_id: int, message: Message) -> PassiveEvent:
        stream_id, kind, _, length, data, head = message
        if data is None:
            if kind in _TYPES:
                reason = size_words(head, length, self._limits.message_data)
            else:
                reason = f"message of type {kind} with {length} bytes"
            return MessageSkipped(conn_id, stream_id, reason, kind in _TYPES)
        try:
            if kind == MessageType.RESPONSE:
                return _response(conn_id, stream_id, data)
            request = Request.FromString(data)
        except DecodeError as error:
            name = MessageType(kind).name.lower()
            return MessageSkipped(conn_id, stream_id, f"{name} cannot be decoded: {error}")
        return request_received(stream_id, request, conn_id)


def _response(conn_id: int, stream_id: int, data: bytes) -> ResponseReceived:
    if not data:
        # Nearly every response is empty.
        return ResponseReceived(stream_id, Code.OK, "", b"", conn_id)
    response = Response.FromString(data)
    status = response.status
    payload = b"" if status.code else response.payload
    return ResponseReceived(stream_id, status.code, status.message, payload, conn_id)
