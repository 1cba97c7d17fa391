# SPDX-License-Identifier: Apache-2.0
"""Read the next event while a plugin handles the current one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class ReadAhead(Generic[T]):
    """Iterator whose next item can be fetched early."""

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items
        self._fetched: list[T] = []
        self._error: Exception | None = None
        """Exception to raise in place of the next item, including StopIteration."""

    def look(self) -> None:
        """Fetch the next item, unless already fetched. Its exception is raised by ``next``."""
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
