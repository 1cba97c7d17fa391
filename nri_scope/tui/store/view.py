# SPDX-License-Identifier: Apache-2.0
"""Which rows there are, by position: all of a recording, or those that a filter lets through.

In memory and without I/O, so that positions, keys and lengths can be asked for while drawing. A
view changes only on the thread that draws, when `Store.refresh` or a filter's progress tells.

Event numbers ascend and have few holes, so that all events of a recording are a few runs of numbers
that follow each other. What a filter lets through is an array, eight bytes each.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from nri_scope.events import Container, Pod
from nri_scope.filter import Filter

from .markers import DamageMarker, GapMarker, Key, RowMarker


class NumberList:
    """Numbers one by one."""

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self.array = array("q", numbers)

    def __len__(self) -> int:
        return len(self.array)

    def at(self, position: int) -> int:
        """Return the number there. Raises IndexError."""
        if position < 0:
            raise IndexError(position)
        return self.array[position]

    def slice(self, start: int, stop: int) -> Sequence[int]:
        """Return the numbers from one position up to another one; fewer where there are fewer."""
        return self.array[start:stop]

    def rank(self, number: int) -> int:
        """Return how many numbers are smaller."""
        return bisect_left(self.array, number)

    def trim(self, oldest: int) -> bool:
        """Drop smaller numbers; return whether there were any."""
        gone = self.rank(oldest)
        del self.array[:gone]
        return gone > 0

    def extend(self, numbers: array[int]) -> None:
        """Add numbers, all larger than those there are."""
        self.array.extend(numbers)


class NumberRanges:
    """Numbers by runs without holes.

    The last run may be no more than assumed: that what has not been looked through yet has no
    holes.
    """

    def __init__(self, oldest: int = 1) -> None:
        """Set up the position. ``oldest``: no number is smaller."""
        self._firsts = array("q")
        self._starts = array("q")
        """Positions of these, counted from the first number that there ever was."""
        self._count = 0
        """Numbers known, those included that were trimmed."""
        self._trimmed = 0
        self._assumed = 0
        """How many are assumed after ``last``."""
        self.last = oldest - 1
        """The largest number known."""

    def __len__(self) -> int:
        return self._count - self._trimmed + self._assumed

    def at(self, position: int) -> int:
        """Return the number there. Raises IndexError."""
        if not 0 <= position < len(self):
            raise IndexError(position)
        place = position + self._trimmed
        if place >= self._count:
            return self.last + 1 + place - self._count
        run = bisect_right(self._starts, place) - 1
        return self._firsts[run] + place - self._starts[run]

    def slice(self, start: int, stop: int) -> Sequence[int]:
        """Return the numbers from one position up to another one; fewer where there are fewer."""
        return [self.at(position) for position in range(max(0, start), min(stop, len(self)))]

    def rank(self, number: int) -> int:
        """Return how many numbers are smaller."""
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
        """Assume all numbers up to ``newest``, as long as nothing else is known."""
        self._assumed = max(0, newest - self.last)

    def extend(self, first: int, last: int) -> bool:
        """Add all numbers from ``first`` to ``last``; none is between them and those known.

        Returns whether that moves what was assumed.
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
        """Assume nothing after what is known. Returns whether something had been assumed."""
        moved = self._assumed > 0
        self._assumed = 0
        return moved


Numbers = NumberList | NumberRanges
"""Event numbers that ascend."""


ViewEntry = int | RowMarker
"""What is at a position: an event's number, or what lies between events."""


