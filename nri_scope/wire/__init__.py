# SPDX-License-Identifier: Apache-2.0
"""Mux frames and ttRPC messages: bytes in, events out.

No I/O, no clock, no asyncio, and no knowledge of NRI: the owner of a `Connection` feeds it what
arrives and writes what it wants written.
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
