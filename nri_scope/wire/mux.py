# SPDX-License-Identifier: Apache-2.0
"""Mux frames: several byte streams over one socket.

A frame is not a message: it contains the next bytes of one connection id's stream, and a message
can be spread over frames in any way. `MessageSplitter` is for callers that forward some messages
and drop others. If each message begins and ends with a frame, as with all known peers, its pieces
are the original frames. Otherwise frames are rebuilt; peers decode the same messages from them.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from google.protobuf.message import DecodeError

from nri_scope._gen.ttrpc.ttrpc_pb2 import Request, Response
from nri_scope.errors import RemoteProtocolError

from .ttrpc import FRAME_HEADER_LENGTH, MESSAGE_HEADER_LENGTH, Limits, MessageType

_FRAME_HEADER = struct.Struct(">II")
_FRAME_AND_MESSAGE_HEADER = struct.Struct(">IIIIBB")


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
                    f"mux frame of {length} bytes on connection {conn_id}; "
                    f"the limit is {self._limit}"
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


_FRAME = struct.Struct(">II")
_MESSAGE = struct.Struct(">IIBB")


class FramedPiece(NamedTuple):
    """Bytes that can be forwarded or dropped independently of the pieces around them."""

    raw: bytes
    stream_id: int = 0
    type: int = 0
    """Type of the message; 0 if this is not a message of the chosen mux id."""
    data: bytes = b""


class MessageSplitter:
    """Splitter for one direction of a socket. Buffers at most one frame and one message.

    A frame or message above ``limits`` cannot be split: it and all later bytes pass unchanged.
    """

    def __init__(self, conn_id: int, limits: Limits | None = None) -> None:
        self._conn_id = conn_id
        self._limits = limits or Limits()
        self._buffer = bytearray()
        self._frames = bytearray()
        self._stream = bytearray()
        self._aligned = True
        """Whether ``_stream`` is exactly the payload of ``_frames``."""
        self.is_passthrough = False
        """Whether a limit was exceeded, so that bytes pass unchanged."""

    def feed(self, data: bytes) -> list[FramedPiece]:
        """Return the pieces that ``data`` completes, in the order of the input.

        Each stream of a mux id is preserved; frames may be divided differently.
        """
        if self.is_passthrough:
            return [FramedPiece(data)]
        self._buffer += data
        pieces: list[FramedPiece] = []
        while len(self._buffer) >= FRAME_HEADER_LENGTH:
            conn_id, length = _FRAME.unpack_from(self._buffer)
            if length > self._limits.frame_payload:
                return [*pieces, FramedPiece(self._stop_splitting())]
            end = FRAME_HEADER_LENGTH + length
            if len(self._buffer) < end:
                break
            frame = bytes(self._buffer[:end])
            del self._buffer[:end]
            if conn_id != self._conn_id:
                pieces.append(FramedPiece(frame))
                continue
            self._frames += frame
            self._stream += frame[FRAME_HEADER_LENGTH:]
            if not self._split(pieces):
                return [*pieces, FramedPiece(self._stop_splitting())]
        return pieces

    def flush(self) -> bytes:
        """Return and clear the buffered bytes of an incomplete frame or message."""
        if self._aligned:
            buffered = bytes(self._frames)
        else:
            buffered = _FRAME.pack(self._conn_id, len(self._stream)) + bytes(self._stream)
        buffered += bytes(self._buffer)
        self._frames.clear()
        self._stream.clear()
        self._buffer.clear()
        return buffered

    def _split(self, pieces: list[FramedPiece]) -> bool:
        """Move complete messages from the stream to ``pieces``; return False if one is too long."""
        while len(self._stream) >= MESSAGE_HEADER_LENGTH:
            length, stream_id, kind, flags = _MESSAGE.unpack_from(self._stream)
            if length > self._limits.message_data:
                return False
            end = MESSAGE_HEADER_LENGTH + length
            if len(self._stream) < end:
                break
            data = bytes(self._stream[MESSAGE_HEADER_LENGTH:end])
            del self._stream[:end]
            if self._aligned and not self._stream:
                raw = bytes(self._frames)
            else:
                self._aligned = False
                raw = b"".join(
                    frame_message(
                        self._conn_id, stream_id, kind, flags, data, self._limits.safe_frame
                    )
                )
            pieces.append(FramedPiece(raw, stream_id, kind, data))
        if not self._stream:
            # Empty frames may follow a message; they have no meaning.
            self._frames.clear()
            self._aligned = True
        return True

    def _stop_splitting(self) -> bytes:
        self.is_passthrough = True
        return self.flush()


def parse_request(data: bytes) -> tuple[str, str, bytes] | None:
    """Return service, method and payload of a request's data; None if it cannot be decoded."""
    try:
        request = Request.FromString(data)
    except DecodeError:
        return None
    return request.service, request.method, request.payload


def error_response(conn_id: int, stream_id: int, code: int, message: str) -> bytes:
    """Return the frames of a response with an error status."""
    response = Response()
    response.status.code = code
    response.status.message = message
    data = response.SerializeToString()
    return b"".join(
        frame_message(conn_id, stream_id, MessageType.RESPONSE, 0, data, Limits().safe_frame)
    )
