# SPDX-License-Identifier: Apache-2.0
"""Base of all views except the list of events: a heading, lines, and remarks on the line under
the cursor.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, Self

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.geometry import Size
from textual.widget import Widget
from textual.worker import Worker

from nri_scope.errors import NriScopeError
from nri_scope.events import Container, Event, Pod

from ..actions import Scope, bindings
from ..store.context import Context
from ..store.recording_overview import RecordingKind
from ..store.rows import ListRow
from ..store.store import Store
from ..text.styled_line import Style, StyledLine, cut, line
from ..textual_workarounds import begin
from .lines import LinesView
from .messages import Failed, LinesAvailable, RowChosen, begin_reading

_CONTENT_CHECK_S = 0.05
"""Seconds between checks of a search for the first lines."""
GUTTER = 2
"""Columns before each line, for the signs of cursor and mark, as in the list of events."""


class _BoardSource:
    """Source of a board's lines, created on request."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def __len__(self) -> int:
        return self._board.line_count

    def __getitem__(self, index: int) -> StyledLine | None:
        return self._board.line_at(index)


class BoardLines(LinesView, inherit_bindings=False):
    """Lines no wider than the screen, which report when other lines become visible."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.CONTAINERS, of_lines=True)
    DEFAULT_CSS = """
    BoardLines { height: 1fr; min-height: 2; scrollbar-size-horizontal: 0; overflow-x: hidden; }
    """

    on_visible_changed: Callable[[], None] | None = None
    on_resized: Callable[[], None] | None = None
    on_cursor: Callable[[], None] | None = None
    """Called immediately when the cursor moves. `Moved` is handled later, when lines may have
    been added."""

    def _fit(self) -> None:
        # Do not measure lines: that would request many that are not visible.
        if not len(self.source):
            super()._fit()
            return
        self._starts = []
        self._rows = len(self.source)
        self._widest = self.scrollable_content_region.width
        self.virtual_size = Size(0, self._rows)

    @property
    def visible_lines(self) -> range:
        """Indices of the visible lines."""
        first = min(self.top, len(self.source))
        return range(first, min(first + self.size.height + 1, len(self.source)))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Report that other lines became visible."""
        super().watch_scroll_y(old_value, new_value)
        self._report_visible()

    def watch_cursor(self, before: int, now: int) -> None:
        """Redraw the cursor, and report its move."""
        super().watch_cursor(before, now)
        if self.on_cursor is not None:
            self.on_cursor()

    def changed(self) -> None:
        """Lay out changed lines, and report the visible ones."""
        super().changed()
        self._report_visible()

    def resized(self) -> None:
        """Lay out lines for the new size, keep the cursor visible, and report it."""
        super().resized()
        if self.cursor < len(self.source):
            self._reveal(self.cursor)
        if self.on_resized is not None:
            self.on_resized()

    def _report_visible(self) -> None:
        if self.on_visible_changed is not None:
            self.on_visible_changed()


