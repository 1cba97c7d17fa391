# SPDX-License-Identifier: Apache-2.0
"""Bases of boards with columns, and of boards that show a small table."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from operator import itemgetter
from typing import Any, ClassVar, Generic, TypeVar

from ..text.styled_line import StyledLine, TableField, TableGrid
from .board import Board

E = TypeVar("E")


def in_order(valued: Iterable[tuple[E, Any]], *, ascending: bool) -> list[E]:
    """Sort items by their values; those without one (None) come last, in their natural order."""
    known, others = list[tuple[E, Any]](), list[E]()
    for item, value in valued:
        if value is None:
            others.append(item)
        else:
            known.append((item, value))
    known.sort(key=itemgetter(1), reverse=not ascending)
    return [*(item for item, _ in known), *others]


class SortableBoard(Board):
    """Board whose lines can be sorted by any field."""

    FIELDS: ClassVar[Sequence[TableField]]

    def on_mount(self) -> None:
        """Start with the natural order."""
        self.grid = TableGrid.of(self.FIELDS, 80)
        self.sorted_by: int | None = None
        """Index of the field that sorts the lines; None for their natural order."""
        self.ascending = True

    def sort(self) -> None:
        """Show the lines in the order of `sorted_by` and `ascending`."""
        raise NotImplementedError

    def resized(self) -> None:
        """Lay out columns for the current width."""
        self.grid = TableGrid.of(self.FIELDS, self.room)
        self._show_head()

    def action_sort_next(self) -> None:
        """Sort by the next shown field; after the last one, not at all."""
        self._sort_by_next(1)

    def action_sort_previous(self) -> None:
        """Sort by the previous shown field; before the first one, not at all."""
        self._sort_by_next(-1)

    def action_sort_reverse(self) -> None:
        """Reverse the order."""
        if self.sorted_by is not None:
            self.ascending = not self.ascending
            self._show_head()
            self.sort()

    def _sort_by_next(self, step: int) -> None:
        shown = [None, *(at for at, width in enumerate(self.grid.widths) if width)]
        at = shown.index(self.sorted_by) if self.sorted_by in shown else 0
        self.sorted_by = shown[(at + step) % len(shown)]
        # The largest numbers are of interest, and the first names.
        self.ascending = self.sorted_by is None or not self.FIELDS[self.sorted_by].right
        self._show_head()
        self.sort()

    def _show_head(self) -> None:
        self.head.show((self.grid.head(self.sorted_by, ascending=self.ascending),))


class TableBoard(SortableBoard, Generic[E]):
    """Board with one line per entry; all entries are in memory."""

    FOOT_LINES: ClassVar[int] = 2

    def on_mount(self) -> None:
        """Start empty."""
        self.entries: tuple[E, ...] = ()
        self._natural: tuple[E, ...] = ()

    def entry_line(self, entry: E) -> StyledLine:
        """Return the line of an entry."""
        raise NotImplementedError

    def key_of(self, entry: E) -> Hashable:
        """Return an identity that survives changes of the entry, to keep the cursor on it."""
        raise NotImplementedError

    def sort_values(self, entry: E) -> Sequence[Any] | None:
        """Return a comparable value for each field, None if unknown; None for a heading."""
        raise NotImplementedError

    @property
    def line_count(self) -> int:
        """Number of entries, one line each."""
        return len(self.entries)

    def line_at(self, index: int) -> StyledLine | None:
        """Return the line of an entry."""
        return self.entry_line(self.entries[index])

    @property
    def entry(self) -> E | None:
        """The entry under the cursor."""
        return self.entries[self.body.cursor] if self.body.cursor < len(self.entries) else None

    def show_entries(self, found: tuple[E, ...], empty: str) -> None:
        """Replace the entries; ``empty``: text shown if there are none."""
        at = self.entry
        self._natural = found
        self.entries = found = self._in_order(found)
        self.body.empty = empty
        self.body.changed()
        if at is not None and at != self.entry:
            keys = [self.key_of(entry) for entry in found]
            if self.key_of(at) in keys:
                self.body.go_to(keys.index(self.key_of(at)))
        self.refresh_remarks()
        self.report_row()

    def sort(self) -> None:
        """Show the entries in the chosen order."""
        self.show_entries(self._natural, self.body.empty)

    def _in_order(self, found: tuple[E, ...]) -> tuple[E, ...]:
        """Return the entries in the chosen order; headings and unknown values come last."""
        if self.sorted_by is None:
            return found
        at = self.sorted_by
        valued = (
            (entry, None if (values := self.sort_values(entry)) is None else values[at])
            for entry in found
        )
        return tuple(in_order(valued, ascending=self.ascending))
