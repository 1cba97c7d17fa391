# SPDX-License-Identifier: Apache-2.0
"""What the process that relays is told by the one that records, and what it tells."""

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
    """What is told. All but pieces is JSON: the relay's number, a monotonic time, and values."""

    READY = 0
    """The process is there."""
    FORTH = 1
    """A piece from the runtime was passed on to the plugin: when it came, and when it was passed
    on, as everywhere in monotonic nanoseconds."""
    BACK = 2
    """The same the other way."""
    KEPT = 3
    """A request will be heard that was not passed on: mux id, stream id, why."""
    DEAF = 4
    """Nothing more of this connection is told before its end: why."""
    ENDED = 5
    """The relay is over: who ended it, the words for it, and those for faults that were made."""


def piece_head(relay: int, arrived_ns: int, passed_ns: int) -> bytes:
    """What goes before the bytes of a piece."""
    return _PIECE.pack(relay, arrived_ns, passed_ns)


def piece(payload: bytes) -> tuple[int, int, int, bytes]:
    """Relay, when it came, when it was passed on, and the bytes of a piece."""
    return *_PIECE.unpack_from(payload), payload[_PIECE.size :]


def values(*told: object) -> bytes:
    """The payload of everything else."""
    return json.dumps(told).encode()


def fault_words(error: Exception) -> str:
    """Why a connection is heard no more where that is our own fault."""
    words = f"{type(error).__name__}: {error}"
    return f"nothing is recorded from here on, by a fault of ours: {words}"
