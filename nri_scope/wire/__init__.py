# SPDX-License-Identifier: Apache-2.0
"""Speak mux frames and ttRPC messages: bytes in, events out.

In: received bytes, and calls to make. Out: events, and bytes to write; the owner of a `Connection`
moves both. Sizes declared by a peer are checked before anything is allocated. There is no I/O, no
clock and no asyncio; this room never knows NRI.
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
    Heard,
    Hearing,
    HearingEnded,
    NotUnderstood,
    RequestHeard,
    ResponseHeard,
)
from .status import Code

__all__ = [
    "Code",
    "Connection",
    "ConnectionFailed",
    "FrameIgnored",
    "Heard",
    "Hearing",
    "HearingEnded",
    "Limits",
    "MessageIgnored",
    "MessageRejected",
    "NotUnderstood",
    "PeerClosed",
    "RequestHeard",
    "RequestReceived",
    "ResponseHeard",
    "ResponseReceived",
    "WireEvent",
]
