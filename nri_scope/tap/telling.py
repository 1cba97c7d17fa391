# SPDX-License-Identifier: Apache-2.0
"""What the process that relays is told by the one that records, and what it tells.

Both are the same program on one machine. Orders come on a socket that keeps them apart, with
descriptors; what is told goes the other way on a stream, as a head of fixed size and what belongs
to it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

_HEAD = struct.Struct("=BIqqI")
ORDER_MAX = 128 << 10
"""Bytes of an order; a socket takes somewhat more at once, none of which must be cut off."""


class Kind(IntEnum):
    """What is told."""

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


_FORTH, _BACK = int(Kind.FORTH), int(Kind.BACK)
"""Packed in half the time."""


class Told(NamedTuple):
    """One thing that was told."""

    kind: Kind
    relay: int
    """Its number."""
    at_ns: int
    until_ns: int
    data: bytes

    def values(self) -> list[object]:
        """Of all kinds but pieces."""
        values: list[object] = json.loads(self.data)
        return values


def piece(relay: int, forth: bool, data: bytes, arrived_ns: int, passed_ns: int) -> bytes:
    """To tell of a piece."""
    return _HEAD.pack(_FORTH if forth else _BACK, relay, arrived_ns, passed_ns, len(data)) + data


def telling(kind: Kind, relay: int, at_ns: int, *values: object) -> bytes:
    """To tell of anything else."""
    data = json.dumps(values).encode()
    return _HEAD.pack(kind, relay, at_ns, at_ns, len(data)) + data


class Ear:
    """Makes what was told of what a stream brings."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Told]:
        """All that is complete by now."""
        data = self._rest + data
        start = 0
        while len(data) - start >= _HEAD.size:
            kind, relay, at_ns, until_ns, size = _HEAD.unpack_from(data, start)
            end = start + _HEAD.size + size
            if end > len(data):
                break
            yield Told(Kind(kind), relay, at_ns, until_ns, data[start + _HEAD.size : end])
            start = end
        self._rest = data[start:]


def fault_words(error: Exception) -> str:
    """Why a connection is heard no more where that is our own fault."""
    words = f"{type(error).__name__}: {error}"
    return f"nothing is recorded from here on, by a fault of ours: {words}"
