# SPDX-License-Identifier: Apache-2.0
"""What a row says in a column as wide as it is on the screen: at length, or in short."""

from __future__ import annotations

from collections.abc import Iterator

from nri_scope.recorder.escape import columns, safe
from nri_scope.recorder.model import Event
from nri_scope.tui.model.columns import ROOM_FOR_WORDS, Placed, fitted
from nri_scope.tui.model.rows import Row, path_in_short

_ROOM_FOR_SENTENCES = 24


def cell(row: Row, placed: Placed) -> str:
    """The longest form that fits, in exactly the column's width; else the last one, cut visibly."""
    text = ""
    for text in _forms(row, placed):
        if columns(text) <= placed.width:
            break
    return fitted(text, placed.width, right=placed.column.right)


def _forms(row: Row, placed: Placed) -> Iterator[str]:
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
        # All of them alike: numbers below each other compare.
        yield f"Δ{count} {first}" if width >= ROOM_FOR_WORDS else f"Δ{count}"
        return
    more = f", {count - 1:,} more" if count > 1 else ""
    yield whole
    yield f"{first}{more}"
    yield f"{safe(first, width - columns(more))}{more}"


def _subjects(event: Event, whole: str, width: int) -> Iterator[str]:
    """Without the namespace; else with what fits before the container's name."""
    rest = whole.partition("/")[2]
    named = f"…/{rest}" if event.namespace and rest else whole
    yield named
    before, slash, last = whole.rpartition("/")
    if (event.container or event.container_id) and columns(last) < width // 2:
        yield safe(before, width - columns(last) - 1) + slash + last
    yield named
