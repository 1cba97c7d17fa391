# SPDX-License-Identifier: Apache-2.0
"""Distinct strings in their order, where adding one takes the same however many there are."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

MOST = 1_000
"""Strings in one list; in a list of all, each one that is added would move half of them."""

Place = tuple[int, int]
"""Which list, and where in it. Valid until something is added or removed."""


class SortedStrings:
    """Lists of a bounded size, one after the other."""

    def __init__(self) -> None:
        self._lists: list[list[str]] = [[]]
        # The first one of each list but the first one.
        self._firsts: list[str] = []

    def add(self, value: str) -> Place:
        """Add a string that is not there yet; returns where it is."""
        number = bisect_right(self._firsts, value)
        some = self._lists[number]
        at = bisect_left(some, value)
        some.insert(at, value)
        if len(some) <= MOST:
            return number, at
        half = len(some) // 2
        self._lists[number : number + 1] = [some[:half], some[half:]]
        self._firsts.insert(number, some[half])
        return (number, at) if at < half else (number + 1, at - half)

    def remove(self, value: str) -> Place:
        """Take a string away that is there; returns where those that follow it begin."""
        number = bisect_right(self._firsts, value)
        some = self._lists[number]
        at = bisect_left(some, value)
        del some[at]
        return number, at

    def last_to(self, value: str) -> Place | None:
        """Where the last one is that does not come after ``value``."""
        number = bisect_right(self._firsts, value)
        at = bisect_right(self._lists[number], value) - 1
        return (number, at) if at >= 0 else self._end_before(number)

    def at(self, place: Place) -> str:
        """The string at a place."""
        return self._lists[place[0]][place[1]]

    def before(self, place: Place) -> Place | None:
        """Where the one before it is."""
        number, at = place
        return (number, at - 1) if at else self._end_before(number)

    def since(self, place: Place) -> Iterator[str]:
        """All from a place on."""
        number, at = place
        while number < len(self._lists):
            some = self._lists[number]
            while at < len(some):
                yield some[at]
                at += 1
            number, at = number + 1, 0

    def _end_before(self, number: int) -> Place | None:
        while number:
            number -= 1
            if self._lists[number]:
                return number, len(self._lists[number]) - 1
        return None
