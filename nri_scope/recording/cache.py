# SPDX-License-Identifier: Apache-2.0
"""Bounded cache of recently used values."""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class RecentlyUsed(Generic[K, V]):
    """Cache of at least the ``limit`` most recently used units, and at most twice as many.

    It has two generations instead of one reordered dictionary: a hit in the young generation, by
    far the most frequent case, costs a single look-up. When the young generation is full, it
    replaces the old one, and old values that were not used in the meantime are evicted.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._young: dict[K, tuple[V, int]] = {}
        self._old: dict[K, tuple[V, int]] = {}
        self._cost = 0

    def get(self, key: K) -> V | None:
        """Return the value stored under ``key``, if it is still cached."""
        entry = self._young.get(key)
        if entry is None:
            entry = self._old.pop(key, None)
            if entry is None:
                return None
            self._add(key, entry)
        return entry[0]

    def put(self, key: K, value: V, cost: int = 1) -> None:
        """Store ``value``, which takes ``cost`` units."""
        self._old.pop(key, None)
        replaced = self._young.pop(key, None)
        if replaced is not None:
            self._cost -= replaced[1]
        self._add(key, (value, cost))

    def __contains__(self, key: K) -> bool:
        return key in self._young or key in self._old

    def clear(self) -> None:
        """Remove all values."""
        self._young, self._old = {}, {}
        self._cost = 0

    def _add(self, key: K, entry: tuple[V, int]) -> None:
        if self._young and self._cost + entry[1] > self._limit:
            self._old, self._young, self._cost = self._young, {}, 0
        self._young[key] = entry
        self._cost += entry[1]
