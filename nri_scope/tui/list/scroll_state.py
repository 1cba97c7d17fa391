# SPDX-License-Identifier: Apache-2.0
"""The part of a view on the screen, the selected row, and the follow state; and a window by it.

The state is a machine without I/O. While following, the cursor stays on the newest row. Moving up
changes to scrolled, where new rows are added below and counted. The selected row is identified by
its key, as positions may change.
"""

from __future__ import annotations

from abc import abstractmethod
from enum import StrEnum

from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scrollbar import ScrollBar, ScrollTo
from textual.widget import Widget

from ..store.markers import RowKey
from ..store.view import View
from ..textual_workarounds import SizedView

_WHEEL = 3
"""Rows per step of the mouse wheel."""


class FollowState(StrEnum):
    """The follow state; the value is the displayed word."""

    FOLLOWING = "following"
    SCROLLED = "scrolled"


class ScrollState:
    """A window of ``height`` rows onto a view, with a cursor that is always within the window."""

    def __init__(self, view: View, height: int = 1, *, follows: bool = True) -> None:
        """Create the state: following at the end, or, if not ``follows``, at the first row."""
        self.view = view
        self.height = max(1, height)
        self.state = FollowState.FOLLOWING
        self._top = 0
        self._cursor = 0
        self._anchor: RowKey | None = None
        """Key of the row selected by the user; the cursor is on it if the view contains it."""
        self._cursor_key: RowKey | None = None
        """Key of the row under the cursor; next to the anchor if the view does not contain that."""
        self._revision = view.revision
        self._newest_seen: RowKey | None = None
        """Key of the newest row that has been on the screen or existed when following ended."""
        self._end_requested = False
        self._to_end()
        if not follows:
            self._stop_following()
            self._place(0)

    @property
    def top(self) -> int:
        """Position of the first row on the screen."""
        self._catch_up()
        return self._top

    @property
    def cursor(self) -> int:
        """Position of the selected row; 0 in an empty view."""
        self._catch_up()
        return self._cursor

    @property
    def length(self) -> int:
        """Number of rows."""
        return self.view.length

    @property
    def new_count(self) -> int:
        """Number of rows added since following ended that have not been on the screen."""
        if self.state is FollowState.FOLLOWING:
            return 0
        return max(0, self.view.length - self._through(self._newest_seen))

    @property
    def words(self) -> str:
        """Status text: "following", or "scrolled, +12 new"."""
        new = self.new_count
        return f"{self.state}, +{new:,} new" if new else str(self.state)

    @property
    def selected(self) -> RowKey | None:
        """The selected row's key; None in an empty view."""
        return self.view.key_at(self.cursor) if self.cursor < self.length else None

    @property
    def selected_event(self) -> int | None:
        """The selected event's number; None if the row is not an event, and in an empty view."""
        key = self.selected
        return key.event if key is not None and key.is_event else None

    # -- changes of screen and view ---------------------------------------------------------

    def resize(self, height: int) -> None:
        """Fit the rows to a new height of the screen."""
        self.height = max(1, height)
        self._settle()

    def grow(self) -> None:
        """Adapt to a changed view: call after each `Store.refresh` and progress of a filter."""
        # While a filter is running, the anchor may still appear.
        if self.view.revision != self._revision or not self.view.complete:
            self._revision = self.view.revision
            if self.view.complete:
                self._anchor = self._cursor_key or self._anchor
            self._find_anchor()
        self._settle()

    def show(self, view: View) -> None:
        """Show another view, at the selected row or the nearest one."""
        self.view = view
        self._revision = view.revision
        self._find_anchor()
        self._settle()

    # -- actions of the user ----------------------------------------------------------------

    def move(self, by: int) -> None:
        """Move the cursor by ``by`` rows; upwards if negative."""
        if by < 0:
            self._stop_following_unless_empty()
        self._place(self.cursor + by)

    def page(self, by: int) -> None:
        """Move window and cursor by ``by`` pages."""
        if by < 0:
            self._stop_following_unless_empty()
        self._top = self.top + by * self.height
        self._place(self.cursor + by * self.height)

    def scroll(self, by: int) -> None:
        """Move the window by ``by`` rows, and the cursor only if it would leave the window."""
        if by < 0:
            self._stop_following_unless_empty()
        self._top = max(0, min(self.top + by, self.length - self.height))
        self._place(max(self.top, min(self.cursor, self.top + self.height - 1)))

    def home(self) -> None:
        """Go to the first row."""
        self._stop_following_unless_empty()
        self._place(0)

    def end(self) -> None:
        """Go to the last row; from there, or on a second request, follow."""
        # New rows may arrive between two presses of the key.
        if self._end_requested or self.cursor >= self.length - 1:
            self.follow()
            return
        self._place(self.length - 1)
        self._end_requested = True

    def go_to(self, position: int) -> None:
        """Go to a row; center it if it was not on the screen.

        Stops following unless it is the last row.
        """
        if position < self.length - 1:
            self._stop_following()
        if not self.top <= position < self.top + self.height:
            self._top = position - self.height // 2
        self._place(position)

    def follow(self) -> None:
        """Show the newest rows from now on."""
        self.state = FollowState.FOLLOWING
        self._end_requested = False
        self._to_end()

    def pause(self) -> None:
        """Stop following, or follow again."""
        if self.state is FollowState.FOLLOWING:
            self._stop_following()
        else:
            self.follow()

    # -- implementation ---------------------------------------------------------------------

    def _catch_up(self) -> None:
        # The view may have changed before `grow` was called.
        if self.view.revision != self._revision:
            self.grow()

    def _stop_following_unless_empty(self) -> None:
        # In an empty view, there is no row to stay at.
        if self.view.length:
            self._stop_following()

    def _stop_following(self) -> None:
        if self.state is FollowState.FOLLOWING:
            self.state = FollowState.SCROLLED
            self._newest_seen = self._last()

    def _last(self) -> RowKey | None:
        return self.view.key_at(self.view.length - 1) if self.view.length else None

    def _through(self, key: RowKey | None) -> int:
        return self.view.through(key) if key is not None else 0

    def _to_end(self) -> None:
        self._cursor = max(0, self.view.length - 1)
        self._top = max(0, self.view.length - self.height)
        self._anchor = self._cursor_key = self._last()

    def _place(self, position: int) -> None:
        """Move the cursor to a row selected by the user, which becomes the anchor."""
        self._end_requested = False
        self._cursor = position
        self._settle()
        self._anchor = self.selected or self._anchor

    def _find_anchor(self) -> None:
        if self._anchor is not None:
            position = self.view.before(self.view.current_key(self._anchor))
            self._top += position - self._cursor
            self._cursor = position

    def _settle(self) -> None:
        """Keep cursor and window within the view, and the cursor within the window."""
        if self.state is FollowState.FOLLOWING:
            self._to_end()
            return
        length = self.length
        self._cursor = max(0, min(self._cursor, length - 1))
        highest = max(0, length - self.height)
        self._top = max(0, min(self._top, highest))
        self._top = max(min(self._top, self._cursor), self._cursor - self.height + 1)
        self._cursor_key = self.selected
        bottom = min(self._top + self.height, length)
        if bottom > 0:
            newest = self.view.key_at(bottom - 1)
            if self._newest_seen is None or newest > self._newest_seen:
                self._newest_seen = newest


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
