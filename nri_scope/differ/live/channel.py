# SPDX-License-Identifier: Apache-2.0
"""Messages between the process that records and the one that shows changes."""

from __future__ import annotations

import json
from typing import NamedTuple, TypeAlias

from nri_scope.recording import lookup
from nri_scope.recording.reader import Recording


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
    """The CRI's answer about a container."""

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


class Asked(NamedTuple):
    """The end of all questions to the CRI."""

    answered: int
    unanswered: int


class Unread(NamedTuple):
    """The output is not read any more."""


class ReadPosition(NamedTuple):
    """From the recorder: there is a file, and it had come so far."""

    event: int
    """The newest one; 0: none."""
    session: int
    """The id of the last session; 0 for none."""

    @classmethod
    def end_of(cls, recording: Recording) -> ReadPosition:
        """Return the current end of a file that is continued: earlier events are not shown."""
        sessions = (session.id for session in recording.sessions())
        return cls(lookup.event_range(recording)[1], max(sessions, default=0))


class FinishAsking(NamedTuple):
    """From the recorder: the probes are gone."""


class Closed(NamedTuple):
    """From the recorder: the recording is complete."""

    needless: bool
    """It never connected; its file is new and empty, and to be removed."""


ToRecorder: TypeAlias = CriBegan | CriEnded | Answer | ChainSeen | Asked | Unread
FromRecorder: TypeAlias = ReadPosition | FinishAsking | Closed
Message: TypeAlias = ToRecorder | FromRecorder

_TYPES = (CriBegan, CriEnded, Answer, ChainSeen, Asked, Unread, ReadPosition, FinishAsking, Closed)


def encode(message: Message) -> tuple[int, bytes]:
    """Return kind and payload."""
    return _TYPES.index(type(message)), json.dumps(message).encode()


def decode(kind: int, payload: bytes) -> Message:
    """Return what `encode` made kind and payload of."""
    message: Message = _TYPES[kind](*json.loads(payload))
    return message
