# SPDX-License-Identifier: Apache-2.0
"""A socket's bytes, split so that each message of one mux id is in a separate piece.

For a caller that passes on some messages and drops others. If frames and messages begin and end
together, as all known peers write them, the pieces are the original frames; otherwise they are
created again, which peers cannot distinguish.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from google.protobuf.message import DecodeError

from nri_scope._gen.ttrpc.ttrpc_pb2 import Request, Response

from .limits import FRAME_HEADER_LENGTH, MESSAGE_HEADER_LENGTH, Limits
from .mux import frame_message
from .ttrpc import MessageType

_FRAME = struct.Struct(">II")
_MESSAGE = struct.Struct(">IIBB")


class Framed(NamedTuple):
    """Bytes that can be passed on or dropped without harm to those before and after them."""

    raw: bytes
    stream_id: int = 0
    type: int = 0
    """Type of the message; 0 if this is not a message of the chosen mux id."""
    data: bytes = b""


class MessageFrames:
    """One direction of a socket. Holds at most one frame and one message.

    A message above ``limits`` cannot be split: from there on all bytes pass unchanged.
    """

    def __init__(self, conn_id: int, limits: Limits | None = None) -> None:
        self._conn_id = conn_id
        self._limits = limits or Limits()
        self._buffer = bytearray()
        self._frames = bytearray()
        self._stream = bytearray()
        self._aligned = True
        """Whether the message that begins in ``_stream`` begins where ``_frames`` does."""
        self.gave_up = False

    def feed(self, data: bytes) -> list[Framed]:
        """Return the frames and pieces that ``data`` completes, in order; joined, they equal the
        input.
        """
        if self.gave_up:
            return [Framed(data)]
        self._buffer += data
        pieces: list[Framed] = []
        while len(self._buffer) >= FRAME_HEADER_LENGTH:
            conn_id, length = _FRAME.unpack_from(self._buffer)
            if length > self._limits.frame_payload:
                return [*pieces, Framed(self._give_up())]
            end = FRAME_HEADER_LENGTH + length
            if len(self._buffer) < end:
                break
            frame = bytes(self._buffer[:end])
            del self._buffer[:end]
            if conn_id != self._conn_id:
                pieces.append(Framed(frame))
                continue
            self._frames += frame
            self._stream += frame[FRAME_HEADER_LENGTH:]
            if not self._cut(pieces):
                return [*pieces, Framed(self._give_up())]
        return pieces

    def rest(self) -> bytes:
        """Return, once, the bytes that are held: an incomplete frame or message."""
        if self._aligned:
            held = bytes(self._frames)
        else:
            held = _FRAME.pack(self._conn_id, len(self._stream)) + bytes(self._stream)
        held += bytes(self._buffer)
        self._frames.clear()
        self._stream.clear()
        self._buffer.clear()
        return held

    def _cut(self, pieces: list[Framed]) -> bool:
        """Take whole messages out of the stream; return False for one that is too long."""
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
            pieces.append(Framed(raw, stream_id, kind, data))
        if not self._stream:
            # Frames without bytes may follow a message; they have no meaning.
            self._frames.clear()
            self._aligned = True
        return True

    def _give_up(self) -> bytes:
        self.gave_up = True
        return self.rest()


def named_request(data: bytes) -> tuple[str, str, bytes] | None:
    """Return service, method and payload of a request's data; None if it cannot be decoded."""
    try:
        request = Request.FromString(data)
    except DecodeError:
        return None
    return request.service, request.method, request.payload


def error_response(conn_id: int, stream_id: int, code: int, message: str) -> bytes:
    """Return the frame of a response with an error status; ``message`` is a short one."""
    response = Response()
    response.status.code = code
    response.status.message = message
    data = response.SerializeToString()
    return b"".join(
        frame_message(conn_id, stream_id, MessageType.RESPONSE, 0, data, Limits().safe_frame)
    )
