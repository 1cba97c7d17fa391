# SPDX-License-Identifier: Apache-2.0
"""What the process that answers and the one that writes the recording tell each other.

Both run the same program on one machine, and nobody else has an end of their channel, so values go
through it as Python has them: events by the quickest way that there is, all else pickled.
"""

from __future__ import annotations

import marshal
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from nri_scope.events import Captured
from nri_scope.recorder.counters import RecorderCounters
from nri_scope.recorder.inbox import Entry, Resumed, Told

if TYPE_CHECKING:
    from pathlib import Path

    from nri_scope.share.redaction.rules import Rules


class Order(IntEnum):
    """What the one that writes is told. Pickled but for entries."""

    OPEN = 0
    """First: `RecordingOptions`, and the sessions that go on. Answered by OPENED or FAILED."""
    ENTRIES = 1
    """What came, in order; see `packed`."""
    FINISH = 2
    """Write what is there and end, within so many seconds. Answered by CLOSED."""


class Report(IntEnum):
    """What it tells. Pickled."""

    OPENED = 0
    FAILED = 1
    """Why the file cannot be had: an NriScopeError."""
    SAID = 2
    """A line for the user."""
    NUMBERED = 3
    """The number in the file of a session that is about to begin: its handle, and the number."""
    WRITTEN = 4
    """What is in the file: `Progress`."""
    CLOSED = 5
    """All is done: `RecorderCounters`."""


@dataclass(frozen=True, slots=True)
class RecordingOptions:
    """What to write, and where to."""

    path: Path
    existed: bool
    """Whether it is to stay where nothing is recorded."""
    max_size: int | None = None
    """Bytes."""
    max_age: float | None = None
    """Seconds."""
    where: str | None = None
    """The filter that says what is kept."""
    redact: Rules | None = None
    """What to replace before it is written; None for nothing."""
    makes_folder: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it has come."""

    counters: RecorderCounters
    came: dict[int, int]
    """By the handle of an open session, how many of its events need not be kept in mind."""
    ended: list[int]
    """Handles of sessions that have ended in the file."""
    lost_before: int
    """Events that one was given which was killed, as it turned out now."""


Opening = tuple[RecordingOptions, list[tuple[int, Resumed]]]
"""The payload of `Order.OPEN`; with each session its handle."""


def packed(entries: Sequence[Entry]) -> bytes:
    """The payload of `Order.ENTRIES`."""
    # A tuple that is no named one is what takes the least time.
    return marshal.dumps(
        [
            (entry[0], *entry[1]) if type(entry) is tuple else pickle.dumps(entry)
            for entry in entries
        ]
    )


def unpacked(payload: bytes) -> Iterator[Entry]:
    """The entries again."""
    for one in marshal.loads(payload):
        if type(one) is tuple:
            yield one[0], Captured(*one[1:])
        else:
            told: Told = pickle.loads(one)
            yield told
