# SPDX-License-Identifier: Apache-2.0
"""Implement mux frames and ttRPC messages: bytes in, events out.

In: received bytes and outgoing calls. Out: events and bytes to write; the owner of a `Connection`
does the I/O. Sizes declared by a peer are checked before memory is allocated. This room never does
I/O, never reads a clock, and never depends on asyncio or NRI.
"""

from .connection import Connection as Connection
from .connection import ConnectionFailed as ConnectionFailed
from .connection import DecodingEnded as DecodingEnded
from .connection import FrameIgnored as FrameIgnored
from .connection import MessageIgnored as MessageIgnored
from .connection import MessageRejected as MessageRejected
from .connection import MessageSkipped as MessageSkipped
from .connection import PassiveDecoder as PassiveDecoder
from .connection import PeerClosed as PeerClosed
from .connection import RequestReceived as RequestReceived
from .connection import ResponseReceived as ResponseReceived
from .connection import WireEvent as WireEvent
from .ttrpc import Code as Code
from .ttrpc import Limits as Limits
