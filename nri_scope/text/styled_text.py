# SPDX-License-Identifier: Apache-2.0
"""Text whose pieces have styles, and the palette that maps styles to terminal styles.

Renderers choose styles by meaning. The terminal interface shows them in the colours of its theme;
`paint_line` converts them to escape sequences. Colour is never the only carrier of a meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import cache
from typing import NamedTuple, TypeAlias

from .escape import columns, safe


class Style(StrEnum):
    """The meaning of a piece of text."""

    PLAIN = ""
    STRONG = "strong"
    DIM = "dim"
    KEY = "key"
    GOOD = "good"
    """Added or correct."""
    BAD = "bad"
    """Removed or failed."""
    WARN = "warn"
    """Changed or doubtful."""
    NOTE = "note"
    """Moved or noteworthy."""


_PALETTE = {
    Style.STRONG: "bold",
    Style.DIM: "dim",
    Style.KEY: "cyan",
    Style.GOOD: "green",
    Style.BAD: "red",
    Style.WARN: "yellow",
    Style.NOTE: "cyan",
}


class Span(NamedTuple):
    """A piece of a line with its style."""

    text: str
    style: Style = Style.PLAIN


StyledLine: TypeAlias = tuple[Span, ...]


class StyledText(str):
    """A line of text with the styles of its pieces, which operations of ``str`` drop."""

    __slots__ = ("spans",)
    spans: StyledLine

    def __new__(cls, *spans: Span | str) -> StyledText:
        """Join pieces; pieces of another StyledText keep their styles."""
        parts: list[Span] = []
        for span in spans:
            parts += spans_of(span) if isinstance(span, str) else (span,) if span.text else ()
        line = super().__new__(cls, text_of(parts))
        line.spans = tuple(parts)
        return line


def styled(style: Style, text: str) -> StyledText:
    """Return ``text`` in one style."""
    return StyledText(Span(text, style))


def spans_of(text: str) -> StyledLine:
    """Return the pieces of a line, which may be a plain ``str``."""
    if isinstance(text, StyledText):
        return text.spans
    return (Span(text),) if text else ()


def text_of(parts: Iterable[Span]) -> str:
    """Return the text of all parts, without styles."""
    return "".join(part.text for part in parts)


def paint_line(text: str) -> str:
    """Return a line with a terminal's escape sequences. Its text must already be safe."""
    if not isinstance(text, StyledText):
        return text
    return "".join(paint(span.style, span.text) for span in text.spans)


def paint(style: Style, text: str) -> str:
    """Return ``text`` with the escape sequences of a style."""
    if not style or not text:
        return text
    begin, end = _sequences(style)
    return f"{begin}{text}{end}"


@cache
def _sequences(style: Style) -> tuple[str, str]:
    # Rich is only imported for output to a terminal, and called only once for each style.
    from rich.color import ColorSystem
    from rich.style import Style as RichStyle

    rendered = RichStyle.parse(_PALETTE[style]).render("|", color_system=ColorSystem.STANDARD)
    begin, _, end = rendered.partition("|")
    return begin, end


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
        for index in range(end, begin + (end - begin) // 2, -1):
            if text[index - 1] in breaks:
                return index
    return end
