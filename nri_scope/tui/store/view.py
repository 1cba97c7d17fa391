# SPDX-License-Identifier: Apache-2.0
"""Rows by position: all of a recording, or those that pass a filter.

In memory and without I/O, so that positions, keys and lengths are available while drawing. A
view changes only on the thread that draws, through `Store.refresh` or a filter's progress.

Event numbers ascend and have few holes, so that all events of a recording are a few consecutive
ranges of numbers. The matches of a filter are an array, with eight bytes each.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from nri_scope.events import Container, Pod
from nri_scope.filter import Filter

from .markers import DamageMarker, GapMarker, Key, RowMarker


class NumberList:
    """Numbers stored individually."""

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
        """Return the numbers from one position up to another one; fewer if the list ends."""
        return self.array[start:stop]

    def rank(self, number: int) -> int:
        """Return how many numbers are smaller than ``number``."""
        return bisect_left(self.array, number)

    def trim(self, oldest: int) -> bool:
        """Drop smaller numbers; return whether there were any."""
        gone = self.rank(oldest)
        del self.array[:gone]
        return gone > 0

    def extend(self, numbers: array[int]) -> None:
        """Add numbers, all larger than the existing ones."""
        self.array.extend(numbers)


class NumberRanges:
    """Numbers stored as ranges without holes.

    The last range may be an assumption: that numbers of events not yet examined have no
    holes.
    """

    def __init__(self, oldest: int = 1) -> None:
        """Set up the position. ``oldest``: no number is smaller."""
        self._firsts = array("q")
        self._starts = array("q")
        """Positions of these, counted from the first number that ever existed."""
        self._count = 0
        """Count of known numbers, including trimmed ones."""
        self._trimmed = 0
        self._assumed = 0
        """Count of numbers assumed after ``last``."""
        self.last = oldest - 1
        """The largest known number."""

    def __len__(self) -> int:
        return self._count - self._trimmed + self._assumed

    def at(self, position: int) -> int:
        """Return the number at a position. Raises IndexError."""
        if not 0 <= position < len(self):
            raise IndexError(position)
        place = position + self._trimmed
        if place >= self._count:
            return self.last + 1 + place - self._count
        run = bisect_right(self._starts, place) - 1
        return self._firsts[run] + place - self._starts[run]

    def slice(self, start: int, stop: int) -> Sequence[int]:
        """Return the numbers from one position up to another one; fewer if the ranges end."""
        return [self.at(position) for position in range(max(0, start), min(stop, len(self)))]

    def rank(self, number: int) -> int:
        """Return how many numbers are smaller than ``number``."""
        if number > self.last:
            return self._count - self._trimmed + min(number - self.last - 1, self._assumed)
        run = bisect_right(self._firsts, number) - 1
        if run < 0:
            return 0
        end = self._starts[run + 1] if run + 1 < len(self._starts) else self._count
        place = min(self._starts[run] + number - self._firsts[run], end)
        return max(0, place - self._trimmed)

    def trim(self, oldest: int) -> bool:
        """Drop smaller numbers; return whether there were any."""
        gone = self.rank(oldest)
        if oldest > self.last:
            newest = self.last + self._assumed
            del self._firsts[:], self._starts[:]
            self._count = self._trimmed = 0
            self.last = oldest - 1
            self.assume(newest)
        elif gone:
            self._trimmed += gone
            first = bisect_right(self._starts, self._trimmed) - 1
            del self._firsts[:first], self._starts[:first]
        return gone > 0

    def assume(self, newest: int) -> None:
        """Assume all numbers up to ``newest``, until more is known."""
        self._assumed = max(0, newest - self.last)

    def extend(self, first: int, last: int) -> bool:
        """Add all numbers from ``first`` to ``last``; none is between them and the known ones.

        Returns whether that moves assumed numbers.
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
        """Drop the assumed numbers. Returns whether there were any."""
        moved = self._assumed > 0
        self._assumed = 0
        return moved


Numbers = NumberList | NumberRanges
"""Ascending event numbers."""


ViewEntry = int | RowMarker
"""Content of a position: an event's number, or a marker between events."""


