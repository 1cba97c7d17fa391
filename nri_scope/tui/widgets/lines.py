# SPDX-License-Identifier: Apache-2.0
"""A scrollable widget of styled lines, with an optional cursor.

Only visible lines are laid out, and only the beginning of each, so that a million lines or a line
of many megabytes is fast.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual import events
from textual.binding import BindingType
from textual.cache import LRUCache
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from ..actions import Scope, bindings
from ..text.styled_line import (
    LineSequence,
    Span,
    Style,
    StyledLine,
    breaks,
    hanging,
    line,
    match_spans,
    pattern,
    shown,
    split_by_spans,
    text_of,
    width,
)
from ..textual_workarounds import SizedView
from .messages import StatusText

MAX_WRAPPED = 20_000
"""Maximum number of lines that can be wrapped, as the height of each must be known."""
_MEASURED_LINES = 2_000
"""Number of lines whose width is measured before they are visible."""
_CACHED_LINES = 256
"""Number of lines whose layout is cached."""
_SEARCH_BATCH = 2_000
"""Number of lines that a search examines before yielding to other tasks."""
_SIDE_STEP = 8
"""Columns per step of horizontal scrolling."""
_PLACEHOLDER: StyledLine = (Span("…", Style.DIM),)


class LinesView(SizedView, can_focus=True, inherit_bindings=False):
    """Scrollable lines.

    ``cursor``: keys move a cursor between lines; otherwise, they scroll.
    ``empty``: text shown if there are no lines.

    Text is never interpreted as markup, and always passes through `safe`.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.DETAIL)
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "lines--cursor",
        "lines--match",
        *(f"lines--{style}" for style in Style if style),
    }
    DEFAULT_CSS = """
    LinesView {
        background: $background;
        color: $foreground;
        scrollbar-gutter: stable;
        scrollbar-size: 1 1;
    }
    LinesView > .lines--strong { text-style: bold; }
    LinesView > .lines--dim { color: $text-muted; }
    LinesView > .lines--key { color: $text-primary; }
    LinesView > .lines--good { color: $text-success; }
    LinesView > .lines--bad { color: $text-error; }
    LinesView > .lines--warn { color: $text-warning; }
    LinesView > .lines--note { color: $text-accent; }
    LinesView > .lines--match { text-style: reverse; }
    LinesView > .lines--cursor { background: $block-cursor-blurred-background; }
    LinesView:focus > .lines--cursor {
        background: $block-cursor-background;
        color: $block-cursor-foreground;
    }
    LinesView:nocolor > .lines--cursor { text-style: reverse; }
    """

    wrap: reactive[bool] = reactive(False, init=False)
    """Whether long lines are wrapped; otherwise they scroll horizontally."""
    highlight: reactive[str] = reactive("", init=False)
    """Text highlighted in all lines, ignoring case."""
    cursor: reactive[int] = reactive(0, init=False)
    """Index of the line under the cursor; 0 without a cursor or lines."""

    class Moved(Message):
        """The cursor moved to another line."""

        def __init__(self, lines: LinesView, index: int) -> None:
            super().__init__()
            self.lines = lines
            self.index = index

        @property
        def control(self) -> LinesView:
            """The widget that sent the message."""
            return self.lines

    class Opened(Moved):
        """A line was opened by Enter or a second click."""

    def __init__(
        self,
        source: LineSequence = (),
        *,
        cursor: bool = False,
        wrap: bool = False,
        empty: str = "",
        classes: str | None = None,
    ) -> None:
        super().__init__(classes=classes)
        self.has_cursor = cursor
        self.empty = empty
        self.gutter_width = 0
        """Columns before each line, for the cursor's ``>`` and the ``*`` of marked lines."""
        self.mark_at: Callable[[int], bool] = lambda index: False
        """Predicate: the line with this index is marked."""
        self._source = source
        self.set_reactive(LinesView.wrap, wrap)
        self.found = -1
        """The last line found by a search."""
        self._starts: list[int] = []
        """If lines are wrapped: first row of each line, followed by the total number of rows."""
        self._rows = 0
        self._widest = 0
        self._laid_out: LRUCache[int, Strip] = LRUCache(_CACHED_LINES)

    @property
    def source(self) -> LineSequence:
        """The shown lines."""
        return self._source

    def show(self, source: LineSequence, *, keep_position: bool = False) -> None:
        """Replace the lines; go to the beginning unless ``keep_position``."""
        self._source = source
        self._widest = 0
        if not keep_position:
            self.found = -1
            self.set_reactive(LinesView.cursor, 0)
            self._scroll(0, 0)
        self.changed()

    def changed(self) -> None:
        """Lay out again after lines of the source changed, were added or were removed."""
        self._laid_out.clear()
        self._fit()
        if self.cursor and self.cursor >= len(self._source):
            self.cursor = max(0, len(self._source) - 1)
        self.refresh()

    def go_to(self, index: int) -> None:
        """Scroll to a line and move the cursor to it."""
        index = min(max(0, index), max(0, len(self._source) - 1))
        if self.has_cursor:
            self.cursor = index
        self._reveal(index)

    async def find(self, text: str, start: int, *, forwards: bool = True) -> int | None:
        """Return the first line with `text` from `start` (inclusive); None if there is none.

        Ignores case. Skips lines that are not available yet.
        """
        regex = pattern(text)
        if regex is None:
            return None
        steps = range(start, len(self._source)) if forwards else range(start, -1, -1)
        for count, index in enumerate(steps, 1):
            if not count % _SEARCH_BATCH:
                await asyncio.sleep(0)
            # The source may have shrunk since.
            if not 0 <= index < len(self._source):
                continue
            found = self._source[index]
            if found is not None and regex.search(text_of(shown(found))):
                return index
        return None

    # -- moving -----------------------------------------------------------------------------

    @property
    def top(self) -> int:
        """The index of the first line on the screen."""
        return self._at(self.scroll_offset.y)[0]

    def action_up(self) -> None:
        """Go one line up."""
        self._move(-1)

    def action_down(self) -> None:
        """Go one line down."""
        self._move(1)

    def action_page_up(self) -> None:
        """Go one screen up."""
        self._move(-self._page)

    def action_page_down(self) -> None:
        """Go one screen down."""
        self._move(self._page)

    def action_home(self) -> None:
        """Go to the first line."""
        self._move(-self._rows)

    def action_end(self) -> None:
        """Go to the last line."""
        self._move(self._rows)

    action_first_line, action_last_line = action_home, action_end

    def action_shift_left(self) -> None:
        """Scroll to the left."""
        self._scroll(x=self.scroll_offset.x - _SIDE_STEP)

    def action_shift_right(self) -> None:
        """Scroll to the right."""
        self._scroll(x=self.scroll_offset.x + _SIDE_STEP)

    def action_wrap(self) -> None:
        """Toggle wrapping of long lines."""
        self.wrap = not self.wrap
        if self.wrap and not self.is_wrapped and len(self._source) > MAX_WRAPPED:
            self.wrap = False
            words = f"cannot wrap more than {MAX_WRAPPED:,} lines"
            self.post_message(StatusText(words, problem=True))

    def action_open(self) -> None:
        """Open the line under the cursor."""
        if self.has_cursor and len(self._source):
            self.post_message(self.Opened(self, self.cursor))

    def _move(self, by: int) -> None:
        if self.has_cursor:
            self.go_to(self.cursor + by)
        else:
            self._scroll(y=self.scroll_offset.y + by)

    def _scroll(self, x: int | None = None, y: int | None = None) -> None:
        # Forced, because the scroll bars that allow this may only appear with the next refresh.
        self.scroll_to(x, y, animate=False, force=True)

    @property
    def _page(self) -> int:
        return max(1, self.scrollable_content_region.height - 1)

    def _reveal(self, index: int) -> None:
        first, last = self._rows_of(index)
        height = self.scrollable_content_region.height
        top = self.scroll_offset.y
        if first < top or last - first >= height:
            self._scroll(y=first)
        elif last >= top + height:
            self._scroll(y=last - height + 1)

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked line; a double click opens it."""
        index = self._at(self.scroll_offset.y + event.y)[0]
        if self.has_cursor and index < len(self._source):
            self.cursor = index
            if event.chain == 2:
                self.action_open()

    def watch_cursor(self, before: int, now: int) -> None:
        """Redraw both lines, and post `Moved`."""
        for index in (before, now):
            first, last = self._rows_of(index)
            self.refresh_lines(first, last - first + 1)
        if self.has_cursor:
            self.post_message(self.Moved(self, now))

    def watch_highlight(self) -> None:
        """Redraw all lines."""
        self._laid_out.clear()
        self.refresh()

    def watch_wrap(self) -> None:
        """Keep the top line when wrapping changes."""
        top = self.top
        self._fit()
        self._scroll(0, self._rows_of(top)[0])
        self.refresh()

    def notify_style_update(self) -> None:
        """Redraw after a change of theme or focus."""
        super().notify_style_update()
        self._laid_out.clear()

    def resized(self) -> None:
        """Lay out lines for the new width."""
        self._fit()
        self.refresh()

    # -- rows and lines ---------------------------------------------------------------------

    @property
    def is_wrapped(self) -> bool:
        """Whether lines are currently wrapped."""
        return bool(self._starts)

    @property
    def _room(self) -> int:
        return max(1, self.scrollable_content_region.width - self._gutter)

    @property
    def _gutter(self) -> int:
        return self.gutter_width if len(self._source) else 0

    def _fit(self) -> None:
        """Compute the virtual size from all lines."""
        count = len(self._source)
        if not count and self.empty:
            self._starts = self._wrapped([line(self.empty)])
        elif self.wrap and 0 < count <= MAX_WRAPPED:
            self._starts = self._wrapped(self._source)
        else:
            self._starts = []
            first = range(min(count, _MEASURED_LINES))
            widths = (width(self._source[index] or _PLACEHOLDER) for index in first)
            self._widest = max(self._widest, max(widths, default=0))
        self._rows = self._starts[-1] if self._starts else count
        self.resize_content(Size(0 if self._starts else self._widest, self._rows))
        # As a layout would do.
        self.scroll_x = self.validate_scroll_x(self.scroll_x)
        self.scroll_y = self.validate_scroll_y(self.scroll_y)

    def _wrapped(self, source: LineSequence) -> list[int]:
        """Return the first row of each line, followed by the total number of rows."""
        starts = [0]
        for index in range(len(source)):
            text = text_of(shown(source[index] or _PLACEHOLDER))
            starts.append(starts[-1] + len(breaks(text, self._room)))
        return starts

    def _at(self, row: int) -> tuple[int, int]:
        """Return the line index of a row, and the row's index within that line."""
        if not self._starts:
            return row, 0
        index = bisect_right(self._starts, row) - 1
        return index, row - self._starts[index]

    def _rows_of(self, index: int) -> tuple[int, int]:
        """Return the first and the last row of a line."""
        if index + 1 >= len(self._starts):
            return index, index
        return self._starts[index], self._starts[index + 1] - 1

    # -- drawing ----------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """Draw one row of the screen."""
        gutter = self._gutter
        room = max(0, self.size.width - gutter)
        row = self.scroll_offset.y + y
        style = self.rich_style
        if row >= self._rows:
            return Strip.blank(room + gutter, style)
        index, part = self._at(row)
        strip = self._strip(index)
        begin, end, indent = self.scroll_offset.x, self.scroll_offset.x + room, 0
        if self._starts:
            cuts = breaks(strip.text, self._room)
            part = min(part, len(cuts) - 1)
            begin = cuts[part]
            end = cuts[part + 1] if part + 1 < len(cuts) else strip.cell_length
            indent = hanging(strip.text, self._room) if part else 0
        elif strip.cell_length > self._widest:
            self._widest = strip.cell_length
            self.call_later(self._widen)
        if self.has_cursor and index == self.cursor and len(self._source):
            cursor_style = self._component("cursor")
            style += cursor_style
            strip = Strip(
                [Segment(text, (own or style) + cursor_style) for text, own, _ in strip],
                strip.cell_length,
            )
        strip = strip.crop(begin, end)
        if indent:
            strip = Strip.join([Strip.blank(indent, style), strip])
        strip = strip.adjust_cell_length(room, style)
        if not gutter:
            return strip
        sign = ">" if self.has_cursor and index == self.cursor and not part else " "
        sign += "*" if self.mark_at(index) else ""
        before = Strip([Segment(sign, style)]).adjust_cell_length(gutter, style)
        return Strip.join([before, strip])

    def _widen(self) -> None:
        if not self._starts:
            self.virtual_size = Size(self._widest, self._rows)

    def _strip(self, index: int) -> Strip:
        """Return the strip of a line, without the cursor."""
        strip = self._laid_out.get(index)
        if strip is None:
            found = self._source[index] if len(self._source) else line(self.empty, Style.DIM)
            strip = self._lay_out_line(_PLACEHOLDER if found is None else found)
            if found is not None:
                self._laid_out[index] = strip
        return strip

    def _lay_out_line(self, parts: StyledLine) -> Strip:
        parts = shown(parts)
        spans = match_spans(text_of(parts), self.highlight)
        segments: list[Segment] = []
        at = 0
        for part in parts:
            style = self.rich_style
            if part.style:
                style += self._component(part.style)
            for begin, end, is_match in split_by_spans(at, at + len(part.text), spans):
                span_style = style + self._component("match") if is_match else style
                segments.append(Segment(part.text[begin - at : end - at], span_style))
            at += len(part.text)
        return Strip(segments)

    def _component(self, name: str) -> RichStyle:
        style = self.get_component_rich_style(f"lines--{name}", partial=True)
        if style.color is not None:
            # An `auto` colour, such as of muted text, depends on its background.
            style += RichStyle(color=self.get_component_rich_style(f"lines--{name}").color)
        return style
