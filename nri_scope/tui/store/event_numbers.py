# SPDX-License-Identifier: Apache-2.0
"""Which events there are, by position: positions and event numbers turned into each other.

Event numbers ascend and have few holes, so that all events of a recording are a few runs of numbers
that follow each other. What a filter lets through is an array, eight bytes each.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence


class Ids:
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
        """Forget what is smaller; return whether there was anything."""
        gone = self.rank(oldest)
        del self.array[:gone]
        return gone > 0

    def extend(self, numbers: array[int]) -> None:
        """Add numbers, all larger than those there are."""
        self.array.extend(numbers)


class Runs:
    """Numbers by runs without holes.

    The last run may be no more than assumed: that what has not been looked through yet has no
    holes.
    """

    def __init__(self, oldest: int = 1) -> None:
        """``oldest``: no number is smaller."""
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
        """Forget what is smaller; return whether there was anything."""
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
        """All numbers from ``first`` to ``last`` follow those known, and none in between.

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
        """There is nothing after what is known. Returns whether something had been assumed."""
        moved = self._assumed > 0
        self._assumed = 0
        return moved


Numbers = Ids | Runs
"""Event numbers that ascend."""
