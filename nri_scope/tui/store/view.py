# SPDX-License-Identifier: Apache-2.0
"""Which rows there are, by position: all of a recording, or those that a filter lets through.

In memory and without I/O, so that positions, keys and lengths can be asked for while drawing. It
changes only on the thread that draws, when `Store.refresh` or a filter's progress tells.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from nri_scope.recorder.filter import Filter
from nri_scope.recorder.model import Container, Pod
from nri_scope.tui.store.event_numbers import Numbers
from nri_scope.tui.store.markers import DamageMarker, GapMarker, Key, RowMarker

ViewEntry = int | RowMarker
"""What is at a position: an event's number, or what lies between events."""


class View:
    """Rows by position, from 0. Made by `Store.view`."""

    def __init__(
        self,
        numbers: Numbers,
        *,
        where: Filter | None = None,
        about: Pod | Container | None = None,
        looked_at: int = 0,
    ) -> None:
        """``looked_at``: ``numbers`` has what there is up to this event."""
        self.where = where
        self.about = about
        self.length = 0
        """Rows, those included that are no events."""
        self.complete = False
        """False while a filter is at work, or event numbers are still being looked through."""
        self.revision = 0
        """Changes when rows have moved; while it stays the same, rows were at most added at the
        end. Pages that were read by position are worth nothing after a change."""
        self.looked_at = looked_at
        """All of this view up to this event is known."""
        self.stopped: DamageMarker | None = None
        """Why nothing is known of what follows."""
        self._numbers = numbers
        self._between: list[RowMarker] = []
        self._keys: list[Key] = []
        self._places: list[int] = []
        """Their positions."""
        self._given: tuple[RowMarker, ...] = ()
        """What these were taken from."""
        self._fixed = Key(0, 0)
        """What has a smaller key stays where it is as long as numbers are only added."""

    @property
    def events(self) -> int:
        """Events among the rows: 0 means that nothing was recorded, or that nothing matched."""
        return len(self._numbers)

    @property
    def is_everything(self) -> bool:
        """Whether nothing is left out."""
        return self.where is None and self.about is None

    # -- asked while drawing ----------------------------------------------------------------

    def key_at(self, position: int) -> Key:
        """Return the key of the row there. Raises IndexError."""
        entry = self.entry(position)
        return Key.of_event(entry) if isinstance(entry, int) else entry.key

    def before(self, key: Key) -> int:
        """How many rows are before ``key``: the position of its row, or of the next one."""
        return self._numbers.rank(key.event) + bisect_left(self._keys, key)

    def through(self, key: Key) -> int:
        """How many rows there are up to ``key``, that row included."""
        return self._numbers.rank(key.event + key.is_event) + bisect_right(self._keys, key)

    def position_of(self, event_id: int) -> int:
        """Where that event is; where it is not in the view, the next row's position (at most
        ``length - 1``; 0 in an empty view).
        """
        return max(0, min(self.before(Key.of_event(event_id)), self.length - 1))

    def shows(self, event_id: int) -> bool:
        """Return whether that event is in the view."""
        return self._numbers.rank(event_id + 1) > self._numbers.rank(event_id)

    def entry(self, position: int) -> ViewEntry:
        """Return what is there. Raises IndexError."""
        at = bisect_left(self._places, position)
        if at < len(self._places) and self._places[at] == position:
            return self._between[at]
        return self._numbers.at(position - at)

    def entries(self, start: int, count: int) -> list[ViewEntry]:
        """Return what is at these positions; fewer where the view ends."""
        start = max(0, start)
        return [self.entry(position) for position in range(start, min(start + count, self.length))]

    def numbers_between(self, start: int, stop: int) -> Sequence[int]:
        """Return the events at the positions from ``start`` up to ``stop``."""
        first = start - bisect_left(self._places, start)
        return self._numbers.slice(first, stop - bisect_left(self._places, stop))

    @property
    def between(self) -> Sequence[RowMarker]:
        """The rows that are no events, in order."""
        return self._between

    # -- told by the store ------------------------------------------------------------------

    def settle(self, between: tuple[RowMarker, ...], *, moved: bool = False) -> None:
        """Find the places again: the numbers have changed, or what lies between them.

        ``between``: all that the recording has, by their keys; the same object where it is the same
        as before. ``moved``: some of the numbers have other positions now.
        """
        kept, rest = 0, between
        if between is self._given and self.stopped is None and not moved:
            # Only what goes behind the last event of before can have come or gone, or be elsewhere:
            # a recording of many reconnects grows at the cost of what comes.
            kept = bisect_left(self._keys, self._fixed)
            rest = between[bisect_left(between, self._fixed, key=_key_of) :]
        shown = [one for one in rest if self._concerns(one)]
        if self.stopped is not None:
            shown = [*(one for one in shown if one.key < self.stopped.key), self.stopped]
        keys = [one.key for one in shown]
        places = [self._numbers.rank(key.event) + at for at, key in enumerate(keys, kept)]
        known = len(self._keys) - kept
        moved = (
            moved
            or keys[:known] != self._keys[kept:]
            or places[:known] != self._places[kept:]
            or any(place < self.length for place in places[known : known + 1])
        )
        self._between[kept:], self._keys[kept:], self._places[kept:] = shown, keys, places
        self.length = len(self._numbers) + len(self._keys)
        last = self._numbers.at(len(self._numbers) - 1) if len(self._numbers) else 0
        self._given = between
        # What is not shown as it is not reached yet is looked at again, too.
        self._fixed = Key(min(last, self.looked_at), 1)
        if moved:
            self.revision += 1

    def _concerns(self, one: RowMarker) -> bool:
        if one.key.event > self.looked_at + 1:
            return False
        if self.is_everything:
            return True
        # Sessions would drown the few events that are looked for. A gap is worth a line where
        # what was lost may have been before one of them.
        return isinstance(one, GapMarker) and self._numbers.rank(one.key.event) < self.events


def _key_of(one: RowMarker) -> Key:
    return one.key
