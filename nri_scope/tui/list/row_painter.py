# SPDX-License-Identifier: Apache-2.0
"""Rows of the list of events, and the titles above them, as strips of the screen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.strip import Strip
from textual.widget import Widget

from ..store.rows import Row
from ..text.styled_line import fitted
from ..text.wrapping import pieces, places
from .columns import PlacedColumn, cell

GUTTER = 2
"""Columns before each row: the cursor's and the mark's sign."""
PREFIX = "event-list--"
"""Prefix of style names: of rows, and ``cursor``, ``field``, ``dim``, ``mark``, ``match``."""
_DIM_COLUMNS = frozenset(("id", "time", "elapsed", "deadline"))


class RowPainter:
    """Draws with the styles of ``widget``."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self.placed: tuple[PlacedColumn, ...] = ()
        self.field = ""
        """The name of the selected column."""
        self.search_text = ""
        """Text that is highlighted in all rows."""

    def strip(self, row: Row, *, at_cursor: bool, width: int) -> Strip:
        """Return the row in ``width`` columns."""
        over = self._style("cursor") if at_cursor else RichStyle.null()
        blank = self._widget.rich_style
        strip = Strip(self._segments(row, at_cursor, width, over))
        return strip.adjust_cell_length(width, blank + over)

    def waiting(self, *, at_cursor: bool, width: int) -> Strip:
        """Return the placeholder of a row that is still being read."""
        sign = ">" if at_cursor else " "
        strip = Strip([Segment(f"{sign} …", self._style("dim"))])
        return strip.adjust_cell_length(width, self._widget.rich_style)

    def _style(self, name: str, *, partial: bool = False) -> RichStyle:
        return self._widget.get_component_rich_style(f"{PREFIX}{name}", partial=partial)

    def _segments(
        self, row: Row, at_cursor: bool, width: int, over: RichStyle
    ) -> Iterator[Segment]:
        base = self._style(row.style)
        if at_cursor:
            base += over
        mark = self._style("mark")
        yield Segment(">" if at_cursor else " ", base)
        yield Segment("*" if row.marked else " ", mark + over)
        if row.event is None:
            yield from self._highlighted(fitted(row.text, width - GUTTER), base)
            return
        dim = self._style("dim") + over
        chosen = self._style("field", partial=True)
        for each in self.placed:
            text = cell(row, each)
            quiet = each.column.name in _DIM_COLUMNS or row.cells[each.at] == "ok"
            style = dim if quiet else base
            if at_cursor and each.column.name == self.field:
                style += chosen
            yield from self._highlighted(text, style)
            yield Segment(" ", base)

    def _highlighted(self, text: str, style: RichStyle) -> Iterator[Segment]:
        spans = places(text, self.search_text)
        match = style + self._style("match", partial=True) if spans else style
        for begin, end, is_match in pieces(0, len(text), spans):
            yield Segment(text[begin:end], match if is_match else style)


class EventHeader(Widget):
    """The titles above the columns of an `EventList`."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"event-header--field"}
    DEFAULT_CSS = """
    EventHeader { height: 1; background: $panel; color: $text-muted; text-style: bold; }
    EventHeader > .event-header--field { color: $foreground; text-style: bold underline; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._placed: tuple[PlacedColumn, ...] = ()
        self._field = ""

    def show(self, placed: tuple[PlacedColumn, ...], field: str) -> None:
        """Show other columns, or another selected field."""
        if (placed, field) != (self._placed, self._field):
            self._placed, self._field = placed, field
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the titles."""
        style = self.rich_style
        chosen = self.get_component_rich_style("event-header--field")
        segments = [Segment(" " * GUTTER, style)]
        for each in self._placed:
            title = fitted(each.title, each.width, right=each.column.right)
            here = each.column.name == self._field
            segments += [Segment(title, chosen if here else style), Segment(" ", style)]
        return Strip(segments).adjust_cell_length(self.size.width, style)
