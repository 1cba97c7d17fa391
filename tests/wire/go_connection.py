# SPDX-License-Identifier: Apache-2.0
"""A connection that writes as a Go peer with NRI before 0.7 does."""

from __future__ import annotations

import struct

from nri_scope.wire import Connection, Limits
from nri_scope.wire.ttrpc import MessageType

ANY_SIZE = Limits(frame_payload=1 << 31, message_data=1 << 31)
BUFFER = 4096
"""Size of the buffer through which Go writes a message: the first frame at most has this size."""


class GoConnection(Connection):
    """It sends and accepts messages of any size, and the rest of a long one in a single frame."""

    def __init__(self, *, serves: int, calls: int) -> None:
        super().__init__(serves=serves, calls=calls, limits=ANY_SIZE)

    def _send(self, conn_id: int, stream_id: int, kind: MessageType, data: bytes) -> None:
        message = struct.pack(">IIBB", len(data), stream_id, kind, 0) + data
        for part in filter(None, (message[:BUFFER], message[BUFFER:])):
            self._output.append(struct.pack(">II", conn_id, len(part)) + part)
