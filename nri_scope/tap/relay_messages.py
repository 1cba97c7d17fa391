# SPDX-License-Identifier: Apache-2.0
"""Messages between the process that records and the one that relays: orders and reports."""

from __future__ import annotations

import json
import struct
from enum import IntEnum

RELAY = 0
"""An order: relay between the two descriptors that come with it. JSON of number and faults."""
CLOSE = 1
"""An order: close both sockets of a relay. JSON of number and why."""

_PIECE = struct.Struct("=Iqq")


class Told(IntEnum):
    """Kinds of reports. All but pieces are JSON: the relay's number, a monotonic time, values."""

    READY = 0
    """The process has started."""
    FORTH = 1
    """A piece from the runtime was passed on to the plugin: when it came, and when it was passed
    on, as everywhere in monotonic nanoseconds."""
    BACK = 2
    """The same in the other direction."""
    KEPT = 3
    """A request will be reported that was not passed on: mux id, stream id, why."""
    DEAF = 4
    """No more pieces of this connection are reported before its end: why."""
    ENDED = 5
    """The relay is over: who ended it, why in words, and the injected faults in words."""


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
    """Return why a connection is no longer recorded, for an internal error."""
    words = f"{type(error).__name__}: {error}"
    return f"nothing is recorded from here on, because of an internal error: {words}"
