# SPDX-License-Identifier: Apache-2.0
"""Rows by position: all rows of a recording, or those that pass a filter.

Views are in memory and do no I/O, so that positions, keys and lengths are available while drawing.
They change only on the drawing thread, by `Store.refresh` or the progress of a filter.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

from nri_scope.entries import Began
from nri_scope.events import Container, Gap, Pod
from nri_scope.filter import Filter

from .event_numbers import NumberList, NumberRanges, Operations, RowEvents
from .markers import ConnectionMarker, DamageMarker, EntryMarker, RowKey, RowMarker, ViewEntry
from .rows import marker_text


class View:
    """Rows by position, from 0. Created by `Store.view`."""

    def __init__(
        self,
        numbers: NumberList | NumberRanges | Operations,
        *,
        where: Filter | None = None,
        about: Pod | Container | None = None,
        looked_at: int = 0,
        groups: Operations | None = None,
    ) -> None:
        """Create the view. ``looked_at``: event up to which ``numbers`` is complete. ``groups``:
        each number stands for an operation.
        """
        self.groups = groups
        self.where = where
        self.about = about
        self.length = 0
        """Number of rows, including markers."""
        self.complete = False
        """Whether the filter has finished and all event numbers have been read."""
        self.revision = 0
        """Changes when rows have moved, which invalidates pages read by position. Without a change,
        rows were at most added at the end."""
        self.looked_at = looked_at
        """Event up to which this view is complete."""
        self.stopped: DamageMarker | None = None
        """Damage after which events are unknown; None if there is none."""
        self._numbers = numbers
        self._between: list[RowMarker] = []
        self._keys: list[RowKey] = []
        self._places: list[int] = []
        """Positions of the markers."""
        self._all_markers: tuple[RowMarker, ...] = ()
        """The markers passed to the last `settle`."""
        self._open: set[int] = set()
        """Operations whose events have rows of their own."""
        self._first_movable = RowKey(0, 0)
        """Rows with smaller keys do not move when numbers are added."""

    @property
    def events(self) -> int:
        """Number of events, or operations, among the rows; see `noun`."""
        if self.groups is not None and self.noun == "event":
            return self.groups.event_count
        return len(self._numbers)

    @property
    def noun(self) -> str:
        """What a row shows: event or operation; event if only plugins that join have several."""
        return "operation" if self.groups is not None and self.groups.has_others else "event"

    @property
    def is_everything(self) -> bool:
        """Whether the view has no filter and no restriction."""
        return self.where is None and self.about is None

    # -- used while drawing -----------------------------------------------------------------

    def key_at(self, position: int) -> RowKey:
        """Return the key of the row at a position. Raises IndexError."""
        entry = self.entry(position)
        return RowKey.of_event(entry) if isinstance(entry, int) else entry.key

    def before(self, key: RowKey) -> int:
        """Return the number of rows before ``key``: the position of its row, or of the next row."""
        return self._numbers.rank(key.event + (key.is_event > 1)) + bisect_left(self._keys, key)

    def through(self, key: RowKey) -> int:
        """Return the number of rows up to and including ``key``."""
        return self._numbers.rank(key.event + (key.is_event > 0)) + bisect_right(self._keys, key)

    def key_of(self, event_id: int) -> RowKey:
        """Return the key of the row that shows an event, or would show it."""
        first = self.number_of(event_id)
        is_open = first in self._open and first != event_id
        return RowKey.of_connection(event_id) if is_open else RowKey.of_event(first)

    def current_key(self, key: RowKey) -> RowKey:
        """Return the key that the row of ``key`` has now: its event may be part of an operation."""
        is_below = key.is_event > 1 and self.number_of(key.event) in self._open
        if self.groups is None or not key.is_event or is_below:
            return key
        return self.key_of(key.event)

    def position_of(self, event_id: int) -> int:
        """Return the position of an event, or of the next row if the view does not have it.

        The result is at most ``length - 1``; 0 in an empty view.
        """
        return max(0, min(self.before(self.key_of(event_id)), self.length - 1))

    def event_from(self, event_id: int) -> int | None:
        """Return the first event of the view from ``event_id`` on; None if there is none."""
        if self.shows(event_id):
            return event_id
        at = self._numbers.rank(event_id)
        return self._numbers.at(at) if at < len(self._numbers) else None

    def markers_with(self, text: str, key: RowKey, *, forwards: bool) -> list[RowKey]:
        """Return the keys of the markers from ``key`` on that contain ``text``, ignoring case."""
        needle = text.lower()
        return [
            marker.key
            for marker in self.between
            if (marker.key >= key if forwards else marker.key <= key)
            and needle in marker_text(marker).lower()
        ]

    def event_before(self, position: int) -> int | None:
        """Return the last event before the row at ``position``; None if there is none."""
        at = position - bisect_left(self._places, position)
        return self._numbers.at(at - 1) if at > 0 else None

    def shows(self, event_id: int) -> bool:
        """Return whether the event is in the view, possibly as part of an operation."""
        number = self.number_of(event_id)
        return self._numbers.rank(number + 1) > self._numbers.rank(number)

    def number_of(self, event_id: int) -> int:
        """Return the number of an event's row: its own, or that of its operation."""
        return event_id if self.groups is None else self.groups.grouped.first_of(event_id)

    def events_of(self, number: int) -> Sequence[int]:
        """Return the events that a row shows: one, or those of an operation."""
        return (number,) if self.groups is None else self.groups.grouped.events_of(number)

    def rows_of(self, numbers: Iterable[int]) -> RowEvents:
        """Return the rows of these events, shown or not."""
        rows = sorted({self.number_of(number) for number in numbers})
        return RowEvents(rows, self.groups.grouped if self.groups is not None else None)

    def is_open(self, number: int) -> bool:
        """Return whether the events of an operation have rows of their own."""
        return number in self._open

    def row_events(self, start: int = 0, stop: int | None = None) -> RowEvents:
        """Return the events in rows ``start`` to ``stop`` (exclusive).

        Takes milliseconds for a million rows of a filter, but seconds for those of all events.
        """
        numbers = self.numbers_between(start, self.length if stop is None else stop)
        return RowEvents(numbers, self.groups.grouped if self.groups is not None else None)

    def entry(self, position: int) -> ViewEntry:
        """Return the content of a row. Raises IndexError."""
        at = bisect_left(self._places, position)
        if at < len(self._places) and self._places[at] == position:
            return self._between[at]
        return self._numbers.at(position - at)

    def entries(self, start: int, count: int) -> list[ViewEntry]:
        """Return the content of ``count`` rows from ``start``; fewer if the view ends."""
        start = max(0, start)
        return [self.entry(position) for position in range(start, min(start + count, self.length))]

    def numbers_between(self, start: int, stop: int) -> Sequence[int]:
        """Return the numbers of the events in rows ``start`` to ``stop`` (exclusive)."""
        first = start - bisect_left(self._places, start)
        return self._numbers.slice(first, stop - bisect_left(self._places, stop))

    @property
    def between(self) -> Sequence[RowMarker]:
        """The view's markers, in order."""
        return self._between

    # -- updates by the store ---------------------------------------------------------------

    def settle(self, between: tuple[RowMarker, ...], *, moved: bool = False) -> None:
        """Update the positions after a change of the numbers or markers.

        ``between``: all markers of the recording, sorted by key; the same object as before if they
        are unchanged. ``moved``: the positions of some numbers have changed.
        """
        kept, rest = 0, between
        if self._open:
            rest = tuple(sorted((*between, *self._connections()), key=_key_of))
        elif between is self._all_markers and self.stopped is None and not moved:
            # Only markers after the previous last event can have changed. The cost of growth
            # depends on the new data only, even in a recording with many reconnects.
            kept = bisect_left(self._keys, self._first_movable)
            rest = between[bisect_left(between, self._first_movable, key=_key_of) :]
        shown = [marker for marker in rest if self._is_shown(marker)]
        if self.stopped is not None:
            shown = [*(marker for marker in shown if marker.key < self.stopped.key), self.stopped]
        keys = [marker.key for marker in shown]
        places = [
            self._numbers.rank(key.event + (key.is_event > 1)) + at
            for at, key in enumerate(keys, kept)
        ]
        known = len(self._keys) - kept
        moved = (
            moved
            or keys[:known] != self._keys[kept:]
            or places[:known] != self._places[kept:]
            or any(place < self.length for place in places[known : known + 1])
        )
        self._between[kept:], self._keys[kept:], self._places[kept:] = shown, keys, places
        self.length = len(self._numbers) + len(self._keys)
        last = self._numbers.at(len(self._numbers) - 1) if len(self._numbers) else 0
        self._all_markers = between
        # Markers beyond `looked_at` are not shown yet: the next call examines them again.
        self._first_movable = RowKey(min(last, self.looked_at), 1)
        if moved:
            self.revision += 1

    def toggle(self, number: int) -> None:
        """Give the events of an operation rows of their own, or remove these rows."""
        self._open ^= {number}
        self.settle(self._all_markers, moved=True)

    def _connections(self) -> Iterator[ConnectionMarker]:
        """Yield the rows of the events of open operations."""
        for number in self._open:
            for event in self.events_of(number) if self.shows(number) else ():
                yield ConnectionMarker(RowKey.of_connection(event), event)

    def _is_shown(self, marker: RowMarker) -> bool:
        if isinstance(marker, ConnectionMarker):
            return True
        if marker.key.event > self.looked_at + 1:
            return False
        if self.groups is not None and isinstance(marker, EntryMarker):
            # The row of a session's first events names it.
            is_named = marker.key.event in self.groups.set_ups
            if is_named and isinstance(marker.entry, Began):
                return False
        if self.is_everything:
            return True
        # Omit sessions, which could outnumber the matches. Show a gap if events may have been lost
        # before a match.
        is_gap = isinstance(marker, EntryMarker) and isinstance(marker.entry, Gap)
        return is_gap and self._numbers.rank(marker.key.event) < self.events


def _key_of(marker: RowMarker) -> RowKey:
    return marker.key
