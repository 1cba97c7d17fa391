# SPDX-License-Identifier: Apache-2.0
"""Positions in the recordings of a node, and as text for clients."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from nri_scope.entries import Item
from nri_scope.errors import RecordingError, UsageError
from nri_scope.events import RING_REMOVED, Gap
from nri_scope.filter import TimeSpan
from nri_scope.recording.event_times import began_ns, removed_by_ring
from nri_scope.recording.lookup import event_range
from nri_scope.recording.node_files import MAX_RECORDINGS
from nri_scope.recording.reader import Recording
from nri_scope.recording.sqlite_text import HIGHEST

_TIME = "(-?[0-9]{1,19})"
_PART = re.compile(
    rf"([A-Za-z0-9_.-]{{1,128}}):([0-9]{{1,19}}):{_TIME}:{_TIME}(?::{_TIME}:{_TIME})?", re.ASCII
)
_NOW = re.compile(r"@([0-9]{1,19})", re.ASCII)
_LENGTH_MAX = MAX_RECORDINGS * 240


class Position(NamedTuple):
    """Place in one recording: after an event."""

    event: int = 0
    """Number of the event; 0 before the first one."""
    at_ns: int = 0
    """Its time, or that of an earlier event if the recorder's ring removed it."""
    began_ns: int = 0
    """`began_ns` of the recording."""
    span: TimeSpan | None = None
    """Times on which those of the query depend; None if the query has none."""

    def reached(self, event: int, at_ns: int) -> Position:
        """Return the later of this position and the one after an event; ``at_ns`` 0: unknown."""
        if event <= self.event:
            return self
        return self._replace(event=event, at_ns=at_ns or self.at_ns)


@dataclass(frozen=True, slots=True)
class Cursor:
    """Positions in all recordings, by name."""

    positions: dict[str, Position] = field(default_factory=dict[str, Position])
    now_ns: int = 0
    """Time of the first call, on which the times of the query depend; 0 if it has none."""


def format_cursor(cursor: Cursor) -> str:
    """Return a cursor as text."""
    parts = [f"@{cursor.now_ns}"] if cursor.now_ns else []
    for name, (event, at_ns, first_ns, span) in cursor.positions.items():
        times = "" if span is None else f":{span.first_ns}:{span.last_ns}"
        parts.append(f"{name}:{event}:{at_ns}:{first_ns}{times}")
    return ",".join(parts)


def parse_cursor(text: str) -> Cursor:
    """Parse the text of `format_cursor`. Raises UsageError."""
    problem = UsageError("after: not a cursor", "use the cursor of a response")
    if len(text) > _LENGTH_MAX:
        raise problem
    parts = text.split(",") if text else []
    now = _NOW.fullmatch(parts[0]) if parts else None
    now_ns = _number(now[1], problem) if now else 0
    positions: dict[str, Position] = {}
    for part in parts[1 if now else 0 :]:
        found = _PART.fullmatch(part)
        if found is None or found[1] in positions:
            raise problem
        event, at_ns, first_ns = (_number(text, problem) for text in found.group(2, 3, 4))
        span = None
        if found[5] is not None:
            span = TimeSpan(_number(found[5], problem), _number(found[6], problem))
        positions[found[1]] = Position(event, at_ns, first_ns, span)
    return Cursor(positions, now_ns)


def _number(text: str, problem: UsageError) -> int:
    number = int(text)
    if abs(number) > HIGHEST:
        raise problem
    return number


# -- positions in a recording -------------------------------------------------------------------


def is_replaced(path: Path, position: Position) -> bool:
    """Return whether a position is that of another recording, which had the same path."""
    try:
        with Recording.open(path) as recording:
            first_ns = began_ns(recording)
            newest = newest_position(recording).event
            at_ns = time_of_event(recording, position.event)
    except RecordingError:
        return False
    if at_ns:
        return at_ns != position.at_ns
    # Nothing was read yet, or the ring has removed the event.
    return newest < position.event or (position.began_ns or first_ns) != first_ns


def is_of_ring(item: Item) -> bool:
    """Return whether an item is the gap for everything that the recorder's ring removed."""
    return isinstance(item, Gap) and item.reason == RING_REMOVED


def newest_position(recording: Recording) -> Position:
    """Return the position after everything in a recording."""
    _, newest = event_range(recording)
    if not newest:
        return newest_removed(recording)
    return Position(newest, time_of_event(recording, newest))


def newest_removed(recording: Recording) -> Position:
    """Return the position after the newest event that the recorder's ring removed."""
    lost, at_ns = removed_by_ring(recording)
    return Position(lost, at_ns)


def time_of_event(recording: Recording, number: int) -> int:
    """Return the time of an event; 0 if there is none."""
    event = recording.event(number) if number else None
    return 0 if event is None else event.at_ns
