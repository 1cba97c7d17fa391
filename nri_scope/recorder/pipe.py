# SPDX-License-Identifier: Apache-2.0
"""What a recorder and its writer say to each other where the writer is a process of its own.

Pickled, as both ends are the same program, started by the same user, on a socket that nobody else
has.
"""

from __future__ import annotations

import pickle
import socket
import struct
import threading
from dataclasses import dataclass
from pathlib import Path

from nri_scope.recorder.inbox import Entry
from nri_scope.recorder.model import Captured, Event
from nri_scope.recorder.tally import Tally

_LENGTH = struct.Struct("=I")
_READ = 1 << 20


@dataclass(frozen=True, slots=True)
class Order:
    """First: what to write to. Answered by `Opened`, or by an exception."""

    path: Path
    max_size: int | None
    max_age_seconds: float | None
    batch_seconds: float
    where: str | None
    """Text of the filter that says what to store."""
    wants_events: bool
    """Tell of each event that was stored."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The file is open."""

    next_session: int


@dataclass(frozen=True, slots=True)
class Finish:
    """Write what is there and end, within so many seconds. Answered by the last `Progress`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the writer has come."""

    tally: Tally
    removed: int
    reason: str
    """Why events would be lost now, if they were."""
    last: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """What the user has to know."""

    text: str


StoredEvent = tuple[Event, Captured]
"""An event that was stored, and what it was made of."""

Message = Order | Opened | Finish | Progress | Problem | StoredEvent | list[Entry] | Exception


class Pipe:
    """One end. Each direction may be used by one thread that receives and several that send."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._stream = end.makefile("rb", _READ)
        self._sending = threading.Lock()

    def send(self, message: Message) -> None:
        """Send; waits while the other end is behind. Raises OSError when it is gone."""
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        with self._sending:
            self._socket.sendall(_LENGTH.pack(len(data)) + data)

    def receive(self) -> Message | None:
        """The next message; None when the other end is gone."""
        try:
            head = self._stream.read(_LENGTH.size)
            if len(head) < _LENGTH.size:
                return None
            (length,) = _LENGTH.unpack(head)
            data = self._stream.read(length)
        except OSError:
            return None
        if len(data) < length:
            return None
        message: Message = pickle.loads(data)
        return message

    def close(self) -> None:
        """The other end will receive None."""
        self._stream.close()
        self._socket.close()
