# SPDX-License-Identifier: Apache-2.0
"""Mux frames: several byte streams over one socket.

A frame is not a message: it contains the next bytes of one connection id's stream, and a message
can be spread over frames in any way.
"""

from __future__ import annotations

import struct

from nri_scope.errors import RemoteProtocolError

from .ttrpc import FRAME_HEADER_LENGTH, MESSAGE_HEADER_LENGTH, Limits

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
