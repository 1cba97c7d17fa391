# SPDX-License-Identifier: Apache-2.0
"""Many short lists of numbers in little memory, and where a number is among many."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence


class Groups:
    """Lists of numbers, each of which ascends. One without holes takes 16 bytes."""

    def __init__(self) -> None:
        self._firsts = array("q")
        self._counts = array("q")
        self._holed: dict[int, array[int]] = {}
        """Those with holes, by their places."""

    def __getitem__(self, at: int) -> Sequence[int]:
        """The list at that place."""
        first = self._firsts[at]
        return self._holed.get(at) or range(first, first + self._counts[at])

    def add_group(self) -> None:
        """One more list, which is empty."""
        self._firsts.append(0)
        self._counts.append(0)

    def append(self, at: int, number: int) -> None:
        """Add to the list at that place a number larger than those in it."""
        count = self._counts[at]
        if not count:
            self._firsts[at] = number
        elif at in self._holed:
            self._holed[at].append(number)
        elif number != self._firsts[at] + count:
            self._holed[at] = array("q", [*self[at], number])
        self._counts[at] = count + 1

    def total(self) -> int:
        """Numbers in all lists."""
        return sum(self._counts)


class Slots:
    """Keys, each with its place; 8 bytes where most of them ascend."""

    def __init__(self) -> None:
        self._largest = array("q")
        """Of each place and all before it, the largest key."""
        self._smaller: dict[int, int] = {}
        """The keys that are not the largest at their places, by these."""
        self._places: dict[int, int] = {}
        """The other way round."""

    def __len__(self) -> int:
        return len(self._largest)

    def append(self, key: int) -> None:
        """One more key, which is not among them."""
        largest = self._largest[-1] if self._largest else key
        if key < largest:
            self._places[key] = len(self)
            self._smaller[len(self)] = key
        self._largest.append(max(key, largest))

    def key(self, place: int) -> int:
        """The key at that place."""
        return self._smaller.get(place, self._largest[place])

    def find(self, key: int) -> int | None:
        """The place of a key; None: it is not among them."""
        place = bisect_left(self._largest, key)
        if place < len(self) and self._largest[place] == key:
            return place
        return self._places.get(key)
