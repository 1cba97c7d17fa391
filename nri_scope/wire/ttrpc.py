# SPDX-License-Identifier: Apache-2.0
"""ttRPC over a mux: frames, the messages in them, status codes, and limits.

A mux carries several byte streams over one socket. A frame is not a message: it contains the next
bytes of one connection id's stream, and a message can be spread over frames in any way.

Each limit on a size that a peer controls has its reason. All sizes are in bytes.

Metadata may have W3C Trace Context, the runtime's own span of a request. Source:
https://www.w3.org/TR/trace-context/, "Trace Context HTTP Headers Format". containerd sends it with
github.com/containerd/otelttrpc if its tracing is on.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Container, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from nri_scope.end_reasons import over_limit
from nri_scope.errors import RemoteProtocolError

MESSAGE_HEADER_LENGTH = 10
"""Size of ttRPC's header: u32 data length, u32 stream id, u8 type, u8 flags, big endian."""

FRAME_HEADER_LENGTH = 8
"""Size of the mux header: u32 connection id, u32 payload length, big endian."""

MESSAGE_DATA_MAX = 4 << 20
"""ttRPC's own limit for the data of one message (messageLengthMax in containerd/ttrpc)."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one connection. Real peers stay within the defaults."""

    frame_payload: int = MESSAGE_HEADER_LENGTH + MESSAGE_DATA_MAX
    """Maximum payload of a frame. Only a message over the limit needs more; a peer that declares
    far more does not use mux.
    """

    message_data: int = MESSAGE_DATA_MAX
    """Maximum data of a message. A longer one is skipped without being buffered; a request is
    answered with RESOURCE_EXHAUSTED, as by Go.
    """

    requests_in_flight: int = 1024
    """Maximum number of unanswered requests, which bounds memory. Runtimes send one at a time."""

    safe_frame: int = 4096
    """Maximum payload of a frame with both a message's header and its data. A Go peer reads through
    a 4,096-byte buffer and fails on a larger frame of this kind, so longer messages are sent as a
    header frame and a data frame.
    """


