# SPDX-License-Identifier: Apache-2.0
"""Which part of a view is on the screen, which row is selected, and whether it follows.

A state machine without I/O. In following the cursor is on the newest row. Any upward movement
leaves it: scrolled, where rows are added below and counted. Paused is scrolled in a view that
stands still. The selected row is kept by its key, whatever happens to positions.
"""

from __future__ import annotations

from enum import StrEnum

from ..store.markers import Key
from ..store.view import View


class FollowState(StrEnum):
    """The follow state, as the words that are shown."""

    FOLLOWING = "following"
    SCROLLED = "scrolled"
    PAUSED = "paused"


class ScrollState:
    """A window of ``height`` rows onto a view, with a cursor that is always within it."""

    def __init__(self, view: View, height: int = 1, *, follows: bool = True) -> None:
        """Set up the position. ``follows``: begin at the end and follow; else at the first row,
        scrolled.
        """
        self.view = view
        self.height = max(1, height)
        self.state = FollowState.FOLLOWING
        self._top = 0
        self._cursor = 0
        self._anchor: Key | None = None
        """The row that was chosen last: where the cursor belongs, if the view has it."""
        self._here: Key | None = None
        """The row that the cursor is on, which is next to it where the view does not have it."""
        self._revision = view.revision
        self._seen: Key | None = None
        """The newest row that was on the screen, or that there was when following was left."""
        self._limit: Key | None = None
        """The last row that there was when it was paused."""
        self._followed = False
        """It was paused while following, and nothing was moved upwards since."""
        self._asked_for_end = False
        self._to_end()
        if not follows:
            self._leave()
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
        """Rows that can be scrolled to: the view's, or as many as there were when it was paused."""
        if self.state is not FollowState.PAUSED:
            return self.view.length
        return self._through(self._limit)

    @property
    def new_count(self) -> int:
        """Rows that came since following was left and have not been on the screen."""
        if self.state is FollowState.FOLLOWING:
            return 0
        return max(0, self.view.length - self._through(self._seen))

    @property
    def words(self) -> str:
        """``following``, ``scrolled, +12 new``, ``paused``."""
        new = self.new_count
        return f"{self.state}, +{new:,} new" if new else str(self.state)

    @property
    def selected(self) -> Key | None:
        """The selected row's key; None in an empty view."""
        return self.view.key_at(self.cursor) if self.cursor < self.length else None

    @property
    def selected_event(self) -> int | None:
        """The selected event's number; None where the row is none, and in an empty view."""
        key = self.selected
        return key.event if key is not None and key.is_event else None

    # -- what happens to it -----------------------------------------------------------------

    def resize(self, height: int) -> None:
        """Fit the rows to another height of the screen."""
        self.height = max(1, height)
        self._settle()

    def grow(self) -> None:
        """Take up a changed view: call after each `Store.refresh` and progress of a filter."""
        # While a filter is at work, the row that was chosen may still come.
        if self.view.revision != self._revision or not self.view.complete:
            self._revision = self.view.revision
            if self.view.complete:
                self._anchor = self._here or self._anchor
            self._find_anchor()
        self._settle()

    def show(self, view: View) -> None:
        """Show another view, at the selected row or what is next to it."""
        self.view = view
        self._revision = view.revision
        self._find_anchor()
        self._settle()

    # -- what the user does -----------------------------------------------------------------

    def move(self, by: int) -> None:
        """Move the cursor by so many rows; upwards where negative."""
        if by < 0:
            self._leave_rows()
        self._place(self.cursor + by)

    def page(self, by: int) -> None:
        """Move by pages."""
        if by < 0:
            self._leave_rows()
        self._top = self.top + by * self.height
        self._place(self.cursor + by * self.height)

    def scroll(self, by: int) -> None:
        """Move the window, as a wheel does; the cursor only where it would be left outside."""
        if by < 0:
            self._leave_rows()
        self._top = max(0, min(self.top + by, self.length - self.height))
        self._place(max(self.top, min(self.cursor, self.top + self.height - 1)))

    def home(self) -> None:
        """Go to the first row."""
        self._leave_rows()
        self._place(0)

    def end(self) -> None:
        """Go to the last row; from there, or asked twice, follow."""
        # Rows may come faster than a key is pressed twice.
        if self._asked_for_end or self.cursor >= self.length - 1:
            self.follow()
            return
        self._place(self.length - 1)
        self._asked_for_end = True

    def go_to(self, position: int) -> None:
        """Go to a row, in the middle of the screen where it was not on it.

        Leaves following unless it is the last one.
        """
        if position < self.length - 1:
            self._leave()
        if not self.top <= position < self.top + self.height:
            self._top = position - self.height // 2
        self._place(position)

    def follow(self) -> None:
        """Follow."""
        self.state = FollowState.FOLLOWING
        self._limit = None
        self._asked_for_end = False
        self._to_end()

    def pause(self) -> None:
        """Stop following; where it already has stopped, follow as before."""
        if self.state is FollowState.PAUSED:
            if self._followed:
                self.follow()
                return
            self.state = FollowState.SCROLLED
            self._limit = None
            self._settle()
            return
        followed = self.state is FollowState.FOLLOWING
        self._leave()
        self._limit = self._last()
        self.state = FollowState.PAUSED
        self._followed = followed

    # -- how --------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        # Positions are those of the view as it is, also before `grow` is called.
        if self.view.revision != self._revision:
            self.grow()

    def _leave_rows(self) -> None:
        # Where there is none, there is none to stay at.
        if self.view.length:
            self._leave()

    def _leave(self) -> None:
        self._followed = False
        if self.state is FollowState.FOLLOWING:
            self.state = FollowState.SCROLLED
            self._seen = self._last()

    def _last(self) -> Key | None:
        return self.view.key_at(self.view.length - 1) if self.view.length else None

    def _through(self, key: Key | None) -> int:
        return self.view.through(key) if key is not None else 0

    def _to_end(self) -> None:
        self._cursor = max(0, self.view.length - 1)
        self._top = max(0, self.view.length - self.height)
        self._anchor = self._here = self._last()

    def _place(self, position: int) -> None:
        """Move the cursor because the user wants it."""
        self._asked_for_end = False
        self._cursor = position
        self._settle()
        self._anchor = self.selected or self._anchor

    def _find_anchor(self) -> None:
        if self._anchor is not None:
            position = self.view.before(self._anchor)
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
        self._here = self.selected
        bottom = min(self._top + self.height, length)
        if bottom > 0:
            newest = self.view.key_at(bottom - 1)
            if self._seen is None or newest > self._seen:
                self._seen = newest
