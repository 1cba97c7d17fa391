# SPDX-License-Identifier: Apache-2.0
"""Read rows of a list: first those on the screen, then up to two screens around them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from textual.widget import Widget

from nri_scope.errors import NriScopeError

from ..store.markers import RowKey
from ..store.rows import ListRow
from ..store.store import Store
from ..store.view import View
from ..textual_workarounds import begin
from ..widgets.messages import Failed

KEPT = 1_024
"""Maximum number of cached rows; more than a large screen and the rows read ahead."""
PAGE = 128
"""Maximum number of rows per read."""


class RowCache:
    """Cache of the most recently read rows."""

    def __init__(self) -> None:
        self._rows: OrderedDict[RowKey, ListRow] = OrderedDict()
        self._stale: set[RowKey] = set()
        self.generation = 0
        """Number of times that rows were outdated."""

    def add(self, rows: Iterable[ListRow], generation: int) -> None:
        """Add or replace rows; ``generation`` is that of when their reading began.

        Rows that may have been outdated since then are to be read again.
        """
        for row in rows:
            self._rows[row.key] = row
            self._rows.move_to_end(row.key)
            self._stale.discard(row.key)
            if generation != self.generation:
                self._stale.add(row.key)
        while len(self._rows) > KEPT:
            key, _ = self._rows.popitem(last=False)
            self._stale.discard(key)

    def change(self, change: Callable[[ListRow], ListRow]) -> None:
        """Replace each row by ``change(row)``, which must keep the key."""
        for key, row in self._rows.items():
            self._rows[key] = change(row)

    def get(self, key: RowKey) -> ListRow | None:
        """Return the cached row of a key, even if outdated; None if there is none."""
        return self._rows.get(key)

    def outdate(self, *, events: bool = False) -> None:
        """Mark rows of gaps and sessions, or all rows, to be read again when needed."""
        self.generation += 1
        self._stale.update(key for key in self._rows if events or not key.is_event)

    def outdate_events(self, numbers: range) -> None:
        """Mark the rows of these events or operations to be read again when needed."""
        if numbers:
            self.generation += 1
            self._stale.update(key for key in self._rows if key.is_event and key.event in numbers)

    def clear(self) -> None:
        """Drop all rows."""
        self.generation += 1
        self._rows.clear()
        self._stale.clear()

    def missing(self, view: View, first: int, last: int) -> tuple[int, int] | None:
        """Return start and length of the first rows to read between ``first`` and ``last``.

        The length is at most `PAGE`. Returns None if all rows are cached.
        """
        first, last = max(0, first), min(last, view.length)
        for position in range(first, last):
            if not self._has(view.key_at(position)):
                end = position + 1
                while end < min(last, position + PAGE) and not self._has(view.key_at(end)):
                    end += 1
                return position, end - position
        return None

    def _has(self, key: RowKey) -> bool:
        return key in self._rows and key not in self._stale


class RowReader:
    """Background reader of rows into a `RowCache`."""

    def __init__(
        self,
        widget: Widget,
        store: Store,
        is_marked: Callable[[ListRow], bool],
        on_read: Callable[[View, Sequence[ListRow]], None],
    ) -> None:
        """Create the reader. ``on_read`` receives the view and the rows read; ``widget`` runs the
        workers.
        """
        self.rows = RowCache()
        self._widget = widget
        self._store = store
        self._is_marked = is_marked
        self._on_read = on_read
        self._reading: set[tuple[int, int, int]] = set()
        """Start, length and generation of each read."""

    def read_missing(self, view: View, top: int, height: int) -> None:
        """Start reading the next missing rows of the screen at ``top``, or around it."""
        for first, last in (
            (top, top + height),
            (top + height, top + 3 * height),
            (top - 2 * height, top),
        ):
            missing = self.rows.missing(view, first, last)
            if missing is None:
                continue
            on_screen = (first, last) == (top, top + height)
            read = (*missing, self.rows.generation)
            # Reading ahead waits for other reads: the newest request would be served first.
            if not self._reading or (on_screen and read not in self._reading):
                self._reading.add(read)
                work = partial(self._read, view, *read)
                begin(self._widget, work, "rows", exit_on_error=False)
            return

    async def read(self, view: View, first: int, height: int) -> Sequence[ListRow]:
        """Read and return the first missing rows of a screen. Raises NriScopeError."""
        missing = self.rows.missing(view, first, first + height)
        generation = self.rows.generation
        rows = await self._store.rows(view, *missing) if missing is not None else ()
        self._cache(rows, generation)
        return rows

    def refresh_marks(self) -> None:
        """Update the marks of the cached rows."""
        self.rows.change(self._marked)

    async def _read(self, view: View, start: int, count: int, generation: int) -> None:
        try:
            rows = await self._store.rows(view, start, count)
        except NriScopeError as error:
            self._widget.post_message(Failed(error))
            return
        finally:
            self._reading.discard((start, count, generation))
        self._cache(rows, generation)
        self._on_read(view, rows)

    def _cache(self, rows: Sequence[ListRow], generation: int) -> None:
        self.rows.add(map(self._marked, rows), generation)

    def _marked(self, row: ListRow) -> ListRow:
        return row.mark(self._is_marked(row))
