# SPDX-License-Identifier: Apache-2.0
"""Lines of styled text, and aligned columns of them: made by views, shown by `Lines`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from nri_scope.text.escape import columns, safe
from nri_scope.text.styled_text import Span, Style, StyledLine, text_of

__all__ = ["Span", "Style", "StyledLine", "text_of"]


class Source(Protocol):
    """Any number of lines. A list or tuple of lines is a source, too.

    A source may create lines on request, and return None for one that is not available yet.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> StyledLine | None: ...


def line(text: str = "", style: Style = Style.PLAIN) -> StyledLine:
    """Return a line with a single part."""
    return (Span(text, style),) if text else ()


GAP = 1
"""Blanks between two columns."""


def fitted(text: str, width: int, *, right: bool = False) -> str:
    """Fit ``text``, which is safe, into exactly ``width`` columns of the terminal; cut visibly."""
    cut = safe(text, width)
    blanks = " " * (width - columns(cut))
    return blanks + cut if right else cut + blanks


@dataclass(frozen=True, slots=True)
class TableField:
    """A column of a table."""

    title: str
    width: int
    """Columns of the terminal; the minimum if it grows."""
    right: bool = False
    grows: bool = False
    """Whether it shares the remaining room with the other growing fields."""
    most: int = 1_000
    """Maximum width if it grows."""
    rank: int = 0
    """Fields with a higher rank are left out first if there is not enough room."""


@dataclass(frozen=True, slots=True)
class TableGrid:
    """The places of fields in a line of some width."""

    fields: tuple[TableField, ...]
    widths: tuple[int, ...]
    """One width for each field; 0 if it is left out."""

    width: int
    """Width of a line; may be larger if not even the fields of rank 0 fit."""

    @classmethod
    def of(cls, fields: Sequence[TableField], width: int) -> TableGrid:
        """Place as many of ``fields`` as fit into ``width``, and always those of rank 0."""
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
        """Lay out one part for each field; texts need not be escaped."""
        parts: list[Span] = []
        for field, width, cell in zip(self.fields, self.widths, cells, strict=True):
            if not width:
                continue
            if parts:
                parts.append(Span(" " * GAP))
            # Cut first: a text may have millions of characters.
            text = safe(cell.text[: 4 * width])
            parts.append(Span(fitted(text, width, right=field.right), cell.style))
        return tuple(parts)

    def head(self) -> StyledLine:
        """Return the titles."""
        return self.line([Span(field.title, Style.STRONG) for field in self.fields])


def cut(parts: StyledLine, width: int) -> StyledLine:
    """Return a line of at most ``width`` columns, escaped, and visibly cut if necessary."""
    # Only the visible beginning of each part is used: it may have millions of characters.
    whole = [Span(safe(part.text[: 4 * width + 1]), part.style) for part in parts]
    if sum(columns(part.text) for part in whole) <= width:
        return tuple(whole)
    kept: list[Span] = []
    left = width - 1
    for text, style in whole:
        if columns(text) > left:
            # A text that just fits is cut as well, because more follows.
            kept.append(Span(safe(f"{text} ", left + 1), style))
            break
        kept.append(Span(text, style))
        left -= columns(text)
    return tuple(kept)
