# SPDX-License-Identifier: Apache-2.0
"""Rows by position: all rows of a recording, or those that pass a filter.

Views are in memory and do no I/O, so that positions, keys and lengths are available while drawing.
They change only on the drawing thread, by `Store.refresh` or the progress of a filter.

Event numbers ascend and have few holes, so all events of a recording are stored as a few ranges.
The matches of a filter are stored as an array, with eight bytes each.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from nri_scope.events import Container, Pod
from nri_scope.filter import Filter

from .grouped_events import GroupedEvents, RowEvents
from .markers import ConnectionMarker, DamageMarker, GapMarker, Key, RowMarker


class NumberList:
    """Ascending numbers, stored individually."""

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self.array = array("q", numbers)

    def __len__(self) -> int:
        return len(self.array)

    def at(self, position: int) -> int:
        """Return the number at a position. Raises IndexError."""
        if position < 0:
            raise IndexError(position)
        return self.array[position]

    def slice(self, start: int, stop: int) -> Sequence[int]:
        """Return the numbers at ``start`` to ``stop`` (exclusive); fewer if the list ends."""
        return self.array[start:stop]

    def rank(self, number: int) -> int:
        """Return the number of smaller numbers."""
        return bisect_left(self.array, number)

    def trim(self, oldest: int) -> bool:
        """Drop numbers below ``oldest``; return whether there were any."""
        gone = self.rank(oldest)
        del self.array[:gone]
        return gone > 0

    def cut(self, newest: int) -> None:
        """Drop the numbers above ``newest``."""
        del self.array[self.rank(newest + 1) :]

    def has(self, number: int) -> bool:
        """Return whether the number is there."""
        at = self.rank(number)
        return at < len(self.array) and self.array[at] == number

    def add(self, number: int) -> bool:
        """Add a number, unless it is there; return whether others have moved."""
        at = self.rank(number)
        if self.has(number):
            return False
        self.array.insert(at, number)
        return at + 1 < len(self.array)

    def extend(self, numbers: array[int]) -> bool:
        """Add ascending numbers, except existing ones; return whether others have moved."""
        known = bisect_right(numbers, self.array[-1]) if self.array else 0
        moved = [self.add(number) for number in numbers[:known]]
        self.array.extend(numbers[known:])
        return any(moved)


class NumberRanges:
    """Ascending numbers, stored as ranges without holes.

    The last range may be assumed: event numbers not examined yet are taken to have no holes.
    """

    def __init__(self, oldest: int = 1) -> None:
        """Create empty ranges. ``oldest``: lower bound of all numbers."""
        self._firsts = array("q")
        self._starts = array("q")
        """Position of each first number, counting trimmed numbers, too."""
        self._count = 0
        """Count of known numbers, including trimmed ones."""
        self.trimmed = 0
        """Count of trimmed numbers that have a position."""
        self._assumed = 0
        """Count of numbers assumed to follow ``last``."""
        self.last = oldest - 1
        """The largest known number."""

    def __len__(self) -> int:
        return self._count - self.trimmed + self._assumed

    def at(self, position: int) -> int:
        """Return the number at a position. Raises IndexError."""
        if not 0 <= position < len(self):
            raise IndexError(position)
        place = position + self.trimmed
        if place >= self._count:
            return self.last + 1 + place - self._count
        run = bisect_right(self._starts, place) - 1
        return self._firsts[run] + place - self._starts[run]

    def slice(self, start: int, stop: int) -> Sequence[int]:
        """Return the numbers at ``start`` to ``stop`` (exclusive); fewer if the ranges end."""
        return [self.at(position) for position in range(max(0, start), min(stop, len(self)))]

    def rank(self, number: int) -> int:
        """Return the number of smaller numbers."""
        if number > self.last:
            return self._count - self.trimmed + min(number - self.last - 1, self._assumed)
        run = bisect_right(self._firsts, number) - 1
        if run < 0:
            return 0
        end = self._starts[run + 1] if run + 1 < len(self._starts) else self._count
        place = min(self._starts[run] + number - self._firsts[run], end)
        return max(0, place - self.trimmed)

    def trim(self, oldest: int) -> bool:
        """Drop numbers below ``oldest``; return whether there were any."""
        gone = self.rank(oldest)
        if oldest > self.last:
            newest = self.last + self._assumed
            del self._firsts[:], self._starts[:]
            self._count = self.trimmed = 0
            self.last = oldest - 1
            self.assume(newest)
        elif gone:
            self.trimmed += gone
            first = bisect_right(self._starts, self.trimmed) - 1
            del self._firsts[:first], self._starts[:first]
        return gone > 0

    def assume(self, newest: int) -> None:
        """Assume all numbers up to ``newest``, until they are known."""
        self._assumed = max(0, newest - self.last)

    def extend(self, first: int, last: int) -> bool:
        """Add the numbers from ``first`` to ``last``, the next ones after the known numbers.

        Returns whether assumed numbers have moved.
        """
        adjacent = first == self.last + 1
        moved = self._assumed > 0 and not adjacent
        newest = self.last + self._assumed
        if not (adjacent and self._firsts):
            self._firsts.append(first)
            self._starts.append(self._count)
        self._count += last - first + 1
        self.last = last
        self.assume(newest)
        return moved

    def settle(self) -> bool:
        """Drop the assumed numbers; return whether there were any."""
        moved = self._assumed > 0
        self._assumed = 0
        return moved


class Numbers(Protocol):
    """Ascending event numbers by position."""

    def __len__(self) -> int: ...

    def at(self, position: int) -> int:
        """Return the number at a position. Raises IndexError."""
        ...

    def slice(self, start: int, stop: int) -> Sequence[int]:
        """Return the numbers at ``start`` to ``stop`` (exclusive); fewer if there are fewer."""
        ...

    def rank(self, number: int) -> int:
        """Return the number of smaller numbers."""
        ...


class Groups(Protocol):
    """The operations that events belong to."""

    grouped: GroupedEvents
    """The events that are not the first of their operation."""

    @property
    def event_count(self) -> int:
        """Number of events of all operations."""
        ...

    def take_touched(self) -> range:
        """Return a range of numbers with all operations to which events were added since the last
        call.
        """
        ...


ViewEntry = int | RowMarker
"""Content of a row: the number of an event, or of an operation's first event, or a marker."""


