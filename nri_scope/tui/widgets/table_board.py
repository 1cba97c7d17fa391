# SPDX-License-Identifier: Apache-2.0
"""Bases of boards with columns, and of boards that show a small table."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar, Generic, TypeVar

from ..text.styled_line import StyledLine, TableField, TableGrid
from .board import Board

E = TypeVar("E")


class ColumnBoard(Board):
    """Board whose lines have columns."""

    FIELDS: ClassVar[Sequence[TableField]]

    def on_mount(self) -> None:
        """Lay out columns for an ordinary width."""
        self.grid = TableGrid.of(self.FIELDS, 80)

    def resized(self) -> None:
        """Lay out columns for the current width."""
        self.grid = TableGrid.of(self.FIELDS, self.room)
        self.head.show((self.grid.head(),))


class TableBoard(ColumnBoard, Generic[E]):
    """Board with one line per entry; all entries are in memory."""

    FOOT_LINES: ClassVar[int] = 2

    def on_mount(self) -> None:
        """Start empty."""
        self.entries: tuple[E, ...] = ()

    def entry_line(self, entry: E) -> StyledLine:
        """Return the line of an entry."""
        raise NotImplementedError

    def key_of(self, entry: E) -> Hashable:
        """Return an identity that survives changes of the entry, to keep the cursor on it."""
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

    def show_entries(self, entries: tuple[E, ...], empty: str) -> None:
        """Replace the entries; ``empty``: text shown if there are none."""
        at = self.entry
        self.entries = entries
        self.body.empty = empty
        self.body.changed()
        if at is not None and at != self.entry:
            keys = [self.key_of(entry) for entry in entries]
            if self.key_of(at) in keys:
                self.body.go_to(keys.index(self.key_of(at)))
        self.refresh_remarks()
        self.report_row()
