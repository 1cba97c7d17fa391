# SPDX-License-Identifier: Apache-2.0
"""A window onto rows that a `ScrollState` positions, with a scroll bar that follows it."""

from __future__ import annotations

from abc import abstractmethod

from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scrollbar import ScrollTo
from textual.widget import Widget

from ..textual_gaps import SizedView
from .scroll_state import ScrollState

_WHEEL = 3
"""Rows per step of the wheel."""


class RowWindow(SizedView, inherit_bindings=False):
    """Replaces Textual's own scrolling, which loses its position when rows move."""

    listing: ScrollState

    @abstractmethod
    def listing_moved(self) -> None:
        """Draw the current rows after they have moved."""

    def follow_listing(self) -> None:
        """Make room for all rows, and move the scroll bar to the listing's position."""
        self._fit()
        if round(self.scroll_y) != self.listing.top:
            # Without validation: the layout does not know the new height yet.
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
            # No position has changed. Laying out the whole screen would take most of the time
            # available for polling and drawing when many events come.
            self.set_reactive(Widget.virtual_size, size)  # pyright: ignore[reportArgumentType]
            self.vertical_scrollbar.window_virtual_size = size.height
        else:
            self.virtual_size = size

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Move rows, and the cursor only if it would leave the screen."""
        self._scroll_instead(event, _WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Move rows the other way."""
        self._scroll_instead(event, -_WHEEL)

    def on_scroll_to(self, message: ScrollTo) -> None:
        """Move rows to the position of the scroll bar."""
        by = round(message.y) - self.listing.top if message.y is not None else 0
        self._scroll_instead(message, by)

    def _scroll_instead(self, message: Message, by: int) -> None:
        message.stop()
        # Textual would scroll without asking `ScrollState`.
        message.prevent_default()
        if by:
            self.listing.scroll(by)
            self.listing_moved()
