# SPDX-License-Identifier: Apache-2.0
"""Messages between the recording process and the relay process: orders and reports."""

from __future__ import annotations

import json
import struct
from enum import IntEnum

RELAY = 0
"""Order to relay between the two attached descriptors. JSON: relay number, faults."""
CLOSE = 1
"""Order to close both sockets of a relay. JSON: relay number, reason."""

_PIECE = struct.Struct("=Iqq")


class ReportKind(IntEnum):
    """Kinds of reports. All except pieces are JSON: relay number, monotonic time in ns, values."""

    READY = 0
    """The process has started."""
    FORTH = 1
    """A piece of data was forwarded from the runtime to the plugin: times of arrival and of
    forwarding, both monotonic in ns, and the data."""
    BACK = 2
    """The same in the other direction."""
    DROPPED = 3
    """The request reported next was not forwarded: mux id, stream id, reason."""
    UNREPORTED = 4
    """No more pieces of this relay will be reported: reason."""
    ENDED = 5
    """The relay has ended: the side that closed it first, reason, summary of injected faults."""


def piece_head(relay: int, arrived_ns: int, passed_ns: int) -> bytes:
    """Return the header that precedes the bytes of a piece."""
    return _PIECE.pack(relay, arrived_ns, passed_ns)


def decode_piece(payload: bytes) -> tuple[int, int, int, bytes]:
    """Return the relay number, the times of arrival and of forwarding, and the bytes of a piece."""
    return *_PIECE.unpack_from(payload), payload[_PIECE.size :]


def encode_values(*values: object) -> bytes:
    """Return the payload of any other message."""
    return json.dumps(values).encode()


def describe_error(error: Exception) -> str:
    """Describe the internal error after which a connection is no longer recorded."""
    words = f"{type(error).__name__}: {error}"
    return f"recording stopped after an internal error: {words}"
