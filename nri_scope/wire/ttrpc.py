# SPDX-License-Identifier: Apache-2.0
"""ttRPC messages: the framing of one connection id's byte stream."""

from __future__ import annotations

import struct
from collections.abc import Container
from enum import IntEnum
from typing import NamedTuple

from .limits import MESSAGE_HEADER_LENGTH, Limits

_HEADER = struct.Struct(">IIBB")


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
            if complete:
                messages.append(self._message(None))
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