class Code(IntEnum):
    """google.rpc.Code, with the names of its definition."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


_FRAME_HEADER = struct.Struct(">II")
_FRAME_AND_MESSAGE_HEADER = struct.Struct(">IIIIBB")
_HEADER = struct.Struct(">IIBB")


class MuxReader:
    """Splitter of a socket's bytes into pieces of one connection id each.

    Only an incomplete frame header is buffered. Payload bytes are returned as they arrive, so a
    frame's declared length is never allocated.
    """

    __slots__ = ("_conn_id", "_header", "_limit", "_remaining")

    def __init__(self, limits: Limits) -> None:
        self._limit = limits.frame_payload
        self._header = b""
        self._conn_id = 0
        self._remaining = 0

    @property
    def in_frame(self) -> bool:
        """Whether the last frame, or its header, is incomplete."""
        return self._remaining > 0 or bool(self._header)

    def feed(self, data: bytes) -> tuple[list[tuple[int, int, bytes]], RemoteProtocolError | None]:
        """Return pieces ``(connection id, declared length or -1, bytes)``, and the error that ended
        the stream, if any.

        The first piece of each frame, whose bytes may be empty, has the frame's declared length;
        later pieces have -1.
        """
        pieces: list[tuple[int, int, bytes]] = []
        position, end = 0, len(data)
        if self._header:
            data = self._header + data
            end = len(data)
            self._header = b""
        elif self._remaining:
            position = min(self._remaining, end)
            pieces.append((self._conn_id, -1, data if position == end else data[:position]))
            self._remaining -= position
        while position < end:
            start = position + FRAME_HEADER_LENGTH
            if start > end:
                self._header = data[position:]
                break
            conn_id, length = _FRAME_HEADER.unpack_from(data, position)
            if length > self._limit:
                return pieces, RemoteProtocolError(
                    over_limit("mux frame", length, self._limit, f" on connection {conn_id}")
                )
            position = min(start + length, end)
            pieces.append((conn_id, length, data[start:position]))
            self._conn_id = conn_id
            self._remaining = length - (position - start)
        return pieces, None


def frame_message(
    conn_id: int, stream_id: int, kind: int, flags: int, data: bytes, safe_frame: int
) -> list[bytes]:
    """Return the frames of one ttRPC message in a form that every peer accepts.

    A short message is one frame; a longer one is a header frame and a data frame. A Go peer fails
    on a frame that contains a header and exceeds its 4,096-byte read buffer, and its 256-frame
    queue overflows if the data arrives in many small frames.
    """
    length = len(data)
    total = MESSAGE_HEADER_LENGTH + length
    if total <= safe_frame:
        return [
            _FRAME_AND_MESSAGE_HEADER.pack(conn_id, total, length, stream_id, kind, flags) + data
        ]
    return [
        _FRAME_AND_MESSAGE_HEADER.pack(
            conn_id, MESSAGE_HEADER_LENGTH, length, stream_id, kind, flags
        )
        + _FRAME_HEADER.pack(conn_id, length),
        data,
    ]


class MessageType(IntEnum):
    """Type of a message, byte 8 of the header."""

    REQUEST = 1
    RESPONSE = 2
    DATA = 3


class Message(NamedTuple):
    """One ttRPC message. ``data`` is None if it was skipped."""

    stream_id: int
    type: int
    flags: int
    length: int
    data: bytes | None
    head: bytes = b""
    """The first bytes of a skipped message."""


_HEAD_MAX = 128
_REQUEST_HEAD = re.compile(rb"\n.[\w.]+\x12.(\w{1,64})\x1a", re.DOTALL)
"""The fields of a request before its payload: service and method, with their tags and lengths."""


def size_words(head: bytes, length: int, limit: int) -> str:
    """Return words for a message over the limit, with its method if it is a request."""
    request = _REQUEST_HEAD.match(head)
    name = request[1].decode() if request else "message"
    return over_limit(name, length, limit)


class MessageReader:
    """Assembler of messages from the pieces of one byte stream, in bounded memory.

    Messages whose type is not in ``types``, and messages over the limit, are skipped on arrival
    and returned without their data.
    """

    __slots__ = ("_buffer", "_flags", "_length", "_limit", "_missing", "_skip", "_stream_id",
                 "_type", "_types")  # fmt: skip

    def __init__(self, types: Container[int], limits: Limits) -> None:
        self._types = types
        self._limit = limits.message_data
        self._buffer = bytearray()
        self._missing = 0
        self._skip = False
        self._stream_id = self._type = self._flags = self._length = 0

    @property
    def in_message(self) -> bool:
        """Whether a message, or its header, is incomplete."""
        return self._missing > 0 or bool(self._buffer)

    @property
    def oversized(self) -> str:
        """Words for an incomplete message over the limit, otherwise ""."""
        if not self._missing or self._length <= self._limit:
            return ""
        return size_words(bytes(self._buffer), self._length, self._limit)

    def feed(self, piece: bytes) -> list[Message]:
        """Return the messages that ``piece`` completes."""
        messages: list[Message] = []
        position, end = 0, len(piece)
        while position < end:
            if self._missing:
                position = self._read_data(piece, position, messages)
                continue
            if self._buffer or end - position < MESSAGE_HEADER_LENGTH:
                part = piece[position : position + MESSAGE_HEADER_LENGTH - len(self._buffer)]
                self._buffer += part
                position += len(part)
                if len(self._buffer) < MESSAGE_HEADER_LENGTH:
                    break
                header = _HEADER.unpack(self._buffer)
                self._buffer.clear()
            else:
                header = _HEADER.unpack_from(piece, position)
                position += MESSAGE_HEADER_LENGTH
            self._length, self._stream_id, self._type, self._flags = header
            self._missing = self._length
            self._skip = self._length > self._limit or self._type not in self._types
            if not self._length:
                messages.append(self._message(None if self._skip else b""))
        return messages

    def _read_data(self, piece: bytes, position: int, messages: list[Message]) -> int:
        stop = min(position + self._missing, len(piece))
        complete = stop - position == self._missing
        self._missing -= stop - position
        if self._skip:
            self._buffer += piece[position : min(stop, position + _HEAD_MAX - len(self._buffer))]
            if complete:
                messages.append(self._message(None)._replace(head=bytes(self._buffer)))
                self._buffer.clear()
        elif complete and not self._buffer:
            messages.append(self._message(piece[position:stop]))
        else:
            # A bytearray rather than a list of pieces, which would contain one object for each byte
            # if a peer sends single bytes.
            self._buffer += piece[position:stop]
            if complete:
                messages.append(self._message(bytes(self._buffer)))
                self._buffer.clear()
        return stop

    def _message(self, data: bytes | None) -> Message:
        return Message(self._stream_id, self._type, self._flags, self._length, data)


_PARENT, _STATE = "traceparent", "tracestate"
# Version 00 ends after the flags; later versions may continue after another "-".
_TRACEPARENT = re.compile(
    r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?",
    re.ASCII | re.DOTALL,
)
_MEMBERS_MAX = 32
_KEY = r"[a-z0-9][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13}"
_MEMBER = re.compile(rf"(?:{_KEY})=[ -+\--<>-~]{{0,255}}[!-+\--<>-~]")

Metadata = tuple[tuple[str, str], ...]


class TraceContext(NamedTuple):
    """A span of the runtime, from the metadata of a request that belongs to it."""

    trace_id: str
    """32 hexadecimal digits in lowercase, not all zero."""
    span_id: str
    """16 hexadecimal digits in lowercase, not all zero."""
    flags: int
    """Trace flags, of which bit 0 (sampled) and bit 1 (random trace id) are defined."""
    state: str = ""
    """``tracestate``; "" if there is none or it is invalid."""


def trace_metadata(metadata: Metadata) -> Metadata:
    """Return the pairs with trace context, valid or not, in their order.

    The rest is not about the request: containerd sends its namespace, and "baggage" may contain
    any data of the runtime's clients.
    """
    return tuple(pair for pair in metadata if pair[0].lower() in (_PARENT, _STATE))


def trace_context(metadata: Metadata) -> TraceContext | None:
    """Return the runtime's span; None without exactly one valid "traceparent"."""
    parents = [value for key, value in metadata if key.lower() == _PARENT]
    match = _TRACEPARENT.fullmatch(parents[0]) if len(parents) == 1 else None
    if match is None or (match[1] == "00" and match[5] is not None):
        return None
    state = _state(value for key, value in metadata if key.lower() == _STATE)
    return TraceContext(match[2], match[3], int(match[4], 16), state)


def _state(values: Iterable[str]) -> str:
    """Return the list members of all "tracestate" values; "" if they are invalid."""
    members = [member.strip(" \t") for value in values for member in value.split(",")]
    members = [member for member in members if member]
    if len(members) > _MEMBERS_MAX or not all(map(_MEMBER.fullmatch, members)):
        return ""
    keys = {member.partition("=")[0] for member in members}
    return ",".join(members) if len(keys) == len(members) else ""