class Board(Widget, can_focus=False):
    """A view of a recording.

    Call `update` after the recording has grown or the context has changed.
    """

    DEFAULT_CSS = """
    Board { layout: vertical; height: 1fr; }
    Board > .board--head { height: 1; background: $panel; color: $text-muted; overflow: hidden; }
    Board > .board--foot { height: 1; color: $text-muted; overflow: hidden; }
    """
    BODY: ClassVar[type[BoardLines]] = BoardLines
    FOOT_LINES: ClassVar[int] = 1

    def __init__(self, store: Store, context: Context) -> None:
        super().__init__()
        self.store = store
        self.context = context
        self.head = LinesView((), classes="board--head")
        self.head.can_focus = False
        self.body = self.BODY(cursor=True)
        self.head.gutter_width = self.body.gutter_width = GUTTER
        self.is_marked: Callable[[Event | None], bool] = lambda event: False
        """Predicate: the event is marked."""
        self.foot = LinesView((), classes="board--foot")
        self.foot.can_focus = False
        self._update_requested = False
        self._working: Worker[None] | None = None
        self._progress = ""
        self._is_reading_visible = False
        self._reported: tuple[int | None, ListRow | None] | None = None, None
        self.has_content = False
        """Whether lines have been read, or reading has shown that there are none."""
        self._is_read = False
        """Whether reading has completed or failed."""
        self._has_read_error = False
        """Whether reading the visible lines failed."""

    # -- to be overridden -----------------------------------------------------------------

    @property
    def line_count(self) -> int:
        """The current number of lines."""
        raise NotImplementedError

    def line_at(self, index: int) -> StyledLine | None:
        """Return one line; None if it has not been read."""
        raise NotImplementedError

    async def work(self) -> None:
        """Read the view's data. Raises NriScopeError."""
        raise NotImplementedError

    def resized(self) -> None:
        """Adapt the layout to another width."""
        raise NotImplementedError

    def marks_changed(self) -> None:
        """Redraw after marks have changed."""
        self.body.changed()

    async def read_missing(self) -> bool:
        """Read data missing in the visible lines; return False if nothing was missing.

        Raises NriScopeError.
        """
        return False

    def is_missing_data(self) -> bool:
        """Return whether data of the visible lines is missing."""
        return False

    def open_line(self) -> None:
        """Open the line under the cursor."""

    def remarks(self) -> Sequence[StyledLine]:
        """Return remarks on the line under the cursor."""
        return ()

    def legend(self) -> Sequence[StyledLine]:
        """Return the legend of this view's signs, for the help."""
        return ()

    @property
    def selected(self) -> Pod | Container | None:
        """The pod or container of the line under the cursor, or of that line's event."""
        return None

    @property
    def selected_event_id(self) -> int | None:
        """The event of the line under the cursor."""
        return None

    @property
    def row_without_event(self) -> ListRow | None:
        """The row of the line under the cursor for the detail pane if there is no event."""
        return None

    async def find_line(self, text: str, start: int, *, forwards: bool) -> int | None:
        """Return the first line with ``text`` from ``start`` (inclusive); None if there is none.

        Raises NriScopeError.
        """
        return await self.body.find(text, start, forwards=forwards)

    # -- common part ----------------------------------------------------------------------

    async def find(self, text: str, *, forwards: bool = True, here: bool = False) -> bool:
        """Go to the next line with ``text``, wrapping at the end, and highlight all matches.

        ``here``: include the line under the cursor. Raises NriScopeError.
        """
        self.body.highlight = text
        while not self.has_content:
            await asyncio.sleep(_CONTENT_CHECK_S)
        start = self.body.cursor + (0 if here else 1 if forwards else -1)
        found = await self.find_line(text, start, forwards=forwards)
        if found is None:
            end = 0 if forwards else len(self.body.source) - 1
            found = await self.find_line(text, end, forwards=forwards)
        if found is not None:
            self.body.go_to(found)
        return found is not None

    def compose(self) -> ComposeResult:
        """Compose heading, lines and remarks."""
        self.foot.styles.height = self.FOOT_LINES
        yield self.head
        yield self.body
        yield self.foot

    def on_mount(self) -> None:
        """Connect the lines, which are still empty.

        Textual calls ``on_mount`` of every class, starting with the most derived one.
        """
        self.body.on_visible_changed = self.request_missing
        self.body.on_resized = self._resize
        self.body.empty = "reading…"
        self.body.show(_BoardSource(self))

    def focus(self, scroll_visible: bool = True) -> Self:
        """Focus the lines."""
        self.body.focus(scroll_visible)
        return self

    @property
    def room(self) -> int:
        """Columns of a line."""
        return max(1, self.body.scrollable_content_region.width - GUTTER)

    @property
    def now_ns(self) -> int:
        """End of the shown time: now if live, else the last recorded time."""
        if self.store.facts.kind is RecordingKind.LIVE:
            return time.time_ns()
        ends = [session.ended_ns or session.started_ns for session in self.store.sessions]
        return max([self.store.facts.last_ns, *ends])

    async def update(self) -> None:
        """Start reading new data in the background. Cheap if there is none."""
        self._update_requested = True
        if self._working is None or self._working.is_finished:
            self._working = begin(self, self._work, f"board-{id(self)}")

    def restriction_note(self) -> str:
        """Describe the restriction of the counted events; "" if all are counted."""
        restriction = self.context.description()
        return f"counts include only: {restriction}" if restriction else ""

    def begin(self, purpose: str, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Run ``work`` in the background, replacing earlier work of the same ``purpose``."""
        begin_reading(self, work, f"{purpose}-{id(self)}")

    def request_missing(self) -> None:
        """Read the visible lines unless that is under way; it continues at the newest position."""
        if not self.is_missing_data():
            self._report_content()
        elif not self._is_reading_visible:
            self._is_reading_visible = True
            self.begin("look", self._read_visible)

    async def _read_visible(self) -> None:
        self._has_read_error = False
        try:
            while await self.read_missing():
                pass
        except NriScopeError as error:
            self._has_read_error = True
            self.post_message(Failed(error))
        finally:
            self._is_reading_visible = False
            self._report_content()

    def _report_content(self) -> None:
        # Without a size, no line is visible, and none was read.
        if self.body.size.height and (self.line_count or self._is_read):
            self.has_content = True
            self.post_message(LinesAvailable())

    @property
    def lacks_line(self) -> bool:
        """Whether the line under the cursor has not been read yet."""
        if not self.line_count or self._has_read_error:
            return False
        return self.line_at(min(self.body.cursor, self.line_count - 1)) is None

    async def _work(self) -> None:
        while self._update_requested:
            self._update_requested = False
            try:
                await self.work()
            except NriScopeError as error:
                # Keep the lines read so far.
                self.body.empty = str(error)
                self.body.changed()
                self.show_progress("")
                self.post_message(Failed(error))
                self._is_read = True
                self._report_content()
                return
        self.show_progress("")
        self._is_read = True
        if not self._is_reading_visible:
            self._report_content()

    def show_progress(self, words: str) -> None:
        """Show the progress of reading; "" removes it."""
        if words != self._progress:
            self._progress = words
            self.refresh_remarks()

    def progress_text(self, newest: int) -> str:
        """Format the share of the recording read up to event ``newest``."""
        total = max(1, self.store.facts.events)
        return f"reading: {min(99, 100 * newest // total)} %"

    def refresh_remarks(self) -> None:
        """Update progress and remarks below the lines."""
        remarks = list(self.remarks()) or [()]
        if self._progress:
            remarks = [line(self._progress, Style.WARN), *remarks]
        width = max(1, self.foot.size.width)
        shown = tuple(cut(remark, width) for remark in remarks[: self.FOOT_LINES])
        self.foot.show(shown, keep_position=True)

    def on_descendant_focus(self) -> None:
        """Report the row under the cursor again, for the detail pane."""
        self._reported = None
        self.report_row()

    def _resize(self) -> None:
        self.resized()
        self.body.changed()
        self.refresh_remarks()

    def on_lines_view_moved(self, message: LinesView.Moved) -> None:
        """Handle a move of the cursor."""
        message.stop()
        if message.lines is self.body:
            self.cursor_moved()

    def on_lines_view_opened(self, message: LinesView.Opened) -> None:
        """Open the line on Enter or a second click."""
        message.stop()
        self.open_line()

    def cursor_moved(self) -> None:
        """Update the remarks and the detail pane."""
        self.refresh_remarks()
        self.report_row()

    def report_row(self) -> None:
        """Report the row for the detail pane if this view is shown."""
        chosen = self.selected_event_id, self.row_without_event
        if self.display and chosen != self._reported:
            self._reported = chosen
            self.begin("row", partial(self._report_row, *chosen))

    async def _report_row(self, number: int | None, row: ListRow | None) -> None:
        if number is not None:
            view = self.store.all
            rows = await self.store.rows(view, view.position_of(number), 1)
            if rows and rows[0].event_id == number:
                row = replace(rows[0], subject=row.subject if row else None)
        if self.display:
            # Another view may have been shown, and have reported its own row, since then.
            self.post_message(RowChosen(row))
