# SPDX-License-Identifier: Apache-2.0
"""A listener to two peers' conversation, which does not take part in it.

A `Connection` is one of the peers: it enforces rules and answers. Here no rules are enforced, as
the peers have to handle each other's errors; even messages without context, such as an answer to an
unheard call, are reported.
"""

from __future__ import annotations

from typing import NamedTuple

from google.protobuf.message import DecodeError

from nri_scope._gen.ttrpc.ttrpc_pb2 import Request, Response
from nri_scope.errors import RemoteProtocolError

from .limits import Limits
from .mux import MuxReader
from .status import Code
from .ttrpc import Message, MessageReader, MessageType

_WANTED = (MessageType.REQUEST, MessageType.RESPONSE)


class RequestHeard(NamedTuple):
    """One peer called the other."""

    conn_id: int
    stream_id: int
    service: str
    method: str
    payload: bytes
    timeout_ns: int
    """How long the caller waits, in nanoseconds; 0 if not sent."""
    metadata: tuple[tuple[str, str], ...]


class ResponseHeard(NamedTuple):
    """One peer answered. ``payload`` is empty when ``code`` is not 0."""

    conn_id: int
    stream_id: int
    code: int
    message: str
    payload: bytes


class NotUnderstood(NamedTuple):
    """A message that is skipped; later messages are reported again."""

    conn_id: int
    stream_id: int
    words: str


class HearingEnded(NamedTuple):
    """Later bytes of this direction cannot be decoded. Always its last event."""

    offset: int
    """Minimum number of bytes of this direction that came before the unreadable ones."""
    error: RemoteProtocolError


Heard = RequestHeard | ResponseHeard | NotUnderstood | HearingEnded


class Hearing:
    """One direction of a socket: feed it the passing bytes, split in any way.

    ``conn_ids`` are the mux ids to listen to; frames for others are ignored, as by peers. Holds at
    most one message of each, and never allocates sizes that a peer merely declares. Never raises
    for received bytes.
    """

    __slots__ = ("_ended", "_limits", "_mux", "_offset", "_readers")

    def __init__(self, conn_ids: tuple[int, ...], limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._mux = MuxReader(self._limits)
        self._readers = {conn_id: MessageReader(_WANTED, self._limits) for conn_id in conn_ids}
        self._offset = 0
        self._ended = False

    @property
    def in_message(self) -> bool:
        """Whether a message has begun and is incomplete."""
        return self._mux.in_frame or any(one.in_message for one in self._readers.values())

    def feed(self, data: bytes) -> list[Heard]:
        """Return the messages that ``data`` completes, in order."""
        heard: list[Heard] = []
        if self._ended:
            return heard
        pieces, error = self._mux.feed(data)
        for conn_id, _, piece in pieces:
            reader = self._readers.get(conn_id)
            if reader is not None:
                for message in reader.feed(piece):
                    heard.append(self._understood(conn_id, message))
        if error is not None:
            self._ended = True
            heard.append(HearingEnded(self._offset, error))
        self._offset += len(data)
        return heard

    def _understood(self, conn_id: int, message: Message) -> Heard:
        stream_id, kind, _, length, data = message
        if data is None:
            if kind in _WANTED:
                words = f"message of {length} bytes; the limit is {self._limits.message_data}"
            else:
                words = f"message of type {kind} with {length} bytes"
            return NotUnderstood(conn_id, stream_id, words)
        try:
            if kind == MessageType.RESPONSE:
                return _response(conn_id, stream_id, data)
            request = Request.FromString(data)
        except DecodeError as error:
            name = MessageType(kind).name.lower()
            return NotUnderstood(conn_id, stream_id, f"{name} cannot be decoded: {error}")
        metadata = request.metadata
        return RequestHeard(
            conn_id,
            stream_id,
            request.service,
            request.method,
            request.payload,
            request.timeout_nano,
            tuple((pair.key, pair.value) for pair in metadata) if metadata else (),
        )


def _response(conn_id: int, stream_id: int, data: bytes) -> ResponseHeard:
    if not data:
        # The content of nearly every reply.
        return ResponseHeard(conn_id, stream_id, Code.OK, "", b"")
    response = Response.FromString(data)
    status = response.status
    code = status.code
    return ResponseHeard(
        conn_id, stream_id, code, status.message, b"" if code else response.payload
    )
