# SPDX-License-Identifier: Apache-2.0
"""The common part of all views other than the list of events: a heading, lines, and a remark on
the line under the cursor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import ClassVar, Self

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.geometry import Size
from textual.widget import Widget
from textual.worker import Worker

from nri_scope.errors import NriScopeError
from nri_scope.events import Container, Event, Pod

from ..actions import Keymap, Scope, bindings
from ..store.context import Context
from ..store.store import Store
from ..text.styled_line import Style, StyledLine, cut, line
from ..textual_gaps import begin
from .lines import Lines
from .messages import Failed, LinesThere, RowChosen, StatusText, begin_reading

GUTTER = 2
"""Columns before lines: the cursor's and the mark's sign, as in the list of events."""


class _LinesOf:
    """The lines of a board, created on request."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def __len__(self) -> int:
        return self._board.line_count

    def __getitem__(self, index: int) -> StyledLine | None:
        return self._board.line_at(index)


class BoardLines(Lines, inherit_bindings=False):
    """Lines that are never wider than the screen, and report when other lines become visible."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.CONTAINERS, of_lines=True)
    DEFAULT_CSS = "BoardLines { height: 1fr; scrollbar-size-horizontal: 0; overflow-x: hidden; }"

    on_sight: Callable[[], None] | None = None
    on_size: Callable[[], None] | None = None
    on_cursor: Callable[[], None] | None = None
    """Called while the cursor moves; `Moved` is handled later, when lines may have been
    added."""

    def _fit(self) -> None:
        # Measuring would request many lines that are not on the screen.
        if not len(self.source):
            super()._fit()
            return
        self._starts = []
        self._rows = len(self.source)
        self._widest = self.scrollable_content_region.width
        self.virtual_size = Size(0, self._rows)

    @property
    def seen(self) -> range:
        """The numbers of the visible lines."""
        first = min(self.top, len(self.source))
        return range(first, min(first + self.size.height + 1, len(self.source)))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Report that other lines are visible."""
        super().watch_scroll_y(old_value, new_value)
        self._tell()

    def watch_cursor(self, before: int, now: int) -> None:
        """Update as for all lines, and report the change."""
        super().watch_cursor(before, now)
        if self.on_cursor is not None:
            self.on_cursor()

    def changed(self) -> None:
        """Update as for all lines, and report the change."""
        super().changed()
        self._tell()

    def resized(self) -> None:
        """Update as for all lines, and report the change."""
        super().resized()
        if self.on_size is not None:
            self.on_size()

    def _tell(self) -> None:
        if self.on_sight is not None:
            self.on_sight()


