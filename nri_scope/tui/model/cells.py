# SPDX-License-Identifier: Apache-2.0
"""What a row says in a column as wide as it is on the screen: at length, or in short."""

from __future__ import annotations

from collections.abc import Iterator

from nri_scope.recorder.escape import columns, safe
from nri_scope.recorder.model import Event
from nri_scope.tui.model.columns import ROOM_FOR_WORDS, Placed, fitted
from nri_scope.tui.model.rows import Row, path_in_short


def cell(row: Row, placed: Placed) -> str:
    """The longest form that fits, in exactly the column's width; else the last one, cut visibly."""
    text = row.cells[placed.at]
    if columns(text) > placed.width or placed.joined:
        for form in _forms(row, placed):
            text = form
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
            yield from _changes(event, placed.width)
        case "plugin" if placed.width < ROOM_FOR_WORDS:
            yield whole.partition("-")[0]
        case "subject":
            yield from _subjects(event, whole, placed.width)
        case _:
            yield whole


def _changes(event: Event, width: int) -> Iterator[str]:
    first, count = path_in_short(event.changed[0]), len(event.changed)
    yield f"{first}, {count - 1:,} more" if count > 1 else first
    yield f"Δ{count} {first}" if width >= ROOM_FOR_WORDS else f"Δ{count}"


def _subjects(event: Event, whole: str, width: int) -> Iterator[str]:
    """Without the namespace; else with what fits before the container's name."""
    rest = whole.partition("/")[2]
    named = f"…/{rest}" if event.namespace and rest else whole
    yield named
    before, slash, last = whole.rpartition("/")
    if (event.container or event.container_id) and columns(last) < width // 2:
        yield safe(before, width - columns(last) - 1) + slash + last
    yield named
