# SPDX-License-Identifier: Apache-2.0
"""The format of messages between processes: length, kind and payload of each."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from nri_scope.errors import RemoteProtocolError

HEAD = struct.Struct("=IB")
"""Length of the payload in bytes, and kind. Both ends run on one machine."""
WITH_DESCRIPTORS = 0x80
"""Set in the kind of a message that carries descriptors; kinds are below this."""
PAYLOAD_MAX = 64 << 20
"""Bytes; a peer that announces more is not an nri-scope process, or out of step."""


def message(kind: int, *parts: bytes) -> bytes:
    """Return a message as sent through a stream. Its payload is the joined parts."""
    return b"".join((HEAD.pack(sum(map(len, parts)), kind), *parts))


class MessageReader:
    """Splits a stream into messages, however it is chunked, in time linear in its length."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._wanted = HEAD.size
        """Bytes needed before the next message can be complete."""

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield kind and payload of each message that is complete by now.

        Raises RemoteProtocolError for a payload of more than `PAYLOAD_MAX` bytes.
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