class View:
    """Rows by position, from 0. Made by `Store.view`."""

    def __init__(
        self,
        numbers: Numbers,
        *,
        where: Filter | None = None,
        about: Pod | Container | None = None,
        looked_at: int = 0,
    ) -> None:
        """Set up the view. ``looked_at``: ``numbers`` has everything up to this event."""
        self.where = where
        self.about = about
        self.length = 0
        """Rows, those included that are no events."""
        self.complete = False
        """False while a filter is at work, or event numbers are still being looked through."""
        self.revision = 0
        """Changes when rows have moved; while it stays the same, rows were at most added at the
        end. Pages that were read by position are worth nothing after a change."""
        self.looked_at = looked_at
        """All of this view up to this event is known."""
        self.stopped: DamageMarker | None = None
        """Why nothing is known of what follows."""
        self._numbers = numbers
        self._between: list[RowMarker] = []
        self._keys: list[Key] = []
        self._places: list[int] = []
        """Their positions."""
        self._given: tuple[RowMarker, ...] = ()
        """What these were taken from."""
        self._fixed = Key(0, 0)
        """What has a smaller key stays where it is as long as numbers are only added."""

    @property
    def events(self) -> int:
        """Events among the rows: 0 means that nothing was recorded, or that nothing matched."""
        return len(self._numbers)

    @property
    def is_everything(self) -> bool:
        """Whether the view shows everything."""
        return self.where is None and self.about is None

    # -- asked while drawing ----------------------------------------------------------------

    def key_at(self, position: int) -> Key:
        """Return the key of the row there. Raises IndexError."""
        entry = self.entry(position)
        return Key.of_event(entry) if isinstance(entry, int) else entry.key

    def before(self, key: Key) -> int:
        """Return how many rows are before ``key``: the position of its row, or of the next one."""
        return self._numbers.rank(key.event) + bisect_left(self._keys, key)

    def through(self, key: Key) -> int:
        """Return how many rows there are up to ``key``, that row included."""
        return self._numbers.rank(key.event + key.is_event) + bisect_right(self._keys, key)

    def position_of(self, event_id: int) -> int:
        """Return where that event is; where it is not in the view, the next row's position (at most
        ``length - 1``; 0 in an empty view).
        """
        return max(0, min(self.before(Key.of_event(event_id)), self.length - 1))

    def shows(self, event_id: int) -> bool:
        """Return whether that event is in the view."""
        return self._numbers.rank(event_id + 1) > self._numbers.rank(event_id)

    def entry(self, position: int) -> ViewEntry:
        """Return what is there. Raises IndexError."""
        at = bisect_left(self._places, position)
        if at < len(self._places) and self._places[at] == position:
            return self._between[at]
        return self._numbers.at(position - at)

    def entries(self, start: int, count: int) -> list[ViewEntry]:
        """Return what is at these positions; fewer where the view ends."""
        start = max(0, start)
        return [self.entry(position) for position in range(start, min(start + count, self.length))]

    def numbers_between(self, start: int, stop: int) -> Sequence[int]:
        """Return the events at the positions from ``start`` up to ``stop``."""
        first = start - bisect_left(self._places, start)
        return self._numbers.slice(first, stop - bisect_left(self._places, stop))

    @property
    def between(self) -> Sequence[RowMarker]:
        """The rows that are no events, in order."""
        return self._between

    # -- told by the store ------------------------------------------------------------------

    def settle(self, between: tuple[RowMarker, ...], *, moved: bool = False) -> None:
        """Find the places again: the numbers have changed, or what lies between them.

        ``between``: all that the recording has, by their keys; the same object where it is the same
        as before. ``moved``: some of the numbers have other positions now.
        """
        kept, rest = 0, between
        if between is self._given and self.stopped is None and not moved:
            # Only what goes behind the last event of before can have come or gone, or be elsewhere:
            # a recording of many reconnects grows at the cost of what comes.
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
        # What is not shown as it is not reached yet is looked at again, too.
        self._fixed = Key(min(last, self.looked_at), 1)
        if moved:
            self.revision += 1

    def _concerns(self, one: RowMarker) -> bool:
        if one.key.event > self.looked_at + 1:
            return False
        if self.is_everything:
            return True
        # Sessions would drown the few events that are looked for. A gap is worth a line where
        # what was lost may have been before one of them.
        return isinstance(one, GapMarker) and self._numbers.rank(one.key.event) < self.events


def _key_of(one: RowMarker) -> Key:
    return one.key
