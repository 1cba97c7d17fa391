# SPDX-License-Identifier: Apache-2.0
"""Ascending event numbers by position: of all events, of a filter's matches, and of operations.

Event numbers have few holes, so all events of a recording are stored as a few ranges. The matches
of a filter are stored as an array, with eight bytes each. Other threads read which events belong to
an operation, while the drawing thread adds new ones.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple


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

    def add_runs(self, runs: Iterable[tuple[int, int]]) -> bool:
        """Add the numbers after the known ones in runs from a first to a last one.

        Returns whether assumed numbers have moved.
        """
        moved = False
        for first, last in runs:
            if last > self.last:
                moved |= self.extend(max(first, self.last + 1), last)
        return moved

    def settle(self) -> bool:
        """Drop the assumed numbers; return whether there were any."""
        moved = self._assumed > 0
        self._assumed = 0
        return moved


class Grouped(NamedTuple):
    """The result of one step, for the events after those of the step before."""

    rest: array[int]
    """Numbers of the events that are not the first of their operation, ascending. Those of one
    operation are consecutive."""
    firsts: array[int]
    """For each of them, the number of the first event of its operation."""
    newest: int
    """Number of the last event that was grouped."""
    set_ups: Sequence[int] = ()
    """Those of ``firsts`` by which a plugin begins to join its runtime, for each of ``rest``."""
    is_restart: bool = False
    """Whether the results of all earlier steps are void."""


class GroupedEvents(NamedTuple):
    """The events that are not the first of their operation. They are only ever added."""

    numbers: array[int]
    """Ascending; those of one operation are consecutive."""
    firsts: array[int]
    """The first event of the operation of each; possibly already of one more."""

    @classmethod
    def none(cls) -> GroupedEvents:
        """Return no events."""
        return cls(array("q"), array("q"))

    def add(self, numbers: array[int], firsts: array[int]) -> None:
        """Add the next events."""
        # In this order, as other threads find events by number.
        self.firsts.extend(firsts)
        self.numbers.extend(numbers)

    def first_of(self, number: int) -> int:
        """Return the first event of the operation of an event."""
        at = bisect_left(self.numbers, number)
        found = at < len(self.numbers) and self.numbers[at] == number
        return self.firsts[at] if found else number

    def firsts_of(self, numbers: Iterable[int]) -> array[int]:
        """Return the first events of the operations of events, ascending, each once."""
        return array("q", sorted(set(map(self.first_of, numbers))))

    def events_of(self, first: int) -> list[int]:
        """Return the events of an operation, ascending."""
        start = end = bisect_left(self.numbers, first)
        while end < len(self.numbers) and self.firsts[end] == first:
            end += 1
        return [first, *self.numbers[start:end]]


@dataclass(frozen=True, slots=True)
class RowEvents:
    """The events in some rows of a view, as of now."""

    rows: Sequence[int]
    """Number of the event of each row, or of its operation's first event; ascending."""
    grouped: GroupedEvents | None
    """None: each row shows one event."""

    def of(self, rows: Sequence[int]) -> Sequence[int]:
        """Return all events in some of the rows, ascending."""
        if self.grouped is None:
            return rows
        return sorted(chain.from_iterable(map(self.grouped.events_of, rows)))

    def all(self) -> array[int]:
        """Return all events, ascending. Takes about 1 µs for each."""
        return array("q", self.of(self.rows))

    def count(self) -> int:
        """Return the number of all events. Takes about 1 µs for each row."""
        if self.grouped is None:
            return len(self.rows)
        return sum(len(self.grouped.events_of(row)) for row in self.rows)


class Operations:
    """The first events of all operations, with the interface of `NumberList`.

    Only the other events are stored, with 24 bytes each. Events that were not grouped yet are
    operations of their own.
    """

    def __init__(self, numbers: NumberRanges) -> None:
        """Create it for these events, all of which must be known before they are grouped."""
        self.newest = 0
        """Number of the newest grouped event."""
        self.grouped = GroupedEvents.none()
        """The other events; replaced, instead of changed, if some are removed."""
        self.set_ups: set[int] = set()
        """Numbers of the operations by which a plugin joins its runtime."""
        self.has_others = False
        """Whether others have several events, too."""
        self._all = numbers
        self._places = array("q")
        """Number of operations before each of the other events, counting trimmed events, too."""
        self._dropped = 0
        """Count of trimmed elements of these arrays."""
        self._touched: range = range(0)

    def __len__(self) -> int:
        return len(self._all) - len(self.grouped.numbers)

    def at(self, position: int) -> int:
        """Return the number at a position. Raises IndexError."""
        if position < 0:
            raise IndexError(position)
        offset = self._all.trimmed - self._dropped
        return self._all.at(position + bisect_right(self._places, position + offset))

    def slice(self, start: int, stop: int) -> Sequence[int]:
        """Return the numbers at ``start`` to ``stop`` (exclusive); fewer if there are fewer."""
        return [self.at(position) for position in range(max(0, start), min(stop, len(self)))]

    def rank(self, number: int) -> int:
        """Return the number of smaller numbers."""
        return self._all.rank(number) - bisect_left(self.grouped.numbers, number)

    @property
    def event_count(self) -> int:
        """Number of events of all operations."""
        return len(self._all)

    def add(self, grouped: Grouped) -> bool:
        """Add the next events; return whether existing rows have moved."""
        if grouped.is_restart:
            self.grouped, self._places = GroupedEvents.none(), array("q")
            self.set_ups.clear()
            self.has_others = False
        self.set_ups.update(grouped.set_ups)
        self.has_others |= len(grouped.rest) > len(grouped.set_ups)
        before = len(self.grouped.numbers)
        for known, number in enumerate(grouped.rest, before):
            place = self._all.rank(number) - known
            self._places.append(place + self._all.trimmed - self._dropped)
        self.grouped.add(grouped.rest, grouped.firsts)
        if grouped.firsts:
            first = min(grouped.firsts)
            self._touched = range(min(first, self._touched.start or first), grouped.newest + 1)
        self.newest = grouped.newest
        return bool(grouped.rest) or grouped.is_restart

    def trim(self, oldest: int) -> tuple[int, int] | None:
        """Drop numbers below ``oldest``; call it after they were removed from all numbers.

        Returns the former and the new first event of an operation that was removed in part.
        """
        renamed: tuple[int, int] | None = None
        numbers, firsts = self.grouped
        gone = bisect_left(numbers, oldest)
        if gone < len(numbers) and firsts[gone] < oldest:
            # The first event of its operation was removed: this is the first one now.
            renamed = firsts[gone], numbers[gone]
            if renamed[0] in self.set_ups:
                self.set_ups.add(renamed[1])
            gone += 1
        numbers, firsts = self.grouped = GroupedEvents(numbers[gone:], firsts[gone:])
        at = 0
        while renamed is not None and at < len(firsts) and firsts[at] == renamed[0]:
            firsts[at] = renamed[1]
            at += 1
        del self._places[:gone]
        self._dropped += gone
        return renamed

    def take_touched(self) -> range:
        """Return a range of numbers with all operations to which events were added since the last
        call.
        """
        touched, self._touched = self._touched, range(0)
        return touched
