# SPDX-License-Identifier: Apache-2.0
"""Which part of a view is on the screen, which row is selected, and whether it follows.

A state machine without I/O. In following the cursor is on the newest row. Any upward movement
leaves it: scrolled, where rows are added below and counted. Paused is scrolled in a view that
stands still. The selected row is kept by its key, whatever happens to positions.
"""

from __future__ import annotations

from enum import StrEnum

from nri_scope.tui.model.order import Key
from nri_scope.tui.model.view import View


class State(StrEnum):
    """As words that are shown."""

    FOLLOWING = "following"
    SCROLLED = "scrolled"
    PAUSED = "paused"


class Listing:
    """A window of ``height`` rows onto a view, with a cursor that is always within it."""

    view: View
    height: int
    top: int
    """Position of the first row on the screen."""
    cursor: int
    """Position of the selected row; 0 in an empty view."""
    state: State
    length: int
    """Rows that can be scrolled to: the view's, or as many as there were when it was paused."""

    def __init__(self, view: View, height: int = 1, *, follows: bool = True) -> None:
        """``follows``: begin at the end and follow; else at the first row, scrolled."""
        raise NotImplementedError

    @property
    def new_count(self) -> int:
        """Rows that came since following was left and have not been on the screen."""
        raise NotImplementedError

    @property
    def words(self) -> str:
        """``following``, ``scrolled, +12 new``, ``paused``."""
        raise NotImplementedError

    @property
    def selected(self) -> Key | None:
        """The selected row's key; None in an empty view."""
        raise NotImplementedError

    @property
    def selected_event(self) -> int | None:
        """The selected event's number; None where the row is none, and in an empty view."""
        raise NotImplementedError

    def resize(self, height: int) -> None:
        """The screen has another height."""
        raise NotImplementedError

    def grow(self) -> None:
        """The view may have changed: call after each `Store.refresh` and progress of a filter."""
        raise NotImplementedError

    def show(self, view: View) -> None:
        """Another view, at the selected row or what is next to it."""
        raise NotImplementedError

    def move(self, by: int) -> None:
        """Move the cursor by so many rows; upwards where negative."""
        raise NotImplementedError

    def page(self, by: int) -> None:
        """Move by pages."""
        raise NotImplementedError

    def scroll(self, by: int) -> None:
        """Move the window, as a wheel does; the cursor only where it would be left outside."""
        raise NotImplementedError

    def home(self) -> None:
        """To the first row."""
        raise NotImplementedError

    def end(self) -> None:
        """To the last row; who is there already, or asks twice, follows."""
        raise NotImplementedError

    def go_to(self, position: int) -> None:
        """To a row, which leaves following unless it is the last one."""
        raise NotImplementedError

    def follow(self) -> None:
        """Follow."""
        raise NotImplementedError

    def pause(self) -> None:
        """Stand still, or, where it does, go on as scrolled."""
        raise NotImplementedError
