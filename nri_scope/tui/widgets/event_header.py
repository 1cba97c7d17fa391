# SPDX-License-Identifier: Apache-2.0
"""The titles above the columns of the list of events."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from textual.strip import Strip
from textual.widget import Widget

from nri_scope.tui.model.columns import Placed, fitted
from nri_scope.tui.widgets.row_painter import GUTTER


class EventHeader(Widget):
    """The titles above the columns of an `EventList`."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"event-header--field"}
    DEFAULT_CSS = """
    EventHeader { height: 1; background: $panel; color: $text-muted; text-style: bold; }
    EventHeader > .event-header--field { color: $foreground; text-style: bold underline; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._placed: tuple[Placed, ...] = ()
        self._field = ""

    def show(self, placed: tuple[Placed, ...], field: str) -> None:
        """Other columns, or another field that is selected."""
        if (placed, field) != (self._placed, self._field):
            self._placed, self._field = placed, field
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """One line of titles."""
        style = self.rich_style
        chosen = self.get_component_rich_style("event-header--field")
        segments = [Segment(" " * GUTTER, style)]
        for each in self._placed:
            title = fitted(each.title, each.width, right=each.column.right)
            here = each.column.name == self._field
            segments += [Segment(title, chosen if here else style), Segment(" ", style)]
        return Strip(segments).adjust_cell_length(self.size.width, style)
