# SPDX-License-Identifier: Apache-2.0
"""Lay text out in lines of a terminal's width. Everything here is escaped by `safe`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .escape import columns, safe
from .styled_text import Span, Style, StyledText

_BREAKS = (" ", ",;:/=")
"""Characters after which a line is broken: those of the first group are preferred."""
_NARROWEST = 20
"""Columns that are used even where there are fewer: narrower text cannot be read."""


class LayoutPart(NamedTuple):
    """A piece of a line that stays together where there is room."""

    text: str
    style: Style = Style.PLAIN


class Layout:
    """Breaks text into lines of ``width`` columns; None: lines of any length."""

    def __init__(self, width: int | None) -> None:
        self.width = width

    def parts(self, parts: Sequence[LayoutPart], indent: int, hanging: int) -> list[StyledText]:
        """Return parts one after the other, with two blanks between them.

        A part that does not fit begins a new line, indented by ``hanging`` columns, and is broken
        where it is longer than that line.
        """
        lines: list[StyledText] = []
        line, used = [Span(" " * indent)], indent
        begun = False
        for part in parts:
            text = safe(part.text)
            if not text:
                continue
            gap = 2 if begun else 0
            if self.width is None or used + gap + columns(text) <= self.width:
                line += Span(" " * gap), Span(text, part.style)
                used += gap + columns(text)
                begun = True
                continue
            if begun:
                lines.append(StyledText(*line))
                line, used = [Span(" " * hanging)], hanging
            pieces = broken(text, self.width - used, self.width - hanging - 2)
            line.append(Span(pieces[0], part.style))
            for piece in pieces[1:]:
                lines.append(StyledText(*line))
                line = [Span(" " * (hanging + 2)), Span(piece, part.style)]
            used = (hanging + 2 if pieces[1:] else used) + columns(pieces[-1])
            begun = True
        if begun:
            lines.append(StyledText(*line))
        return lines

    def sentence(self, text: str, indent: int, style: Style = Style.PLAIN) -> list[StyledText]:
        """Return one text, broken where necessary."""
        return self.parts([LayoutPart(text, style)], indent, indent)


def broken(text: str, first: int, rest: int) -> list[str]:
    """Return `text` in pieces of at most ``first`` columns, then ``rest``, broken naturally."""
    pieces: list[str] = []
    room = max(first, _NARROWEST)
    begin = 0
    while (end := _fitting(text, begin, room)) < len(text):
        end = _natural(text, begin, end)
        pieces.append(text[begin:end].rstrip())
        begin = end
        room = max(rest, _NARROWEST)
    return [*pieces, text[begin:]]


def _fitting(text: str, begin: int, room: int) -> int:
    """Return the end of the text that fits into ``room`` columns; at least one character."""
    end, used = begin, 0
    while end < len(text):
        used += columns(text[end])
        if used > room:
            return max(end, begin + 1)
        end += 1
    return end


def _natural(text: str, begin: int, end: int) -> int:
    """Return the last natural place before ``end``, unless that left half of the line empty."""
    for breaks in _BREAKS:
        for at in range(end, begin + (end - begin) // 2, -1):
            if text[at - 1] in breaks:
                return at
    return end
