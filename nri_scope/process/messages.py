# SPDX-License-Identifier: Apache-2.0
"""The format of messages between processes: length, kind and payload of each."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from nri_scope.errors import RemoteProtocolError

HEAD = struct.Struct("=IB")
"""Payload length in bytes, and kind, in native byte order: both ends run on one machine."""
WITH_DESCRIPTORS = 0x80
"""Flag in the kind of a message that carries descriptors; kinds are smaller than this."""
PAYLOAD_MAX = 64 << 20
"""Maximum payload in bytes; a larger one is not from nri-scope, or the stream is out of step."""


def message(kind: int, *parts: bytes) -> bytes:
    """Return a message as sent through a stream, with the joined parts as its payload."""
    return b"".join((HEAD.pack(sum(map(len, parts)), kind), *parts))


class MessageReader:
    """Splits a stream of arbitrary chunks into messages, in time linear in its length."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._wanted = HEAD.size
        """Number of bytes needed to complete the next message."""

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield kind and payload of each message that is now complete.

        Raises RemoteProtocolError if a payload has more than `PAYLOAD_MAX` bytes.
        """
        if self._rest:
            self._rest += data
            if len(self._rest) < self._wanted:
                return
            data = bytes(self._rest)
        start, end = 0, HEAD.size
        while end <= len(data):
            size, kind = HEAD.unpack_from(data, start)
            if size > PAYLOAD_MAX:
                raise RemoteProtocolError(f"a message of {size:,} bytes between two processes")
            end += size
            if end > len(data):
                break
            yield kind, data[start + HEAD.size : end]
            start, end = end, end + HEAD.size
        self._rest = bytearray(data[start:])
        self._wanted = end - start
