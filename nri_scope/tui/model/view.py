# SPDX-License-Identifier: Apache-2.0
"""Which rows there are, by position: all of a recording, or those that a filter lets through.

In memory and without I/O, so that positions, keys and lengths can be asked for while drawing. It
changes only on the thread that draws, when `Store.refresh` or a filter's progress tells.
"""

from __future__ import annotations

from nri_scope.recorder.filter import Filter
from nri_scope.recorder.model import Container, Pod
from nri_scope.tui.model.order import Key


class View:
    """Rows by position, from 0. Made by `Store.view`."""

    where: Filter | None
    about: Pod | Container | None
    length: int
    """Rows, those included that are no events."""
    events: int
    """Events among them: 0 means that nothing was recorded, or that the filter matched nothing."""
    complete: bool
    """False while a filter is at work, or the numbers of events are still being looked through."""
    revision: int
    """Changes when rows have moved; while it stays the same, rows were at most added at the end.
    Pages that were read by position are worth nothing after a change."""

    def key_at(self, position: int) -> Key:
        """The key of the row there. Raises IndexError."""
        raise NotImplementedError

    def before(self, key: Key) -> int:
        """How many rows are before ``key``: the position of its row, or of the next one."""
        raise NotImplementedError

    def through(self, key: Key) -> int:
        """How many rows there are up to ``key``, that row included."""
        raise NotImplementedError

    def position_of(self, event_id: int) -> int:
        """Where that event is; where it is not in the view, the next row's position (at most
        ``length - 1``; 0 in an empty view).
        """
        raise NotImplementedError

    def shows(self, event_id: int) -> bool:
        """Whether that event is in the view."""
        raise NotImplementedError