class View:
    """Rows by position, from 0. Created by `Store.view`."""

    def __init__(
        self,
        numbers: Numbers,
        *,
        where: Filter | None = None,
        about: Pod | Container | None = None,
        looked_at: int = 0,
    ) -> None:
        """Set up the view. ``looked_at``: ``numbers`` is complete up to this event."""
        self.where = where
        self.about = about
        self.length = 0
        """Number of rows, including those that are not events."""
        self.complete = False
        """Whether no filter is running, and all event numbers have been read."""
        self.revision = 0
        """Changes when rows have moved; otherwise rows were at most added at the end. Pages that
        were read by position are invalid after a change."""
        self.looked_at = looked_at
        """The event up to which this view is complete."""
        self.stopped: DamageMarker | None = None
        """Why later events are unknown."""
        self._numbers = numbers
        self._between: list[RowMarker] = []
        self._keys: list[Key] = []
        self._places: list[int] = []
        """Positions of the markers."""
        self._given: tuple[RowMarker, ...] = ()
        """The markers from which these were selected."""
        self._fixed = Key(0, 0)
        """Rows with a smaller key do not move while numbers are only added."""

    @property
    def events(self) -> int:
        """Number of events among the rows: 0 if nothing was recorded, or nothing matched."""
        return len(self._numbers)

    @property
    def is_everything(self) -> bool:
        """Whether the view shows everything."""
        return self.where is None and self.about is None

    # -- used while drawing -----------------------------------------------------------------

    def key_at(self, position: int) -> Key:
        """Return the key of the row at a position. Raises IndexError."""
        entry = self.entry(position)
        return Key.of_event(entry) if isinstance(entry, int) else entry.key

    def before(self, key: Key) -> int:
        """Return how many rows are before ``key``: the position of its row, or of the next one."""
        return self._numbers.rank(key.event) + bisect_left(self._keys, key)

    def through(self, key: Key) -> int:
        """Return how many rows there are up to ``key``, including its row."""
        return self._numbers.rank(key.event + key.is_event) + bisect_right(self._keys, key)

    def position_of(self, event_id: int) -> int:
        """Return the position of an event; if it is not in the view, that of the next row (at most
        ``length - 1``; 0 in an empty view).
        """
        return max(0, min(self.before(Key.of_event(event_id)), self.length - 1))

    def shows(self, event_id: int) -> bool:
        """Return whether the event is in the view."""
        return self._numbers.rank(event_id + 1) > self._numbers.rank(event_id)

    def entry(self, position: int) -> ViewEntry:
        """Return the entry at a position. Raises IndexError."""
        at = bisect_left(self._places, position)
        if at < len(self._places) and self._places[at] == position:
            return self._between[at]
        return self._numbers.at(position - at)

    def entries(self, start: int, count: int) -> list[ViewEntry]:
        """Return the entries at these positions; fewer if the view ends."""
        start = max(0, start)
        return [self.entry(position) for position in range(start, min(start + count, self.length))]

    def numbers_between(self, start: int, stop: int) -> Sequence[int]:
        """Return the events at the positions from ``start`` up to ``stop``."""
        first = start - bisect_left(self._places, start)
        return self._numbers.slice(first, stop - bisect_left(self._places, stop))

    @property
    def between(self) -> Sequence[RowMarker]:
        """The rows that are not events, in order."""
        return self._between

    # -- updates by the store ---------------------------------------------------------------

    def settle(self, between: tuple[RowMarker, ...], *, moved: bool = False) -> None:
        """Update the positions after a change of the numbers or of the markers between them.

        ``between``: all markers of the recording, sorted by key; the same object if they have not
        changed. ``moved``: some of the numbers have other positions now.
        """
        kept, rest = 0, between
        if between is self._given and self.stopped is None and not moved:
            # Only markers after the previous last event can have come, gone or moved: the cost of
            # growth is that of the new data, even in a recording of many reconnects.
            kept = bisect_left(self._keys, self._fixed)
            rest = between[bisect_left(between, self._fixed, key=_key_of) :]
        shown = [one for one in rest if self._concerns(one)]
        if self.stopped is not None:
            shown = [*(one for one in shown if one.key < self.stopped.key), self.stopped]
        keys = [one.key for one in shown]
        places = [self._numbers.rank(key.event) + at for at, key in enumerate(keys, kept)]
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
        self._given = between
        # Markers that are not shown because they are not reached yet are examined again, too.
        self._fixed = Key(min(last, self.looked_at), 1)
        if moved:
            self.revision += 1

    def _concerns(self, one: RowMarker) -> bool:
        if one.key.event > self.looked_at + 1:
            return False
        if self.is_everything:
            return True
        # Sessions would hide the few matching events. A gap is worth a line if the lost events may
        # have been before one of them.
        return isinstance(one, GapMarker) and self._numbers.rank(one.key.event) < self.events


def _key_of(one: RowMarker) -> Key:
    return one.key
