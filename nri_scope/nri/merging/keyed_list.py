# SPDX-License-Identifier: Apache-2.0
"""Edit a list of any length by its members' keys, in constant time for each edit."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

_Item = TypeVar("_Item")


class KeyedItems(Generic[_Item]):
    """A copy of a list with an index by key; of several members with one key, the first counts.

    A reply can have a hundred thousand members: a search through the list for each of them would
    block the process for minutes.
    """

    def __init__(self, items: Iterable[_Item], key_of: Callable[[_Item], str | None]) -> None:
        """Copy `items`. Members for which `key_of` returns None cannot be removed or replaced."""
        self._key_of = key_of
        self._by_place: dict[int, _Item] = {}
        self._places: dict[str, deque[int]] = {}
        self._next = 0
        for item in items:
            self.append(item)

    def append(self, item: _Item) -> None:
        """Add a member at the end, even if its key exists already."""
        place = self._next
        self._next += 1
        self._by_place[place] = item
        key = self._key_of(item)
        if key is not None:
            self._places.setdefault(key, deque()).append(place)

    def remove(self, key: str) -> None:
        """Remove the first member with the key, if any."""
        places = self._places.get(key)
        if places:
            del self._by_place[places.popleft()]

    def replace(self, item: _Item) -> bool:
        """Replace the first member with the key of `item`; return False if there is none."""
        key = self._key_of(item)
        places = None if key is None else self._places.get(key)
        if not places:
            return False
        self._by_place[places[0]] = item
        return True

    def __iter__(self) -> Iterator[_Item]:
        return iter(self._by_place.values())
