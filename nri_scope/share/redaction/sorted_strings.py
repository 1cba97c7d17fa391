# SPDX-License-Identifier: Apache-2.0
"""A sorted set of strings in which insertions take the same time at any size."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

MAX_BLOCK = 1_000
"""Maximum number of strings per list; in a single list, each insertion would move half of all."""

Position = tuple[int, int]
"""Number of a list, and index in that list. Valid until the next change."""


class SortedStrings:
    """Consecutive lists of bounded size."""

    def __init__(self) -> None:
        self._lists: list[list[str]] = [[]]
        # The first string of each list except the first list.
        self._firsts: list[str] = []

    def add(self, value: str) -> Position:
        """Add a new string; return its place."""
        number = bisect_right(self._firsts, value)
        some = self._lists[number]
        at = bisect_left(some, value)
        some.insert(at, value)
        if len(some) <= MAX_BLOCK:
            return number, at
        half = len(some) // 2
        self._lists[number : number + 1] = [some[:half], some[half:]]
        self._firsts.insert(number, some[half])
        return (number, at) if at < half else (number + 1, at - half)

    def remove(self, value: str) -> Position:
        """Remove a string, which must exist; return the place of the strings after it."""
        number = bisect_right(self._firsts, value)
        some = self._lists[number]
        at = bisect_left(some, value)
        del some[at]
        return number, at

    def last_to(self, value: str) -> Position | None:
        """Return the place of the last string that does not sort after ``value``, or None."""
        number = bisect_right(self._firsts, value)
        at = bisect_right(self._lists[number], value) - 1
        return (number, at) if at >= 0 else self._end_before(number)

    def at(self, place: Position) -> str:
        """Return the string at a place."""
        return self._lists[place[0]][place[1]]

    def before(self, place: Position) -> Position | None:
        """Return the preceding place, or None."""
        number, at = place
        return (number, at - 1) if at else self._end_before(number)

    def since(self, place: Position) -> Iterator[str]:
        """Yield all strings from a place on."""
        number, at = place
        while number < len(self._lists):
            some = self._lists[number]
            while at < len(some):
                yield some[at]
                at += 1
            number, at = number + 1, 0

    def _end_before(self, number: int) -> Position | None:
        while number:
            number -= 1
            if self._lists[number]:
                return number, len(self._lists[number]) - 1
        return None
