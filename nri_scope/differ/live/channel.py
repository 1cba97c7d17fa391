# SPDX-License-Identifier: Apache-2.0
"""Messages between the recorder process and the viewer."""

from __future__ import annotations

import json
from typing import NamedTuple, TypeAlias

from nri_scope.recording import lookup
from nri_scope.recording.reader import Recording


class ChainSeen(NamedTuple):
    """The indices of all plugins, except nri-scope's own."""

    indices: tuple[str, ...]


class Unread(NamedTuple):
    """The output is no longer read."""


class ReadPosition(NamedTuple):
    """From the recorder: the file exists, and recording continues after this position."""

    event: int
    """The newest event's id; 0 for none."""
    session: int
    """The id of the last session; 0 for none."""

    @classmethod
    def end_of(cls, recording: Recording) -> ReadPosition:
        """Return the current end of a file to be continued, whose earlier events are not shown."""
        sessions = (session.id for session in recording.sessions())
        return cls(lookup.event_range(recording)[1], max(sessions, default=0))


class Closed(NamedTuple):
    """From the recorder: the recording is complete."""

    needless: bool
    """Whether the file is new and empty, as nri-scope never connected, and is to be removed."""


ToRecorder: TypeAlias = ChainSeen | Unread
FromRecorder: TypeAlias = ReadPosition | Closed
Message: TypeAlias = ToRecorder | FromRecorder

_TYPES = (ChainSeen, Unread, ReadPosition, Closed)


def encode(message: Message) -> tuple[int, bytes]:
    """Return the kind and payload of a message."""
    return _TYPES.index(type(message)), json.dumps(message).encode()


def decode(kind: int, payload: bytes) -> Message:
    """Return the message that `encode` turned into this kind and payload."""
    message: Message = _TYPES[kind](*json.loads(payload))
    return message
