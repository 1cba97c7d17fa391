# SPDX-License-Identifier: Apache-2.0
"""The widget with the lines of a timeline's lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.binding import BindingType

from ..actions import Scope, bindings
from ..widgets.board import GUTTER, BoardLines


class TimelineLines(BoardLines, inherit_bindings=False):
    """Lines of the lanes, which report the clicked column."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.TIMELINE, of_lines=True)

    on_column: Callable[[int], None] = lambda _: None
    on_end: Callable[[int], None] = lambda _: None
    """Called to move the cursor to the first time (0) or the last one (-1)."""

    def action_home(self) -> None:
        """Go to the first time."""
        self.on_end(0)

    def action_end(self) -> None:
        """Go to the last time."""
        self.on_end(-1)

    def action_first_line(self) -> None:
        """Go to the first lane."""
        super().action_home()

    def action_last_line(self) -> None:
        """Go to the last lane."""
        super().action_end()

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked line and time."""
        super().on_click(event)
        self.on_column(event.x - GUTTER)
