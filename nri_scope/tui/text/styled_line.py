# SPDX-License-Identifier: Apache-2.0
"""Lines of styled text and tables of them, created by views and shown by `Lines`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from nri_scope.text.escape import columns, safe
from nri_scope.text.styled_text import Span, Style, StyledLine, text_of

__all__ = ["Span", "Style", "StyledLine", "text_of"]


class Source(Protocol):
    """Sequence of lines, such as a list or tuple.

    It may create lines on request, and return None for a line that is not available yet.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> StyledLine | None: ...


def line(text: str = "", style: Style = Style.PLAIN) -> StyledLine:
    """Return a line of a single span."""
    return (Span(text, style),) if text else ()


class EventLine(tuple[Span, ...]):
    """A line about an event, which can be opened."""

    event: int
    """The event's number."""

    def __new__(cls, parts: StyledLine, event: int) -> Self:
        """Return ``parts`` as the line of an event."""
        made = super().__new__(cls, parts)
        made.event = event
        return made


GAP = 1
"""Blanks between columns."""


def fitted(text: str, width: int, *, right: bool = False) -> str:
    """Pad or visibly cut ``text``, which is already safe, to exactly ``width`` columns."""
    cut = safe(text, width)
    blanks = " " * (width - columns(cut))
    return blanks + cut if right else cut + blanks


@dataclass(frozen=True, slots=True)
class TableField:
    """A column of a table."""

    title: str
    width: int
    """Width in columns; the minimum width if ``grows``."""
    right: bool = False
    grows: bool = False
    """Whether the field shares spare width with other growing fields."""
    most: int = 1_000
    """Maximum width if ``grows``."""
    rank: int = 0
    """Order of omission if the line is too narrow: highest rank first, rank 0 never."""


@dataclass(frozen=True, slots=True)
class TableGrid:
    """Layout of a table's fields in lines of some width."""

    fields: tuple[TableField, ...]
    widths: tuple[int, ...]
    """Width of each field; 0 if omitted."""

    width: int
    """Requested width of a line; lines are wider if not even the fields of rank 0 fit."""

    @classmethod
    def of(cls, fields: Sequence[TableField], width: int) -> TableGrid:
        """Lay out as many of ``fields`` as fit into ``width``, and always those of rank 0."""
        kept = list(fields)

        def least() -> int:
            return sum(each.width for each in kept) + GAP * (len(kept) - 1)

        while least() > width:
            last = max(kept, key=lambda each: each.rank)
            if not last.rank:
                break
            kept.remove(last)
        spare = max(0, width - least())
        growing = sum(each.grows for each in kept)
        widths: list[int] = []
        for each in fields:
            wide = each.width if each in kept else 0
            if each in kept and each.grows:
                share = min(spare // growing, each.most - wide)
                wide += share
                spare, growing = spare - share, growing - 1
            widths.append(wide)
        return cls(tuple(fields), tuple(widths), width)

    def line(self, cells: Sequence[Span]) -> StyledLine:
        """Return a line with one cell per field, escaped, padded and cut."""
        parts: list[Span] = []
        for field, width, cell in zip(self.fields, self.widths, cells, strict=True):
            if not width:
                continue
            if parts:
                parts.append(Span(" " * GAP))
            # Cut before escaping: a text may have millions of characters.
            text = safe(cell.text[: 4 * width])
            parts.append(Span(fitted(text, width, right=field.right), cell.style))
        return tuple(parts)

    def head(self, sorted_by: int | None = None, *, ascending: bool = True) -> StyledLine:
        """Return the line of titles; ``sorted_by``: index of the field that sorts the lines."""
        parts = list(self.line([Span(field.title, Style.STRONG) for field in self.fields]))
        if sorted_by is not None and self.widths[sorted_by]:
            field, width = self.fields[sorted_by], self.widths[sorted_by]
            sign = "▲" if ascending else "▼"
            at = 2 * sum(1 for each in self.widths[:sorted_by] if each)
            if len(field.title) < width:
                text = fitted(f"{sign}{field.title}", width, right=field.right)
                parts[at] = Span(text, Style.STRONG)
            else:
                parts[at - 1] = Span(sign, Style.STRONG)
        return tuple(parts)


def cut(parts: StyledLine, width: int) -> StyledLine:
    """Return a line of at most ``width`` columns, escaped, and visibly cut if necessary."""
    # Cut before escaping: a part may have millions of characters.
    whole = [Span(safe(part.text[: 4 * width + 1]), part.style) for part in parts]
    if sum(columns(part.text) for part in whole) <= width:
        return tuple(whole)
    kept: list[Span] = []
    left = width - 1
    for text, style in whole:
        if columns(text) > left:
            # Append a blank, so that a text that just fits is cut visibly, too: more follows.
            kept.append(Span(safe(f"{text} ", left + 1), style))
            break
        kept.append(Span(text, style))
        left -= columns(text)
    return tuple(kept)
