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
        block = self._lists[number]
        index = bisect_left(block, value)
        block.insert(index, value)
        if len(block) <= MAX_BLOCK:
            return number, index
        half = len(block) // 2
        self._lists[number : number + 1] = [block[:half], block[half:]]
        self._firsts.insert(number, block[half])
        return (number, index) if index < half else (number + 1, index - half)

    def remove(self, value: str) -> Position:
        """Remove a string, which must exist; return the place of the strings after it."""
        number = bisect_right(self._firsts, value)
        block = self._lists[number]
        index = bisect_left(block, value)
        del block[index]
        return number, index

    def last_to(self, value: str) -> Position | None:
        """Return the place of the last string that does not sort after ``value``, or None."""
        number = bisect_right(self._firsts, value)
        index = bisect_right(self._lists[number], value) - 1
        return (number, index) if index >= 0 else self._end_before(number)

    def string_at(self, position: Position) -> str:
        """Return the string at a place."""
        return self._lists[position[0]][position[1]]

    def before(self, position: Position) -> Position | None:
        """Return the preceding place, or None."""
        number, index = position
        return (number, index - 1) if index else self._end_before(number)

    def since(self, position: Position) -> Iterator[str]:
        """Yield all strings from a place on."""
        number, index = position
        while number < len(self._lists):
            block = self._lists[number]
            while index < len(block):
                yield block[index]
                index += 1
            number, index = number + 1, 0

    def _end_before(self, number: int) -> Position | None:
        while number:
            number -= 1
            if self._lists[number]:
                return number, len(self._lists[number]) - 1
        return None
