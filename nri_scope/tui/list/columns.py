# SPDX-License-Identifier: Apache-2.0
"""The columns of the list that fit on a screen, the cells of a row, and filters from cells."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nri_scope.events import Event
from nri_scope.filter.fields import BY_NAME
from nri_scope.filter.tree import Matches, quote
from nri_scope.recording import display
from nri_scope.text.escape import columns, safe

from ..store.rows import COLUMNS, Column, Row, RowKind, path_in_short
from ..text.filter_text import check
from ..text.styled_line import GAP, fitted

_TOOK = 6
"""Columns of the terminal for a duration."""
ROOM_FOR_WORDS = 10
"""Minimum columns for words; below, only a count or an index is useful."""


@dataclass(frozen=True, slots=True)
class PlacedColumn:
    """A column on the screen."""

    column: Column
    at: int
    """Index in `COLUMNS` and `Row.cells`."""
    left: int
    """First column of the terminal, from 0."""
    width: int
    joined: bool = False
    """Whether the deadline, which has no column of its own, is included."""

    @property
    def title(self) -> str:
        """The longest title that fits."""
        if self.joined:
            return f"{self.column.title}/of"
        return self.column.title if len(self.column.title) <= self.width else self.column.short


def place(width: int, *, digits: int = 3, plugins: bool = True) -> tuple[PlacedColumn, ...]:
    """Return the columns that fit into ``width``, from left to right.

    ``digits``: of the longest event number. ``plugins``: whether there are several, so that the
    column of plugins is useful.
    """
    widths: dict[str, int] = {}
    for name, wanted in _wishes(digits, several=plugins):
        more = widths | {name: wanted}
        if name == "deadline":
            more["took"] = _TOOK
        if len(widths) >= 2 and _sum(more) > width:
            break
        widths = more
    growing = [name for name in ("changed", "subject") if widths.get(name, 0) >= ROOM_FOR_WORDS]
    spare = width - _sum(widths)
    for left, name in zip(range(len(growing), 0, -1), growing, strict=True):
        widths[name] += spare // left
        spare -= spare // left
    return tuple(_placed(widths, width))


def _wishes(digits: int, *, several: bool) -> Iterator[tuple[str, int]]:
    """Return columns with their minimum widths, the most important ones first."""
    yield "event", 12
    yield "subject", 12
    yield "event", 19
    yield "subject", 18
    yield "time", 12
    yield "status", 7
    yield "took", _TOOK
    yield "changed", 3
    if several:
        yield "plugin", 2
    yield "took", 9
    # All of these fit on a screen of 80 columns. With more room, texts get longer.
    yield "event", 20
    yield "id", digits
    yield "changed", 14
    yield "subject", 24
    yield "plugin", 13
    yield "changed", 24
    yield "deadline", 5
    yield "subject", 30
    yield "elapsed", 9


def _sum(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)


def _placed(widths: Mapping[str, int], width: int) -> Iterator[PlacedColumn]:
    left = 0
    for at, column in enumerate(COLUMNS):
        if column.name in widths:
            wide = max(1, min(widths[column.name], width - left))
            joined = column.name == "took" and "deadline" not in widths and wide > _TOOK
            yield PlacedColumn(column, at, left, wide, joined)
            left += wide + GAP


# -- cells ----------------------------------------------------------------------------------

_ROOM_FOR_SENTENCES = 24


def cell(row: Row, placed: PlacedColumn) -> str:
    """Return the longest form that fits, in exactly the column's width; else the last one,
    visibly cut.
    """
    text = ""
    for text in _forms(row, placed):
        if columns(text) <= placed.width:
            break
    return fitted(text, placed.width, right=placed.column.right)


def _forms(row: Row, placed: PlacedColumn) -> Iterator[str]:
    whole, event = row.cells[placed.at], row.event
    if event is None:
        yield whole
        return
    match placed.column.name:
        case "took" if placed.joined and row.cell("deadline"):
            yield f"{whole}/{row.cell('deadline')}"
            yield whole
        case "changed" if event.changed:
            yield from _changes(event, whole, placed.width)
        case "plugin" if placed.width < ROOM_FOR_WORDS:
            index, _, name = whole.partition("-")
            yield index if name and index.isdigit() else whole
        case "subject":
            yield whole
            yield from _subjects(event, whole, placed.width)
        case _:
            yield whole


def _changes(event: Event, whole: str, width: int) -> Iterator[str]:
    first, count = path_in_short(event.changed[0]), len(event.changed)
    if width < _ROOM_FOR_SENTENCES:
        # All in the same form: numbers one below the other can be compared.
        yield f"Δ{count} {first}" if width >= ROOM_FOR_WORDS else f"Δ{count}"
        return
    more = f", {count - 1:,} more" if count > 1 else ""
    yield whole
    yield f"{first}{more}"
    yield f"{safe(first, width - columns(more))}{more}"


def _subjects(event: Event, whole: str, width: int) -> Iterator[str]:
    """Return shorter forms: without the namespace; with the part that fits before the container."""
    rest = whole.partition("/")[2]
    named = f"…/{rest}" if event.namespace and rest else whole
    yield named
    before, slash, last = whole.rpartition("/")
    if (event.container or event.container_id) and columns(last) < width // 2:
        yield safe(before, width - columns(last) - 1) + slash + last
    yield named


def no_event(row: Row) -> str:
    """Return what a row without an event stands for; "" for an event."""
    match row.kind:
        case RowKind.EVENT:
            return ""
        case RowKind.GAP:
            return "this row is a gap, not an event"
        case RowKind.BEGAN | RowKind.ENDED:
            return "this row is a session, not an event"
        case RowKind.DAMAGED:
            return "this row cannot be read"
        case RowKind.GONE:
            return "this event was removed from the recording"


def no_filter(row: Row, column: str) -> str:
    """Return why this column of the row cannot be a filter, and the remedy."""
    if row.session is not None:
        return f"{no_event(row)}; type session:{row.session.id} as a filter to see its events"
    if row.event is None:
        return f"{no_event(row)}; there is no value to filter by"
    title = next(each.title for each in COLUMNS if each.name == column)
    return f"{title} has no value to filter by here; ← and → select another field"


def no_container(row: Row) -> str:
    """Return why there is no next event of the same container; "" if there may be one."""
    if row.event is None:
        return f"{no_event(row)}, and has no container"
    return "" if row.event.container_id else "this event has no container"


def term(event: Event, column: str) -> str:
    """Return the filter for events with the same value in this column; "" if there is none."""
    match column:
        case "event":
            found = f"event:{quote(event.event)}"
            # A method that is not in our tables is found by a regular expression.
            return (
                found
                if check(found).filter
                else str(Matches(BY_NAME["event"], f"^{re.escape(event.event)}$"))
            )
        case "subject":
            names = [f"pod:{quote(event.pod)}"] if event.pod else []
            if event.container:
                names.append(f"container:{quote(event.container)}")
            if not names and (event.container_id or event.pod_id):
                names = [f"id:{quote(event.container_id or event.pod_id)}"]
            return " ".join(names)
        case "plugin":
            return f"plugin:{quote(event.plugin)}" if event.plugin else ""
        case "status":
            return f"status:{quote(event.status)}"
        case "changed":
            return f"changed:{quote(event.changed[0])}" if event.changed else ""
        case "took":
            return f"took:>={_shown_duration(max(0, event.took_ns))}"
        case _:
            return ""


def _shown_duration(ns: int) -> str:
    """Return a duration as shown in the list, rounded down, in units of the filter language."""
    shown = display.duration(ns)
    return f"{ns // 1_000_000_000}s" if ns >= 60_000_000_000 else shown.replace("µ", "u")