class View:
    """Rows by position, from 0. Created by `Store.view`."""

    def __init__(
        self,
        numbers: Numbers,
        *,
        where: Filter | None = None,
        about: Pod | Container | None = None,
        looked_at: int = 0,
        groups: Groups | None = None,
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
        self._keys: list[Key] = []
        self._places: list[int] = []
        """Positions of the markers."""
        self._all_markers: tuple[RowMarker, ...] = ()
        """The markers passed to the last `settle`."""
        self._open: set[int] = set()
        """Operations whose events have rows of their own."""
        self._first_movable = Key(0, 0)
        """Rows with smaller keys do not move when numbers are added."""

    @property
    def events(self) -> int:
        """Number of events, or operations, among the rows."""
        return len(self._numbers)

    @property
    def noun(self) -> str:
        """What a row shows: event or operation; event if no operation has several."""
        return "operation" if self.groups is not None and self.groups.grouped.numbers else "event"

    @property
    def is_everything(self) -> bool:
        """Whether the view has no filter and no restriction."""
        return self.where is None and self.about is None

    # -- used while drawing -----------------------------------------------------------------

    def key_at(self, position: int) -> Key:
        """Return the key of the row at a position. Raises IndexError."""
        entry = self.entry(position)
        return Key.of_event(entry) if isinstance(entry, int) else entry.key

    def before(self, key: Key) -> int:
        """Return the number of rows before ``key``: the position of its row, or of the next row."""
        return self._numbers.rank(key.event + (key.is_event > 1)) + bisect_left(self._keys, key)

    def through(self, key: Key) -> int:
        """Return the number of rows up to and including ``key``."""
        return self._numbers.rank(key.event + (key.is_event > 0)) + bisect_right(self._keys, key)

    def key_of(self, event_id: int) -> Key:
        """Return the key of the row that shows an event, or would show it."""
        first = self.number_of(event_id)
        is_open = first in self._open and first != event_id
        return Key.of_connection(event_id) if is_open else Key.of_event(first)

    def current_key(self, key: Key) -> Key:
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
        shown = [one for one in rest if self._is_shown(one)]
        if self.stopped is not None:
            shown = [*(one for one in shown if one.key < self.stopped.key), self.stopped]
        keys = [one.key for one in shown]
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
        self._first_movable = Key(min(last, self.looked_at), 1)
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
                yield ConnectionMarker(Key.of_connection(event), event)

    def _is_shown(self, one: RowMarker) -> bool:
        if isinstance(one, ConnectionMarker):
            return True
        if one.key.event > self.looked_at + 1:
            return False
        if self.is_everything:
            return True
        # Omit sessions, which could outnumber the matches. Show a gap if events may have been lost
        # before a match.
        return isinstance(one, GapMarker) and self._numbers.rank(one.key.event) < self.events


def _key_of(one: RowMarker) -> Key:
    return one.key
