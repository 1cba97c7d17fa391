# SPDX-License-Identifier: Apache-2.0
"""Reading the rows of a list: first those on the screen, then a screen or two around them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from textual.widget import Widget

from nri_scope.errors import NriScopeError

from ..store.markers import Key
from ..store.rows import Row
from ..store.store import Store
from ..store.view import View
from ..textual_gaps import begin
from ..widgets.messages import Failed

KEPT = 1_024
"""Maximum number of rows kept; more than the largest screen and the rows read ahead."""
PAGE = 128
"""Number of rows that are read together."""


class RowCache:
    """The most recently used rows."""

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
        """Replace each row by the result of ``change``, which keeps its key."""
        for key, row in self._rows.items():
            self._rows[key] = change(row)

    def get(self, key: Key) -> Row | None:
        """Return the cached row of this key, even if it may have changed."""
        return self._rows.get(key)

    def outdate(self) -> None:
        """Read rows of gaps and sessions again when they are needed: they may have changed."""
        self._stale.update(key for key in self._rows if not key.is_event)

    def missing(self, view: View, first: int, last: int) -> tuple[int, int] | None:
        """Return the first stretch between ``first`` and ``last`` that has to be read.

        The result is its beginning and its length, at most `PAGE`; None if all rows are cached.
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


class RowReader:
    """Reads in the background, and keeps what it has read in a `RowCache`."""

    def __init__(
        self,
        widget: Widget,
        store: Store,
        is_marked: Callable[[Row], bool],
        arrived: Callable[[View, Sequence[Row]], None],
    ) -> None:
        """Set up the reader. ``arrived`` gets each view and the rows read for it. ``widget`` runs
        the workers.
        """
        self.rows = RowCache()
        self._widget = widget
        self._store = store
        self._is_marked = is_marked
        self._arrived = arrived
        self._reading: set[tuple[int, int]] = set()

    def want(self, view: View, top: int, height: int) -> None:
        """Read the missing rows of a screen that begins at ``top``, one stretch at a time."""
        for first, last in (
            (top, top + height),
            (top + height, top + 3 * height),
            (top - 2 * height, top),
        ):
            stretch = self.rows.missing(view, first, last)
            if stretch is None:
                continue
            on_screen = (first, last) == (top, top + height)
            # The newest request is served first: reading ahead can wait.
            if not self._reading or (on_screen and stretch not in self._reading):
                self._reading.add(stretch)
                work = partial(self._read, view, *stretch)
                begin(self._widget, work, "rows", exit_on_error=False)
            return

    async def read(self, view: View, first: int, height: int) -> Sequence[Row]:
        """Read the missing rows of a screen, and return the screen. Raises NriScopeError."""
        stretch = self.rows.missing(view, first, first + height)
        rows = await self._store.rows(view, *stretch) if stretch is not None else ()
        self._keep(rows)
        return rows

    def refresh_marks(self) -> None:
        """Update the marks of the cached rows."""
        self.rows.change(self._marked)

    async def _read(self, view: View, start: int, count: int) -> None:
        try:
            rows = await self._store.rows(view, start, count)
        except NriScopeError as error:
            self._widget.post_message(Failed(error))
            return
        finally:
            self._reading.discard((start, count))
        self._keep(rows)
        self._arrived(view, rows)

    def _keep(self, rows: Sequence[Row]) -> None:
        self.rows.add(self._marked(row) for row in rows)

    def _marked(self, row: Row) -> Row:
        return row.mark(self._is_marked(row))
