# SPDX-License-Identifier: Apache-2.0
"""Names that stay visible, and a test whether a value is part of such a name."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

_GRAM, _STEP = 4, 3
"""Length of index keys, and distance between the indexed positions of a name."""
_MIN_INDEXED = _GRAM + _STEP - 1
"""Minimum length of a part that always contains an index key, wherever the part begins."""


class VisibleNames:
    """A set of names, oldest first."""

    def __init__(self, max_characters: int | None = None) -> None:
        """Keep ``max_characters``, dropping the older half of the names; None: keep all."""
        self._most = max_characters
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._by_gram: dict[str, array[int]] = {}
        self._size = 1

    def __contains__(self, name: object) -> bool:
        return name in self._numbers

    def add(self, name: str) -> None:
        """Add a new name."""
        self._put(name)
        if self._most is not None and self._size > self._most:
            # Drop half of the names at once, as the index must be rebuilt.
            self._keep(self._names[(len(self._names) + 1) // 2 :])

    def have_part(self, value: str) -> bool:
        """Return whether a value is part of a name."""
        if len(value) < _MIN_INDEXED:
            return any(value in name for name in self._names)
        last = len(value) - _GRAM
        for first in range(_STEP):
            # Of the index keys required for this alignment, use the key with the fewest names.
            fewest: array[int] | None = None
            for start in range(first, last + 1, _STEP):
                numbers = self._by_gram.get(value[start : start + _GRAM])
                if numbers is None:
                    break
                if fewest is None or len(numbers) < len(fewest):
                    fewest = numbers
            else:
                names = self._names
                if fewest is not None and any(value in names[number] for number in fewest):
                    return True
        return False

    def _keep(self, names: Iterable[str]) -> None:
        self._numbers, self._names, self._by_gram, self._size = {}, [], {}, 1
        for name in names:
            self._put(name)

    def _put(self, name: str) -> None:
        number = self._numbers[name] = len(self._names)
        self._names.append(name)
        self._size += len(name) + 1
        by_gram = self._by_gram
        for gram in {name[at : at + _GRAM] for at in range(0, len(name) - _GRAM + 1, _STEP)}:
            numbers = by_gram.get(gram)
            if numbers is None:
                by_gram[gram] = array("I", (number,))
            else:
                numbers.append(number)
