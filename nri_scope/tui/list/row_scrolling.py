# SPDX-License-Identifier: Apache-2.0
"""A window onto rows positioned by a `ScrollState`, with a scroll bar."""

from __future__ import annotations

from abc import abstractmethod

from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scrollbar import ScrollBar, ScrollTo
from textual.widget import Widget

from ..textual_workarounds import SizedView
from .scroll_state import ScrollState

_WHEEL = 3
"""Rows per step of the mouse wheel."""


class RowWindow(SizedView, inherit_bindings=False):
    """Scrollable window positioned by a `ScrollState`.

    Textual's own scrolling loses its position when rows move.
    """

    listing: ScrollState
    _bar_moved = False

    @abstractmethod
    def listing_moved(self) -> None:
        """Redraw after the listing has moved."""

    def follow_listing(self) -> None:
        """Update virtual size and scroll bar from the listing; `draw_bar` draws the latter."""
        self.resize_content(Size(self.scrollable_content_region.width, self.listing.length))
        if round(self.scroll_y) != self.listing.top:
            # Without validation, which would use the height of the previous layout.
            self.set_reactive(Widget.scroll_y, float(self.listing.top))
            # Textual would draw it immediately, and the rows only in the next frame.
            self.vertical_scrollbar.set_reactive(ScrollBar.position, float(self.listing.top))
            self._bar_moved = True

    def draw_bar(self) -> None:
        """Draw the scroll bar, if it has moved."""
        if self._bar_moved:
            self._bar_moved = False
            self.vertical_scrollbar.refresh()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll down; the cursor moves only if it would leave the screen."""
        self._scroll_listing(event, _WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll up."""
        self._scroll_listing(event, -_WHEEL)

    def on_scroll_to(self, message: ScrollTo) -> None:
        """Scroll to the position of the scroll bar."""
        by = round(message.y) - self.listing.top if message.y is not None else 0
        self._scroll_listing(message, by)

    def _scroll_listing(self, message: Message, by: int) -> None:
        message.stop()
        # Textual would bypass the `ScrollState`.
        message.prevent_default()
        if by:
            self.listing.scroll(by)
            self.listing_moved()
