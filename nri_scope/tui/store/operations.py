# SPDX-License-Identifier: Apache-2.0
"""Operations of a recording by position, each known by the number of its first event."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

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
        self._all = numbers
        self._rest, self._firsts = array("q"), array("q")
        """The other events, and the first event of the operation of each."""
        self._places = array("q")
        """Number of operations before each of them, counting trimmed events, too."""
        self._dropped = 0
        """Count of trimmed elements of these arrays."""
        self._touched: set[int] = set()

    def __len__(self) -> int:
        return len(self._all) - len(self._rest)

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
        return self._all.rank(number) - bisect_left(self._rest, number)

    @property
    def has_several(self) -> bool:
        """Whether any operation has several events."""
        return bool(self._rest)

    def first_of(self, number: int) -> int:
        """Return the first event of the operation of an event."""
        at = bisect_left(self._rest, number)
        found = at < len(self._rest) and self._rest[at] == number
        return self._firsts[at] if found else number

    def events_of(self, first: int) -> list[int]:
        """Return the events of an operation, ascending."""
        start = end = bisect_left(self._rest, first)
        while end < len(self._rest) and self._firsts[end] == first:
            end += 1
        return [first, *self._rest[start:end]]

    def everything(self) -> Sequence[int]:
        """Return all events, ascending."""
        return self._all.slice(0, len(self._all))

    def add(self, found: Grouped) -> bool:
        """Add the next events; return whether existing rows have moved."""
        if found.is_restart:
            del self._rest[:], self._firsts[:], self._places[:]
        for number, first in zip(found.rest, found.firsts, strict=True):
            place = self._all.rank(number) - len(self._rest)
            self._places.append(place + self._all.trimmed - self._dropped)
            self._rest.append(number)
            self._firsts.append(first)
            self._touched.add(first)
        self.newest = found.newest
        return bool(found.rest) or found.is_restart

    def trim(self, oldest: int) -> tuple[int, int] | None:
        """Drop numbers below ``oldest``; call it after they were removed from all numbers.

        Returns the former and the new first event of an operation that was removed in part.
        """
        renamed: tuple[int, int] | None = None
        gone = bisect_left(self._rest, oldest)
        if gone < len(self._rest) and self._firsts[gone] < oldest:
            # The first event of its operation was removed: this is the first one now.
            first, old = self._rest[gone], self._firsts[gone]
            renamed = old, first
            gone += 1
            at = gone
            while at < len(self._rest) and self._firsts[at] == old:
                self._firsts[at] = first
                at += 1
        del self._rest[:gone], self._firsts[:gone], self._places[:gone]
        self._dropped += gone
        return renamed

    def take_touched(self) -> set[int]:
        """Return the operations to which events were added since the last call."""
        touched, self._touched = self._touched, set()
        return touched
