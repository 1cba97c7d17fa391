# SPDX-License-Identifier: Apache-2.0
"""Lay out text in lines of a terminal's width. All text is escaped by `safe`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .escape import columns, safe
from .styled_text import Span, Style, StyledText

_BREAKS = (" ", ",;:/=")
"""Characters after which a line may be broken; the first group is preferred."""
_MIN_WIDTH = 20
"""Minimum number of columns, even on narrower terminals, as narrower text would be unreadable."""


class LayoutPart(NamedTuple):
    """A part of a line that is not broken if it fits."""

    text: str
    style: Style = Style.PLAIN


class Layout:
    """Layout in lines of at most ``width`` columns, or of any length if ``width`` is None."""

    def __init__(self, width: int | None) -> None:
        self.width = width

    def parts(self, parts: Sequence[LayoutPart], indent: int, hanging: int) -> list[StyledText]:
        """Lay out parts one after the other, separated by two spaces.

        The first line is indented by ``indent`` columns. A part that does not fit starts a new
        line, indented by ``hanging`` columns, and is broken if it is longer than that line.
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
            pieces = break_text(text, self.width - used, self.width - hanging - 2)
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
        """Lay out one text, breaking it where necessary."""
        return self.parts([LayoutPart(text, style)], indent, indent)


def break_text(text: str, first: int, rest: int) -> list[str]:
    """Break ``text``, preferably after spaces and punctuation.

    The first piece has at most ``first`` columns, the others have at most ``rest``; both widths are
    raised to a minimum.
    """
    pieces: list[str] = []
    width = max(first, _MIN_WIDTH)
    begin = 0
    while (end := _fitting_end(text, begin, width)) < len(text):
        end = _break_before(text, begin, end)
        pieces.append(text[begin:end].rstrip())
        begin = end
        width = max(rest, _MIN_WIDTH)
    return [*pieces, text[begin:]]


def _fitting_end(text: str, begin: int, width: int) -> int:
    """Return the end of the text that fits into ``width`` columns, at least one character."""
    end, used = begin, 0
    while end < len(text):
        used += columns(text[end])
        if used > width:
            return max(end, begin + 1)
        end += 1
    return end


def _break_before(text: str, begin: int, end: int) -> int:
    """Return the last preferred break up to ``end`` that fills half of the line, else ``end``."""
    for breaks in _BREAKS:
        for at in range(end, begin + (end - begin) // 2, -1):
            if text[at - 1] in breaks:
                return at
    return end
