# SPDX-License-Identifier: Apache-2.0
"""Rows between events: gaps, starts and ends of sessions, damage; and parts of operations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from nri_scope.entries import Began, Ended
from nri_scope.errors import RecordingError
from nri_scope.events import Gap
from nri_scope.recording.query.event_pages import RecordingState, first_event_at, span_of
from nri_scope.recording.reading.reader import Recording

_MAX_INT = (1 << 63) - 1
"""Larger than all event numbers and times."""


class RowKey(NamedTuple):
    """Sort key and identity of a row. Keys compare in the order of rows, in every view."""

    event: int
    """The event's number; for other rows, the number of the following event."""
    is_event: int
    """1 for an event or operation, 2 for an event below its operation, 0 for other rows."""
    at_ns: int = 0
    number: int = 0
    """With ``at_ns``, orders rows before the same event."""

    @classmethod
    def of_event(cls, event_id: int) -> RowKey:
        """Return the key of an event's row."""
        return cls(event_id, 1)

    @classmethod
    def of_connection(cls, event_id: int) -> RowKey:
        """Return the key of the row of an event below its operation."""
        return cls(event_id, 2)


@dataclass(frozen=True, slots=True)
class EntryMarker:
    """An interval that was not observed, or the start or end of a session."""

    key: RowKey
    entry: Gap | Began | Ended


@dataclass(frozen=True, slots=True)
class DamageMarker:
    """Position from which on the recording cannot be read."""

    key: RowKey
    words: str

    @classmethod
    def behind(cls, event_id: int, words: str) -> DamageMarker:
        """Return the marker of damage after an event."""
        return cls(RowKey(event_id + 1, 0, _MAX_INT), words)


@dataclass(frozen=True, slots=True)
class ConnectionMarker:
    """What one connection saw of an operation."""

    key: RowKey
    event: int


RowMarker = ConnectionMarker | EntryMarker | DamageMarker
ViewEntry = int | RowMarker
"""Content of a row: the number of an event, or of an operation's first event, or a marker."""


class MarkerPlaces:
    """Positions of gaps and sessions. Once found, a position never changes.

    A gap is placed before the first event after its start, as in `log`. A session begins at
    its first event, and ends after its last one.
    """

    def __init__(self) -> None:
        self._gaps: dict[tuple[int, int], int] = {}
        self._ends: dict[tuple[int, int], int] = {}
        self._last_state: RecordingState | None = None
        self._markers: tuple[RowMarker, ...] = ()

    def between(self, recording: Recording, state: RecordingState) -> tuple[RowMarker, ...]:
        """Return the markers of all gaps and sessions in order. Raises RecordingError.

        Returns the same object as before if none was added or changed.
        """
        if self._last_state is None or not _same(self._last_state, state):
            markers = (*self._of_gaps(recording, state), *self._of_sessions(recording, state))
            self._markers = tuple(sorted(markers, key=lambda marker: marker.key))
            self._last_state = state
        return self._markers

    def _of_gaps(self, recording: Recording, state: RecordingState) -> Iterator[RowMarker]:
        for gap in state.gaps:
            known = (gap.id, gap.from_ns)
            if known not in self._gaps:
                self._gaps[known] = _place(recording, state, gap.from_ns + 1, state.oldest)
            yield EntryMarker(_key(self._gaps[known], gap.from_ns, _GAP, gap.id), gap)

    def _of_sessions(self, recording: Recording, state: RecordingState) -> Iterator[RowMarker]:
        spans = span_of(recording)
        for session in state.sessions:
            first, last = spans.get(session.id, (0, None))
            # If a ring removed its first events, a session begins at the oldest event, as in `log`.
            is_cut = first < state.oldest and (last is None or state.oldest <= last)
            begin = state.oldest if is_cut else first
            key = _key(begin, session.started_ns, _BEGAN, session.id)
            yield EntryMarker(key, Began(session))
            if session.ended_ns is None:
                continue
            known = (session.id, session.ended_ns)
            if known not in self._ends:
                lowest = max(state.oldest, first, last + 1 if last is not None else 0)
                self._ends[known] = _place(recording, state, session.ended_ns, lowest)
            key = _key(self._ends[known], session.ended_ns, _ENDED, session.id)
            yield EntryMarker(key, Ended(session))


def _same(one: RecordingState, other: RecordingState) -> bool:
    """Return whether sessions, gaps and the oldest event are unchanged."""
    return one.sessions is other.sessions and one.gaps is other.gaps and one.oldest == other.oldest


# Order of markers at the same time: ends of sessions first, starts last.
_ENDED, _GAP, _BEGAN = range(3)


def _key(before: int, at_ns: int, kind: int, number: int) -> RowKey:
    return RowKey(before, 0, at_ns, (kind << 64) + number)


def _place(recording: Recording, state: RecordingState, at_ns: int, first: int) -> int:
    try:
        return first_event_at(recording, at_ns, first, state.newest)
    except RecordingError:
        # A damaged event has no time, and nothing after it is shown.
        return state.newest + 1
