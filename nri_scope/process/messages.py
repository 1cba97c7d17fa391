# SPDX-License-Identifier: Apache-2.0
"""Format of messages between processes: length, kind and payload."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from nri_scope.errors import RemoteProtocolError

HEAD = struct.Struct("=IB")
"""Payload length in bytes and kind, in native byte order, as both ends run on one machine."""
PAYLOAD_MAX = 64 << 20
"""Maximum payload in bytes. nri-scope never sends more, so a larger one means a corrupt stream."""


def message(kind: int, *parts: bytes) -> bytes:
    """Encode a message whose payload is the concatenation of ``parts``."""
    return b"".join((HEAD.pack(sum(map(len, parts)), kind), *parts))


class MessageReader:
    """Parser of messages in a stream of arbitrary chunks, in time linear in the stream's length."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._needed = HEAD.size
        """Length of ``_rest`` required to parse further."""

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield kind and payload of each message that ``data`` completes.

        Raises RemoteProtocolError if a payload has more than `PAYLOAD_MAX` bytes.
        """
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                return
            data = bytes(self._rest)
        start, end = 0, HEAD.size
        while end <= len(data):
            size, kind = HEAD.unpack_from(data, start)
            if size > PAYLOAD_MAX:
                raise RemoteProtocolError(
                    f"message between processes has {size:,} bytes; the limit is {PAYLOAD_MAX:,}"
                )
            end += size
            if end > len(data):
                break
            yield kind, data[start + HEAD.size : end]
            start, end = end, end + HEAD.size
        self._rest = bytearray(data[start:])
        self._needed = end - start
