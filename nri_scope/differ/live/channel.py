# SPDX-License-Identifier: Apache-2.0
"""What the process that answers the runtime and the one that looks at the recording say.

Both are one program, so messages are pickled; nothing from outside comes this way but as a string.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
import threading
from pathlib import Path
from typing import NamedTuple, TypeAlias, cast

from nri_scope.errors import NriScopeError

from .place import Place

_LENGTH = struct.Struct(">I")


class Ready(NamedTuple):
    """The watcher can begin. The CRI, where it is to be asked, has answered."""


class Failed(NamedTuple):
    """The watcher ends: this is why."""

    error: NriScopeError


class CriBegan(NamedTuple):
    """The CRI answers."""

    name: str
    version: str
    wall_ns: int


class CriEnded(NamedTuple):
    """The CRI does not answer any more."""

    reason: str
    wall_ns: int


class Answer(NamedTuple):
    """What the CRI told of a container."""

    container: str
    wall_ns: int
    """When it was asked."""
    mono_ns: int
    took_ns: int
    text: str
    """The JSON under ``info``, exactly as told."""


class ChainSeen(NamedTuple):
    """The indices of all plugins but ours."""

    indices: tuple[str, ...]


class Waits(NamedTuple):
    """A round is not over, and nothing came for long."""

    words: str


class Asked(NamedTuple):
    """Nothing more will be asked."""

    answered: int
    unanswered: int


class Open(NamedTuple):
    """To the watcher: this is the recording."""

    path: Path
    after: Place


class FinishAsking(NamedTuple):
    """To the watcher: the probes are gone."""


class Closed(NamedTuple):
    """To the watcher: the recording is complete."""


ToParent: TypeAlias = Ready | Failed | CriBegan | CriEnded | Answer | ChainSeen | Waits | Asked
ToWatcher: TypeAlias = Open | FinishAsking | Closed


def packed(message: ToParent | ToWatcher) -> bytes:
    """As it goes through a stream."""
    content = pickle.dumps(message)
    return _LENGTH.pack(len(content)) + content


async def receive(reader: asyncio.StreamReader) -> ToParent | None:
    """The watcher's next message; None when it has ended."""
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        return cast(ToParent, pickle.loads(await reader.readexactly(length)))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


class WatcherEnd:
    """The watcher's end: blocking, for any of its threads."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._stream = end.makefile("rb")
        self._lock = threading.Lock()

    def send(self, message: ToParent) -> None:
        """Nothing happens where nobody is left to be told."""
        content = packed(message)
        try:
            with self._lock:
                self._socket.sendall(content)
        except OSError:
            pass

    def receive(self) -> ToWatcher | None:
        """The next message; None when the other process has ended."""
        try:
            head = self._stream.read(_LENGTH.size)
            content = self._stream.read(_LENGTH.unpack(head)[0])
            return cast(ToWatcher, pickle.loads(content))
        except (OSError, EOFError, struct.error, pickle.UnpicklingError):
            return None
