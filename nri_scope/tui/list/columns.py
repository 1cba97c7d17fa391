# SPDX-License-Identifier: Apache-2.0
"""Columns of the list that fit on a screen, and cells of a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from nri_scope.events import Event, Problem
from nri_scope.nri.events import METHODS
from nri_scope.nri.identity import index_of
from nri_scope.recording import display
from nri_scope.text.escape import columns, safe

from ..store.rows import COLUMNS, ListColumn, ListRow, first_change, more_changes
from ..text.styled_line import GAP, fitted

_TOOK = 6
"""Width of a duration."""
_PLUGIN, _LONGEST_PLUGIN = 13, 40
"""Width of a plugin's index and name, and its maximum on a wide screen."""
_LONGEST_EVENT = max(map(len, METHODS))
ROOM_FOR_WORDS = 10
"""Minimum columns for words; in less, only a count or an index is useful."""


@dataclass(frozen=True, slots=True)
class PlacedColumn:
    """A column with its place on the screen."""

    column: ListColumn
    at: int
    """Index in `COLUMNS` and `ListRow.cells`."""
    left: int
    """Leftmost screen column, from 0."""
    width: int
    joined: bool = False
    """Whether cells include the deadline, which has no column of its own."""

    @property
    def title(self) -> str:
        """Longest title that fits."""
        if self.joined:
            return f"{self.column.title}/of"
        return self.column.title if len(self.column.title) <= self.width else self.column.short


def place(
    width: int,
    *,
    digits: int = 3,
    plugins: bool = True,
    longest_plugin: int = _PLUGIN,
    grouped: bool = False,
) -> tuple[PlacedColumn, ...]:
    """Return the columns that fit into ``width``, from left to right.

    ``digits``: length of the longest event number. ``plugins``: whether to show the column of
    plugins, which is useful if there are several. ``longest_plugin``: columns of the longest name.
    ``grouped``: whether rows are operations.
    """
    widths: dict[str, int] = {}
    for name, least in _column_widths(digits, longest_plugin, several=plugins, grouped=grouped):
        more = widths | {name: least}
        if name == "deadline":
            more["took"] = _TOOK
        if len(widths) >= 2 and _total_width(more) > width:
            break
        widths = more
    flexible = [name for name in ("changed", "subject") if widths.get(name, 0) >= ROOM_FOR_WORDS]
    spare = width - _total_width(widths)
    for left, name in zip(range(len(flexible), 0, -1), flexible, strict=True):
        widths[name] += spare // left
        spare -= spare // left
    return tuple(_placed(widths, width))


def longest(plugins: Iterable[str]) -> int:
    """Return the columns of the longest name, at most those of the column on a wide screen."""
    names = (safe(each[:_LONGEST_PLUGIN], _LONGEST_PLUGIN) for each in plugins)
    return max(map(columns, names), default=0)


def _column_widths(
    digits: int, longest_plugin: int, *, several: bool, grouped: bool
) -> Iterator[tuple[str, int]]:
    """Yield columns with minimum widths in order of importance; repeated columns get wider."""
    yield "event", 12
    yield "subject", 12
    yield "event", 19
    yield "subject", 18
    yield "time", 12
    yield "status", 7
    yield "took", _TOOK
    yield "changed", 3
    if several:
        yield "plugin", 5 if grouped else 2
    yield "took", 9
    # The columns above fit into 80 columns; those below need a wider screen.
    # Operations have a sign before the name.
    yield "event", 22 if grouped else 20
    yield "id", digits
    yield "changed", 14
    yield "subject", 22
    if grouped:
        yield "changed", 24
    yield "plugin", 16 if grouped else _PLUGIN
    yield "delta", 7
    yield "subject", 24
    yield "changed", 24
    yield "deadline", 5
    yield "subject", 30
    # Enough for most changes with their owner.
    yield "changed", 33
    yield "elapsed", 9
    if longest_plugin > _PLUGIN:
        yield "plugin", longest_plugin
    yield "changed", 32
    yield "event", _LONGEST_EVENT + 2 if grouped else _LONGEST_EVENT


def _total_width(widths: Mapping[str, int]) -> int:
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

_ROOM_FOR_CHANGES = 24


def cell(row: ListRow, placed: PlacedColumn) -> str:
    """Return a row's cell, padded to the column's width.

    Takes the longest form that fits, or else cuts the shortest visibly.
    """
    text = ""
    for text in _forms(row, placed):
        if columns(text) <= placed.width:
            break
    return fitted(text, placed.width, right=placed.column.right)


def _forms(row: ListRow, placed: PlacedColumn) -> Iterator[str]:
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
        case "plugin" if row.events:
            yield whole
            indices = [*dict.fromkeys(map(index_of, event.main_owners))]
            yield " ".join(indices)
            yield f"{indices[0]} +{len(indices) - 1}"
        case "status" if row.events and whole == Problem.SLOW:
            # The index of the slowest plugin or connection.
            yield f"{whole} {index_of(row.slowest.partition(' ')[2].removeprefix('↕ '))}"
            yield whole
        case "plugin" if placed.width < ROOM_FOR_WORDS:
            yield index_of(whole)
        case "subject":
            yield display.short_subject(event, whole, placed.width)
        case _:
            yield whole


def _changes(event: Event, text: str, width: int) -> Iterator[str]:
    first, more = first_change(event), more_changes(event)
    if width < _ROOM_FOR_CHANGES:
        # The same form in all rows, so that numbers can be compared vertically.
        sign = display.outcome_sign(event) or "Δ"
        count = display.changes_count(event)
        yield f"{count} {first.removeprefix(f'{sign} ')}" if width >= ROOM_FOR_WORDS else count
        return
    yield text
    yield f"{first}{more}"
    yield f"{safe(first, width - columns(more))}{more}"
