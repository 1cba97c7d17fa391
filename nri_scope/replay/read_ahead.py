# SPDX-License-Identifier: Apache-2.0
"""Reading ahead: the next event is read while a plugin thinks about this one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Ahead(Generic[T]):
    """Items, the next of which can be fetched before its turn."""

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items
        self._fetched: list[T] = []
        self._error: Exception | None = None
        """What came instead of the next item, StopIteration too."""

    def look(self) -> None:
        """Fetch the next item, unless it is there. What that raises is raised in its turn."""
        if self._fetched or self._error is not None:
            return
        try:
            self._fetched.append(next(self._items))
        except Exception as error:  # noqa: BLE001 - it belongs to the consumer of the item
            self._error = error

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        self.look()
        if self._error is not None:
            raise self._error
        return self._fetched.pop()
