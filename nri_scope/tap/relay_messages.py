# SPDX-License-Identifier: Apache-2.0
"""Messages between the recording process and the relay process: orders and reports."""

from __future__ import annotations

import json
import struct
from enum import IntEnum

RELAY = 0
"""An order: relay between the two descriptors sent with it. JSON of number and faults."""
CLOSE = 1
"""An order: close both sockets of a relay. JSON of number and reason."""

_PIECE = struct.Struct("=Iqq")


class ReportKind(IntEnum):
    """Kinds of reports. All except pieces are JSON: relay number, a monotonic time, values."""

    READY = 0
    """The process has started."""
    FORTH = 1
    """A piece from the runtime was passed on to the plugin: when it arrived, and when it was passed
    on, both in monotonic nanoseconds."""
    BACK = 2
    """The same in the other direction."""
    KEPT = 3
    """The request reported next was not passed on: mux id, stream id, reason."""
    DEAF = 4
    """No more pieces of this connection will be reported before its end: reason."""
    ENDED = 5
    """The relay has ended: who ended it, reason in words, and the injected faults in words."""


def piece_head(relay: int, arrived_ns: int, passed_ns: int) -> bytes:
    """Return the header that precedes the bytes of a piece."""
    return _PIECE.pack(relay, arrived_ns, passed_ns)


def piece(payload: bytes) -> tuple[int, int, int, bytes]:
    """Return the relay, the times of arrival and of passing on, and the bytes of a piece."""
    return *_PIECE.unpack_from(payload), payload[_PIECE.size :]


def values(*told: object) -> bytes:
    """Return the payload of any other message."""
    return json.dumps(told).encode()


def fault_words(error: Exception) -> str:
    """Describe the internal error due to which a connection is no longer recorded."""
    words = f"{type(error).__name__}: {error}"
    return f"nothing is recorded from here on, because of an internal error: {words}"
