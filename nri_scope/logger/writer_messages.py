# SPDX-License-Identifier: Apache-2.0
"""What the process that answers and the one that writes the recording tell each other.

To the one that writes, values go as Python has them, events by the quickest way that there is. What
it tells is JSON: it decodes what strangers sent, and whatever became of it, nothing that it tells
is executed by the process that answers.
"""

from __future__ import annotations

import json
import marshal
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from nri_scope.errors import NriScopeError, RecordingError, UsageError
from nri_scope.events import Captured
from nri_scope.recorder.counters import RecorderCounters
from nri_scope.recorder.inbox import Entry, Resumed

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
    """What it tells. JSON."""

    OPENED = 0
    FAILED = 1
    """Why the file cannot be had; see `failure`."""
    SAID = 2
    """A line for the user."""
    NUMBERED = 3
    """The number in the file of a session that is about to begin: its handle, and the number."""
    WRITTEN = 4
    """What is in the file; see `Progress`."""
    CLOSED = 5
    """All is done: the counters."""


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

    def values(self) -> list[object]:
        """As it is told."""
        came = list(self.came.items())
        return [counted(self.counters), came, self.ended, self.lost_before]

    @classmethod
    def of(cls, told: list[Any]) -> Progress:
        """What was told."""
        numbers, came, ended, lost_before = told
        return cls(RecorderCounters(**numbers), dict(came), ended, lost_before)


def counted(counters: RecorderCounters) -> dict[str, int]:
    """As they are told."""
    return asdict(counters)


def failure(error: NriScopeError) -> list[object]:
    """Why the file cannot be had, as it is told."""
    return list(error.args) if isinstance(error, RecordingError) else [str(error)]


def error_of(told: list[Any]) -> NriScopeError:
    """What was told by `failure`."""
    return RecordingError(*told) if len(told) > 1 else UsageError(*told)


def report(value: object) -> bytes:
    """The payload of a report."""
    return json.dumps(value).encode()


def reported(payload: bytes) -> Any:
    """The value of a report."""
    return json.loads(payload)


Opening = tuple[RecordingOptions, list[tuple[int, Resumed]]]
"""The payload of `Order.OPEN`; with each session its handle."""


def packed(entries: Sequence[Entry]) -> bytes:
    """The payload of `Order.ENTRIES`."""
    # A tuple that is no named one is what takes the least time.
    quick = [
        (entry[0], *entry[1]) if type(entry) is tuple else pickle.dumps(entry) for entry in entries
    ]
    try:
        return marshal.dumps(quick)
    except ValueError:
        # A status that is a member of an enumeration, for one, is no plain number.
        return marshal.dumps([pickle.dumps(entry) for entry in entries])


def unpacked(payload: bytes) -> Iterator[Entry]:
    """The entries again."""
    for one in marshal.loads(payload):
        if type(one) is tuple:
            yield one[0], Captured(*one[1:])
        else:
            entry: Entry = pickle.loads(one)
            yield entry
