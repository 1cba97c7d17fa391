# SPDX-License-Identifier: Apache-2.0
"""Operations of a recording by position, each known by the number of its first event."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .grouped_events import GroupedEvents
from .view import NumberRanges

if TYPE_CHECKING:
    # Imported late, because importing the differ takes long.
    from nri_scope.differ.operations import Grouped


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

    def add(self, found: Grouped) -> bool:
        """Add the next events; return whether existing rows have moved."""
        if found.is_restart:
            self.grouped, self._places = GroupedEvents.none(), array("q")
        before = len(self.grouped.numbers)
        for known, number in enumerate(found.rest, before):
            place = self._all.rank(number) - known
            self._places.append(place + self._all.trimmed - self._dropped)
        self.grouped.add(found.rest, found.firsts)
        if found.firsts:
            first = min(found.firsts)
            self._touched = range(min(first, self._touched.start or first), found.newest + 1)
        self.newest = found.newest
        return bool(found.rest) or found.is_restart

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
