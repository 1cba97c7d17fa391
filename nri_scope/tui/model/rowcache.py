# SPDX-License-Identifier: Apache-2.0
"""The rows around the screen, by their keys: they stay true when positions change."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

from nri_scope.tui.model.order import Key
from nri_scope.tui.model.rows import Row
from nri_scope.tui.model.view import View

KEPT = 1_024
"""Rows; more than the largest screen and what is read ahead."""
PAGE = 128
"""Rows that are read together."""


class RowCache:
    """Rows that were read, the ones used last."""

    def __init__(self) -> None:
        self._rows: OrderedDict[Key, Row] = OrderedDict()
        self._stale: set[Key] = set()

    def add(self, rows: Iterable[Row]) -> None:
        """Keep ``rows``."""
        for row in rows:
            self._rows[row.key] = row
            self._rows.move_to_end(row.key)
            self._stale.discard(row.key)
        while len(self._rows) > KEPT:
            key, _ = self._rows.popitem(last=False)
            self._stale.discard(key)

    def change(self, change: Callable[[Row], Row]) -> None:
        """What ``change`` makes of each row, whose key stays the same, is kept instead."""
        for key, row in self._rows.items():
            self._rows[key] = change(row)

    def get(self, key: Key) -> Row | None:
        """The row of this key, if it is here, even when it may have changed."""
        return self._rows.get(key)

    def outdate(self) -> None:
        """What is no event may have changed: it is read again when it is needed."""
        self._stale.update(key for key in self._rows if not key.is_event)

    def missing(self, view: View, first: int, last: int) -> tuple[int, int] | None:
        """Of the positions from ``first`` up to ``last`` (excluded), the first stretch to read.

        Its beginning and its length, at most `PAGE`; None where all are here.
        """
        first, last = max(0, first), min(last, view.length)
        for position in range(first, last):
            if not self._has(view.key_at(position)):
                end = position + 1
                while end < min(last, position + PAGE) and not self._has(view.key_at(end)):
                    end += 1
                return position, end - position
        return None

    def _has(self, key: Key) -> bool:
        return key in self._rows and key not in self._stale
