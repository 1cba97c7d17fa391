# SPDX-License-Identifier: Apache-2.0
"""A window onto rows that a `ScrollState` places: the scroll bar follows it, and asks it."""

from __future__ import annotations

from abc import abstractmethod

from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollTo
from textual.widget import Widget

from .scroll_state import ScrollState

_WHEEL = 3
"""Rows that one turn of the wheel moves."""


class RowWindow(ScrollView, inherit_bindings=False):
    """Textual would scroll by itself, and forget where it was when rows move."""

    listing: ScrollState

    @abstractmethod
    def listing_moved(self) -> None:
        """Draw what is there now: the rows were moved."""

    def follow_listing(self) -> None:
        """Make room for all rows, and move the scroll bar to the listing's place."""
        self._fit()
        if round(self.scroll_y) != self.listing.top:
            # Not through validation: the new height is known to the layout only later.
            self.set_reactive(Widget.scroll_y, float(self.listing.top))
            if self.show_vertical_scrollbar:
                self.vertical_scrollbar.position = self.listing.top

    def _fit(self) -> None:
        region, before = self.scrollable_content_region, self.virtual_size
        size = Size(region.width, self.listing.length)
        if size == before:
            return
        has_bar = self.show_vertical_scrollbar and before.width == size.width
        if has_bar and min(before.height, size.height) > region.height:
            # Nothing is elsewhere than it was. To lay out the whole screen would take most of the
            # time that looking and drawing may take where much comes.
            self.set_reactive(Widget.virtual_size, size)  # pyright: ignore[reportArgumentType]
            self.vertical_scrollbar.window_virtual_size = size.height
        else:
            self.virtual_size = size

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Move rows, and the cursor only where it would be left outside."""
        self._scroll_instead(event, _WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Move rows the other way."""
        self._scroll_instead(event, -_WHEEL)

    def on_scroll_to(self, message: ScrollTo) -> None:
        """Move rows to where the scroll bar is."""
        by = round(message.y) - self.listing.top if message.y is not None else 0
        self._scroll_instead(message, by)

    def _scroll_instead(self, message: Message, by: int) -> None:
        message.stop()
        # Textual would move what is shown without asking `ScrollState`.
        message.prevent_default()
        if by:
            self.listing.scroll(by)
            self.listing_moved()
