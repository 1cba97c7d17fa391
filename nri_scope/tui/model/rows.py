# SPDX-License-Identifier: Apache-2.0
"""One line of the list of events: what each column says, as plain text that is safe to show."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from nri_scope.recorder.model import Event, Gap, Session
from nri_scope.tui.model.order import Key


class Kind(StrEnum):
    """What a row stands for."""

    EVENT = "event"
    GAP = "gap"
    BEGAN = "began"
    """A session began."""
    ENDED = "ended"
    """A session ended."""
    DAMAGED = "damaged"
    """From here on, or here, the recording cannot be read."""
    GONE = "gone"
    """An event that was removed meanwhile, as a ring removes its oldest ones."""


class Style(StrEnum):
    """How a row is to look; a theme says what that means."""

    PLAIN = "plain"
    CHANGED = "changed"
    SLOW = "slow"
    """Answered in time, though it took more than half of the deadline."""
    TIMEOUT = "timeout"
    ERROR = "error"
    ODD = "odd"
    """Malformed, or of a method that nobody knows."""
    GAP = "gap"
    SESSION = "session"
    DAMAGED = "damaged"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the list."""

    name: str
    title: str
    width: int
    """Columns of the terminal that most values fit in."""
    right: bool = False
    """Aligned to the right."""
    grows: bool = False
    """Takes what room is left."""
    rank: int = 0
    """Columns with a higher rank are left out first where there is no room."""


COLUMNS: tuple[Column, ...] = (
    Column("id", "#", 7, right=True, rank=2),
    Column("time", "Time", 12, rank=1),
    Column("elapsed", "Elapsed", 9, right=True, rank=6),
    Column("event", "Event", 20),
    Column("subject", "Pod/container", 30, grows=True),
    Column("changed", "Changed", 24, grows=True, rank=3),
    Column("plugin", "Plugin", 14, rank=5),
    Column("took", "Took", 6, right=True, rank=2),
    Column("deadline", "Of", 5, right=True, rank=4),
    Column("status", "Status", 7, rank=1),
)
"""In the order of `Row.cells`. `time` is the local time of day, `elapsed` counts from the
recording's first event."""
POSITION: dict[str, int] = {column.name: at for at, column in enumerate(COLUMNS)}


@dataclass(frozen=True, slots=True)
class Row:
    """One row, ready to be shown. All texts are `escape.safe` already, and cut to some hundred
    columns.
    """

    kind: Kind
    key: Key
    """Its place in the order of all rows; what a selection is kept by."""
    cells: tuple[str, ...]
    """One for each of `COLUMNS`; all empty but id and time where it is no event's."""
    text: str
    """All of it in one line: for rows that are no event, what to show in the place of cells."""
    style: Style
    event: Event | None = None
    gap: Gap | None = None
    session: Session | None = None
    marked: bool = False

    @property
    def event_id(self) -> int | None:
        """The event's number, where it is one's."""
        return self.event.id if self.event is not None else None

    def cell(self, name: str) -> str:
        """The cell of the column of this name."""
        return self.cells[POSITION[name]]

    def mark(self, marked: bool) -> Row:
        """The same row, marked or not."""
        return self if marked == self.marked else replace(self, marked=marked)


def event_row(event: Event, first_ns: int) -> Row:
    """The row of an event; ``first_ns`` is when the recording's first event was."""
    raise NotImplementedError


def changed_in_short(event: Event) -> str:
    """``env FOO, 3 more by 30-x``; "" where the event tells of no change."""
    raise NotImplementedError
