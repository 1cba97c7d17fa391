# SPDX-License-Identifier: Apache-2.0
"""Which columns of the list fit on a screen, and how wide each is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nri_scope.recorder.escape import columns, safe
from nri_scope.tui.model.rows import COLUMNS, Column

GAP = 1
"""Blanks between two columns."""
_LEAST_PART = 0.6
"""How much of its usual width a growing column needs to be of any use."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A column on the screen."""

    column: Column
    at: int
    """Index in `COLUMNS` and `Row.cells`."""
    left: int
    """First column of the terminal, from 0."""
    width: int


def place(width: int, usual: Mapping[str, int] | None = None) -> tuple[Placed, ...]:
    """The columns that fit into ``width``, from left to right; always those of rank 0.

    ``usual``: other widths for some columns, by name, such as of numbers that are short.
    """
    widths = {column.name: (usual or {}).get(column.name, column.width) for column in COLUMNS}
    kept = list(COLUMNS)
    while kept and _least(kept, widths) > width:
        last = max(kept, key=lambda column: column.rank)
        if not last.rank:
            break
        kept.remove(last)
    spare = width - _least(kept, widths)
    growing = [column for column in kept if column.grows]
    placed: list[Placed] = []
    left = 0
    for column in kept:
        wide = _narrow(column, widths)
        if column.grows:
            # In proportion; the last one takes what rounding leaves.
            share = spare * column.width // sum(each.width for each in growing)
            wide += share if column is not growing[-1] else spare - _given(placed, widths)
        wide = max(1, min(wide, width - left))
        placed.append(Placed(column, COLUMNS.index(column), left, wide))
        left += wide + GAP
    return tuple(placed)


def _given(placed: list[Placed], widths: Mapping[str, int]) -> int:
    return sum(each.width - _narrow(each.column, widths) for each in placed if each.column.grows)


def _narrow(column: Column, widths: Mapping[str, int]) -> int:
    width = widths[column.name]
    return round(width * _LEAST_PART) if column.grows else width


def _least(kept: list[Column], widths: Mapping[str, int]) -> int:
    return sum(_narrow(column, widths) for column in kept) + GAP * (len(kept) - 1)


def fitted(text: str, width: int, *, right: bool = False) -> str:
    """``text``, which is safe, in exactly ``width`` columns of the terminal; cut visibly."""
    cut = safe(text, width)
    blanks = " " * (width - columns(cut))
    return blanks + cut if right else cut + blanks
