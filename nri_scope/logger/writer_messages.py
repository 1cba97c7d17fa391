# SPDX-License-Identifier: Apache-2.0
"""Messages between the process that answers the runtime and the one that writes the recording.

Orders to the writer are pickled, and events are marshalled, which is quicker. Its reports are JSON:
the writer decodes untrusted input, so even if it is compromised, the process that answers executes
nothing that comes from it.
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
from nri_scope.events import CapturedCall
from nri_scope.recorder.counters import RecorderCounters
from nri_scope.recorder.inbox import Entry, Resume

if TYPE_CHECKING:
    from pathlib import Path

    from nri_scope.share.redaction.rules import Rules


class Order(IntEnum):
    """Kinds of orders to the writer. All but entries are pickled."""

    OPEN = 0
    """The first: `RecordingOptions`, and sessions to resume. Answered by OPENED or FAILED."""
    ENTRIES = 1
    """Queue entries, in order; see `packed`."""
    FINISH = 2
    """Write the queued entries and end, within this many seconds. Answered by CLOSED."""


class Report(IntEnum):
    """Kinds of the writer's reports, in JSON."""

    OPENED = 0
    FAILED = 1
    """The reason why the file cannot be opened; see `failure`."""
    SAID = 2
    """A line for the user."""
    NUMBERED = 3
    """The number in the file of a session about to begin: its handle, and the number."""
    WRITTEN = 4
    """Progress in the file; see `Progress`."""
    CLOSED = 5
    """The file is complete and closed: the counters."""


@dataclass(frozen=True, slots=True)
class RecordingOptions:
    """Options of a recording, for the process that writes it."""

    path: Path
    existed: bool
    """Whether the file existed, so that it is kept even if nothing is recorded."""
    max_size: int | None = None
    """Maximum number of bytes of the recording."""
    max_age: float | None = None
    """Longest age of events in seconds."""
    where: str | None = None
    """The filter of events to keep."""
    redact: Rules | None = None
    """Rules for redaction before events are written; None for no redaction."""
    makes_folder: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """The writer's progress."""

    counters: RecorderCounters
    came: dict[int, int]
    """Number of settled events of each open session, by its handle."""
    ended: list[int]
    """Handles of sessions that have ended in the file."""
    lost_before: int
    """Number of events now known to be lost with an earlier writer that was killed."""

    def values(self) -> list[object]:
        """Return the values for JSON."""
        came = list(self.came.items())
        return [counted(self.counters), came, self.ended, self.lost_before]

    @classmethod
    def of(cls, told: list[Any]) -> Progress:
        """Return the progress from the values of a report."""
        numbers, came, ended, lost_before = told
        return cls(RecorderCounters(**numbers), dict(came), ended, lost_before)


def counted(counters: RecorderCounters) -> dict[str, int]:
    """Return the counters for JSON."""
    return asdict(counters)


def failure(error: NriScopeError) -> list[object]:
    """Return the arguments of an error on opening the file, for JSON."""
    return list(error.args) if isinstance(error, RecordingError) else [str(error)]


def error_of(told: list[Any]) -> NriScopeError:
    """Return the error from the values of `failure`."""
    return RecordingError(*told) if len(told) > 1 else UsageError(*told)


def report(value: object) -> bytes:
    """Return the payload of a report."""
    return json.dumps(value).encode()


def reported(payload: bytes) -> Any:
    """Return the value of a report."""
    return json.loads(payload)


Opening = tuple[RecordingOptions, list[tuple[int, Resume]]]
"""The payload of `Order.OPEN`; each session is paired with its handle."""


def packed(entries: Sequence[Entry]) -> bytes:
    """Return the payload of `Order.ENTRIES`."""
    # Plain tuples are the fastest.
    quick = [
        (entry[0], *entry[1]) if type(entry) is tuple else pickle.dumps(entry) for entry in entries
    ]
    try:
        return marshal.dumps(quick)
    except ValueError:
        # Not all values are plain: a status may be a member of an enumeration.
        return marshal.dumps([pickle.dumps(entry) for entry in entries])


def unpacked(payload: bytes) -> Iterator[Entry]:
    """Yield the entries of a payload made by `packed`."""
    for one in marshal.loads(payload):
        if type(one) is tuple:
            yield one[0], CapturedCall(*one[1:])
        else:
            entry: Entry = pickle.loads(one)
            yield entry
