# SPDX-License-Identifier: Apache-2.0
"""Drawing of rows of the list of events, and of the titles above them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual import events
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from nri_scope.events import Status
from nri_scope.text.escape import columns

from ..store.rows import ListRow
from ..text.styled_line import fitted, match_spans, split_by_spans
from .columns import PlacedColumn, cell

GUTTER = 2
"""Columns before each row, for the signs of cursor and mark."""
PREFIX = "event-list--"
"""Prefix of component classes: row styles, ``cursor``, ``field``, ``dim``, ``mark``, ``match``."""


class RowPainter:
    """Painter of rows with the component styles of ``widget``."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self.placed: tuple[PlacedColumn, ...] = ()
        self.field = ""
        """Name of the selected column."""
        self.search_text = ""
        """Text highlighted in all rows; "" for none."""

    def strip(self, row: ListRow, *, at_cursor: bool, width: int) -> Strip:
        """Draw a row, ``width`` columns wide."""
        cursor_style = self._style("cursor") if at_cursor else RichStyle.null()
        blank = self._widget.rich_style
        strip = Strip(self._segments(row, at_cursor, width, cursor_style))
        return strip.adjust_cell_length(width, blank + cursor_style)

    def placeholder(self, *, at_cursor: bool, width: int) -> Strip:
        """Draw the placeholder of a row that has not been read."""
        sign = ">" if at_cursor else " "
        strip = Strip([Segment(f"{sign} …", self._style("dim"))])
        return strip.adjust_cell_length(width, self._widget.rich_style)

    def _style(self, name: str, *, partial: bool = False) -> RichStyle:
        return self._widget.get_component_rich_style(f"{PREFIX}{name}", partial=partial)

    def _segments(
        self, row: ListRow, at_cursor: bool, width: int, cursor_style: RichStyle
    ) -> Iterator[Segment]:
        row_style = self._style(row.style)
        if at_cursor:
            row_style += cursor_style
        mark_style = self._style("mark") + cursor_style
        yield Segment(">" if at_cursor else " ", row_style)
        yield Segment("*" if row.marked else " ", mark_style)
        for text, style in self._runs(row, at_cursor, width, row_style, cursor_style):
            spans = match_spans(text, self.search_text)
            match_style = style + self._style("match", partial=True) if spans else style
            for begin, end, is_match in split_by_spans(0, len(text), spans):
                yield Segment(text[begin:end], match_style if is_match else style)

    def _runs(
        self,
        row: ListRow,
        at_cursor: bool,
        width: int,
        row_style: RichStyle,
        cursor_style: RichStyle,
    ) -> Iterator[tuple[str, RichStyle]]:
        """Yield the cells and the blanks after them, neighbours of one style together.

        Cells of a search are separate, as no match is in two of them, and so are cells with wide
        characters, on whose width terminals disagree.
        """
        if row.event is None:
            yield fitted(row.text, width - GUTTER), row_style
            return
        dim_style = self._style("dim") + cursor_style
        run, run_style, ok = "", row_style, Status.OK
        for placed in self.placed:
            text = cell(row, placed)
            is_dim = placed.column.dim or row.cells[placed.at] == ok
            style = dim_style if is_dim else row_style
            is_field = at_cursor and placed.column.name == self.field
            is_separate = is_field or self.search_text or columns(text) != len(text)
            if style is not run_style or is_separate:
                yield run, run_style
                run, run_style = "", style
            if is_separate:
                field_style = self._style("field", partial=True)
                yield text, style + field_style if is_field else style
                text = ""
            run += text + " "
        yield run, run_style


class EventHeader(Widget):
    """The titles above the columns of an `EventList`."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"event-header--field"}
    DEFAULT_CSS = """
    EventHeader { height: 1; background: $panel; color: $text-muted; text-style: bold; }
    EventHeader > .event-header--field { color: $foreground; text-style: bold underline; }
    """

    _placed: reactive[tuple[PlacedColumn, ...]] = reactive(())
    _field: reactive[str] = reactive("")

    def show(self, placed: tuple[PlacedColumn, ...], field: str) -> None:
        """Update the columns and the selected field."""
        self._placed, self._field = placed, field

    @dataclass
    class Clicked(Message):
        """The title of a column was clicked."""

        column: str

    def on_click(self, event: events.Click) -> None:
        """Tell which column's title was clicked."""
        begin = GUTTER
        for placed in self._placed:
            if begin <= event.x < (begin := begin + placed.width + 1):
                self.post_message(self.Clicked(placed.column.name))

    def render_line(self, y: int) -> Strip:
        """Draw the titles."""
        style = self.rich_style
        field_style = self.get_component_rich_style("event-header--field")
        segments = [Segment(" " * GUTTER, style)]
        for placed in self._placed:
            title = fitted(placed.title, placed.width, right=placed.column.right)
            is_selected = placed.column.name == self._field
            segments += [Segment(title, field_style if is_selected else style), Segment(" ", style)]
        return Strip(segments).adjust_cell_length(self.size.width, style)
