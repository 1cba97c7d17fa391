# SPDX-License-Identifier: Apache-2.0
"""A list of any length that is edited by its members' keys."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

_Item = TypeVar("_Item")


class Indexed(Generic[_Item]):
    """A copy of `items`, in their order; of several with one key, the first one counts.

    A plugin can put a hundred thousand members into one reply: walking the list for each of them
    would take minutes, during which nothing else runs.
    """

    def __init__(self, items: Iterable[_Item], key_of: Callable[[_Item], str | None]) -> None:
        """Take `key_of`, which returns None for members without a key; these stay in place."""
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
        """Replace the first member with its key; return False if none has it."""
        key = self._key_of(item)
        places = None if key is None else self._places.get(key)
        if not places:
            return False
        self._by_place[places[0]] = item
        return True

    def __iter__(self) -> Iterator[_Item]:
        return iter(self._by_place.values())