class Board(Widget, can_focus=False):
    """A view of a recording. Call `update` after the recording grew or the context changed."""

    DEFAULT_CSS = """
    Board { layout: vertical; height: 1fr; }
    Board > .board--head { height: 1; background: $panel; color: $text-muted; overflow: hidden; }
    Board > .board--foot { height: 1; color: $text-muted; overflow: hidden; }
    """
    BODY: ClassVar[type[BoardLines]] = BoardLines
    FOOT_LINES: ClassVar[int] = 1

    def __init__(self, store: Store, context: Context, keymap: Keymap) -> None:
        super().__init__()
        self.store = store
        self.context = context
        self.keymap = keymap
        self.head = Lines((), classes="board--head")
        self.head.can_focus = False
        self.body = self.BODY(cursor=True)
        self.head.gutter_width = self.body.gutter_width = GUTTER
        self.is_marked: Callable[[Event | None], bool] = lambda event: False
        """Returns whether an event has a mark."""
        self.foot = Lines((), classes="board--foot")
        self.foot.can_focus = False
        self._wanted = False
        self._working: Worker[None] | None = None
        self._reading = ""
        self._is_looking = False
        self._told_event: int | None = None
        self.is_there = False
        """Whether there are lines, or certainly none."""
        self._is_read = False
        """Whether all has been read, or cannot be."""
        self._is_blind = False
        """Whether reading the visible lines fails."""

    # -- to be overridden -----------------------------------------------------------------

    @property
    def line_count(self) -> int:
        """The current number of lines."""
        raise NotImplementedError

    def line_at(self, index: int) -> StyledLine | None:
        """Return one line; None until it is read."""
        raise NotImplementedError

    async def work(self) -> None:
        """Read the view's data. Raises NriScopeError."""
        raise NotImplementedError

    def resized(self) -> None:
        """Adapt the layout to another width."""
        raise NotImplementedError

    async def look(self) -> bool:
        """Read missing data of the visible lines; return False if nothing was missing.

        Raises NriScopeError.
        """
        return False

    def needs_look(self) -> bool:
        """Return whether data of the visible lines is missing."""
        return False

    def open_line(self) -> None:
        """Open the line under the cursor."""

    def words(self) -> Sequence[StyledLine]:
        """Return words about the line under the cursor."""
        return ()

    @property
    def selected(self) -> Pod | Container | None:
        """The pod or container of the line under the cursor, including that of its event."""
        return None

    @property
    def selected_event_id(self) -> int | None:
        """The event of the line under the cursor."""
        return None

    async def find_line(self, text: str, start: int, *, forwards: bool) -> int | None:
        """Return the next line with ``text`` from ``start`` on (included); None if there is none.

        Raises NriScopeError.
        """
        return await self.body.find(text, start, forwards=forwards)

    # -- common part ----------------------------------------------------------------------

    async def find(self, text: str, *, forwards: bool = True, here: bool = False) -> bool:
        """Go to the next line with ``text``, highlighted; continue from the other end if needed.

        ``here``: include the line under the cursor. Raises NriScopeError.
        """
        self.body.highlight = text
        start = self.body.cursor + (0 if here else 1 if forwards else -1)
        found = await self.find_line(text, start, forwards=forwards)
        if found is None:
            end = 0 if forwards else len(self.body.source) - 1
            found = await self.find_line(text, end, forwards=forwards)
        if found is not None:
            self.body.go_to(found)
        return found is not None

    def compose(self) -> ComposeResult:
        """Compose heading, lines, and words."""
        self.foot.styles.height = self.FOOT_LINES
        yield self.head
        yield self.body
        yield self.foot

    def on_mount(self) -> None:
        """Show the current content, which is still empty.

        Textual calls ``on_mount`` of each class, starting with that of the view itself.
        """
        self.body.on_sight = self.sight
        self.body.on_size = self._resize
        self.body.empty = "reading…"
        self.body.show(_LinesOf(self))

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
        """The end of the shown time: now, or the last recorded moment."""
        if self.store.facts.kind == "live":
            return time.time_ns()
        ends = [session.ended_ns or session.started_ns for session in self.store.sessions]
        return max([self.store.facts.last_ns, *ends])

    async def update(self) -> None:
        """Read new data, in the background. Cheap if there is none."""
        self._wanted = True
        if self._working is None or self._working.is_finished:
            self._working = begin(self, self._work, f"board-{id(self)}")

    def counted_words(self) -> str:
        """Return in words which events are counted; "" for all."""
        told = self.context.told()
        return f"counts include only: {told}" if told else ""

    def begin(self, what: str, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Work in the background, replacing older work for the same purpose."""
        begin_reading(self, work, f"{what}-{id(self)}")

    def sight(self) -> None:
        """Read the visible lines, one reading at a time; the next reading starts with the newest
        position.
        """
        if not self.needs_look():
            self._say_there()
        elif not self._is_looking:
            self._is_looking = True
            self.begin("look", self._look)

    async def _look(self) -> None:
        self._is_blind = False
        try:
            while await self.look():
                pass
        except NriScopeError as error:
            self._is_blind = True
            self.post_message(Failed(error))
        finally:
            self._is_looking = False
            self._say_there()

    def _say_there(self) -> None:
        # Before it has its size, no line is visible, so none was read.
        if self.body.size.height and (self.line_count or self._is_read):
            self.is_there = True
            self.post_message(LinesThere())

    @property
    def lacks_line(self) -> bool:
        """Whether the line under the cursor has not been read yet."""
        if not self.line_count or self._is_blind:
            return False
        return self.line_at(min(self.body.cursor, self.line_count - 1)) is None

    def on_key(self, event: events.Key) -> None:
        """For some keys, explain that they only work in the list of events."""
        for name in ("follow", "pause"):
            if {event.key, event.character} & set(self.keymap[name].keys):
                event.stop()
                key, there = self.keymap.first(name), self.keymap.first("mode_events")
                words = f"{key} only works in the list of events" + (
                    f" (key {there})" if there else ""
                )
                if self.store.facts.growing:
                    words += "; this view always shows new events"
                self.post_message(StatusText(words))

    async def _work(self) -> None:
        while self._wanted:
            self._wanted = False
            try:
                await self.work()
            except NriScopeError as error:
                # Lines read before stay visible.
                self.body.empty = str(error)
                self.body.changed()
                self.say_reading("")
                self.post_message(Failed(error))
                self._is_read = True
                self._say_there()
                return
        self.say_reading("")
        self._is_read = True
        if not self._is_looking:
            self._say_there()

    def say_reading(self, words: str) -> None:
        """Show the reading in progress; "" for none."""
        if words != self._reading:
            self._reading = words
            self.refresh_words()

    def part_of(self, newest: int) -> str:
        """Return the share of the recording that was read, in words."""
        all_of_it = max(1, self.store.facts.events)
        return f"reading: {min(99, 100 * newest // all_of_it)} %"

    def refresh_words(self) -> None:
        """Update the words about the cursor's line."""
        told = list(self.words()) or [()]
        if self._reading:
            told = [line(self._reading, Style.WARN), *told]
        width = max(1, self.foot.size.width)
        shown = tuple(cut(one, width) for one in told[: self.FOOT_LINES])
        self.foot.show(shown, keep_position=True)

    def on_descendant_focus(self) -> None:
        """Let the details follow the cursor again."""
        self._told_event = -1
        self.tell_row()

    def _resize(self) -> None:
        # The lines have another size.
        self.resized()
        self.body.changed()
        self.refresh_words()

    def on_lines_moved(self, message: Lines.Moved) -> None:
        """Follow the cursor to another line."""
        message.stop()
        if message.lines is self.body:
            self.cursor_moved()

    def on_lines_opened(self, message: Lines.Opened) -> None:
        """Open the line: Enter, or a second click."""
        message.stop()
        self.open_line()

    def cursor_moved(self) -> None:
        """Show the line under the cursor, and let the details follow."""
        self.refresh_words()
        self.tell_row()

    def tell_row(self) -> None:
        """Show the row in the detail pane, while this view has the focus."""
        number = self.selected_event_id
        if self.body.has_focus and number != self._told_event:
            self._told_event = number
            self.begin("row", partial(self._tell_row, number))

    async def _tell_row(self, number: int | None) -> None:
        row = None
        if number is not None:
            view = self.store.all
            rows = await self.store.rows(view, view.position_of(number), 1)
            row = rows[0] if rows and rows[0].event_id == number else None
        self.post_message(RowChosen(row))
