# SPDX-License-Identifier: Apache-2.0
"""Implement mux frames and ttRPC messages: bytes in, events out.

In: received bytes and outgoing calls. Out: events and bytes to write; the owner of a `Connection`
does the I/O. Sizes declared by a peer are checked before memory is allocated. This room never does
I/O, never reads a clock, and never depends on asyncio or NRI.
"""

from .connection import Connection
from .events import (
    ConnectionFailed,
    FrameIgnored,
    MessageIgnored,
    MessageRejected,
    PeerClosed,
    RequestReceived,
    ResponseReceived,
    WireEvent,
)
from .limits import Limits
from .passive_connection import (
    DecodingEnded,
    MessageSkipped,
    PassiveDecoder,
    PassiveEvent,
    RequestObserved,
    ResponseObserved,
)
from .status import Code

__all__ = [
    "Code",
    "Connection",
    "ConnectionFailed",
    "DecodingEnded",
    "FrameIgnored",
    "Limits",
    "MessageIgnored",
    "MessageRejected",
    "MessageSkipped",
    "PassiveDecoder",
    "PassiveEvent",
    "PeerClosed",
    "RequestObserved",
    "RequestReceived",
    "ResponseObserved",
    "ResponseReceived",
    "WireEvent",
]
