# SPDX-License-Identifier: Apache-2.0
"""Reading the rows of a list: first those on the screen, then a screen or two around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from textual.widget import Widget

from nri_scope.errors import NriScopeError
from nri_scope.tui.model.rowcache import RowCache
from nri_scope.tui.model.rows import Row
from nri_scope.tui.model.store import Store
from nri_scope.tui.model.view import View
from nri_scope.tui.widgets.messages import Failed
from nri_scope.tui.workers import begin


class RowReader:
    """Reads in the background, and keeps what it has read in a `RowCache`."""

    def __init__(
        self,
        widget: Widget,
        store: Store,
        is_marked: Callable[[Row], bool],
        arrived: Callable[[View, Sequence[Row]], None],
    ) -> None:
        """``arrived`` is told what was read of which view. ``widget`` has the workers."""
        self.rows = RowCache()
        self._widget = widget
        self._store = store
        self._is_marked = is_marked
        self._arrived = arrived
        self._reading: set[tuple[int, int]] = set()

    def want(self, view: View, top: int, height: int) -> None:
        """Read what is missing of a screen that begins at ``top``, one stretch at a time."""
        for first, last in (
            (top, top + height),
            (top + height, top + 3 * height),
            (top - 2 * height, top),
        ):
            stretch = self.rows.missing(view, first, last)
            if stretch is None:
                continue
            on_screen = (first, last) == (top, top + height)
            # The newest request is served first: what is read ahead can wait.
            if not self._reading or (on_screen and stretch not in self._reading):
                self._reading.add(stretch)
                work = partial(self._read, view, *stretch)
                begin(self._widget, work, "rows", exit_on_error=False)
            return

    async def read(self, view: View, first: int, height: int) -> Sequence[Row]:
        """Read what is missing of a screen, and return it. Raises NriScopeError."""
        stretch = self.rows.missing(view, first, first + height)
        rows = await self._store.rows(view, *stretch) if stretch is not None else ()
        self._keep(rows)
        return rows

    def remark(self) -> None:
        """Other rows are marked."""
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
