# SPDX-License-Identifier: Apache-2.0
"""Tables of text with aligned columns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice

from nri_scope.text.escape import columns, safe

_LOOK_AHEAD = 200
"""Number of rows that determine column widths, so that output starts before the last row."""
_COLUMN_WIDTH_MAX = 60
"""Maximum width of a padded column; in a terminal, wider cells are cut."""

Value = None | int | float | str | bytes


def cell(value: Value, width: int | None = None) -> str:
    """Return a value as text that is safe for a terminal; "" for NULL."""
    match value:
        case None:
            return ""
        case bytes():
            return safe(f"x'{value.hex()}'", width)
        case str():
            return safe(value, width)
    return str(value)


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[Value]],
    width: int | None = None,
    right: Collection[int] = (),
) -> Iterator[str]:
    """Yield the lines of a table. ``width``: the terminal's; None for other output.

    Columns of numbers, and those whose positions are in ``right``, are aligned to the right.
    """
    rows = iter(rows)
    first = list(islice(rows, _LOOK_AHEAD))
    # The last column may take the rest of the line.
    limits = [None if width is None else _COLUMN_WIDTH_MAX] * (len(headings) - 1) + [None]
    names = [cell(heading, limit) for heading, limit in zip(headings, limits, strict=True)]

    def cells(row: Sequence[Value]) -> list[str]:
        return [cell(value, limit) for value, limit in zip(row, limits, strict=True)]

    shown = [names, *(cells(row) for row in first)]
    widths = [
        min(_COLUMN_WIDTH_MAX, max(map(columns, column))) for column in zip(*shown, strict=True)
    ]
    numeric = [
        at in right
        or (bool(first) and all(isinstance(row[at], int | float | None) for row in first))
        for at in range(len(names))
    ]
    yield _line(names, widths, numeric, width)
    yield _line(["─" * each for each in widths], widths, numeric, width)
    for row in chain(first, rows):
        yield _line(cells(row), widths, numeric, width)


def _line(
    cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool], width: int | None
) -> str:
    parts: list[str] = []
    for text, wide, right in zip(cells, widths, numeric, strict=True):
        padding = " " * (wide - columns(text))
        parts.append(padding + text if right else text + padding)
    line = "  ".join(parts).rstrip()
    return line if width is None else safe(line, width)
