# SPDX-License-Identifier: Apache-2.0
"""Lay out text in lines of a terminal's width. All text is escaped by `safe`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .escape import columns, safe
from .styled_text import Span, Style, StyledText

_BREAKS = (" ", ",;:/=")
"""Characters after which a line may be broken; the first group is preferred."""
_NARROWEST = 20
"""Minimum number of columns to use, even on narrower terminals: narrower text is unreadable."""


class LayoutPart(NamedTuple):
    """A piece of a line that is kept together if it fits."""

    text: str
    style: Style = Style.PLAIN


class Layout:
    """Breaks text into lines of ``width`` columns, or of any length if ``width`` is None."""

    def __init__(self, width: int | None) -> None:
        self.width = width

    def parts(self, parts: Sequence[LayoutPart], indent: int, hanging: int) -> list[StyledText]:
        """Lay out parts one after the other, separated by two blanks.

        A part that does not fit starts a new line, indented by ``hanging`` columns; it is broken if
        it is longer than that line.
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
        """Lay out one text, broken where necessary."""
        return self.parts([LayoutPart(text, style)], indent, indent)


def broken(text: str, first: int, rest: int) -> list[str]:
    """Break `text` at natural places: a first piece of at most ``first`` columns, then ``rest``."""
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
    """Return the end of the text that fits into ``room`` columns, at least one character."""
    end, used = begin, 0
    while end < len(text):
        used += columns(text[end])
        if used > room:
            return max(end, begin + 1)
        end += 1
    return end


def _natural(text: str, begin: int, end: int) -> int:
    """Return the last natural break before ``end`` unless that leaves half of the line empty."""
    for breaks in _BREAKS:
        for at in range(end, begin + (end - begin) // 2, -1):
            if text[at - 1] in breaks:
                return at
    return end
