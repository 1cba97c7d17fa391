# SPDX-License-Identifier: Apache-2.0
"""The events of operations, for any thread, while the drawing thread adds new ones."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple


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
