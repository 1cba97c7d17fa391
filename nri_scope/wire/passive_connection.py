# SPDX-License-Identifier: Apache-2.0
"""Decode the traffic between two peers without taking part in it.

A `Connection` is one of the peers: it enforces rules and sends responses. Here no rules are
enforced, as the peers have to handle each other's errors; even messages without context, such as
the response to a request that was not observed, are reported.
"""

from __future__ import annotations

from typing import NamedTuple

from google.protobuf.message import DecodeError

from nri_scope._gen.ttrpc.ttrpc_pb2 import Request, Response
from nri_scope.errors import RemoteProtocolError

from .connection import RequestReceived, ResponseReceived, request_received
from .ttrpc import Code, Limits, Message, MessageReader, MessageType, MuxReader, size_words

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
