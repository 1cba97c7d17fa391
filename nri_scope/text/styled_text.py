# SPDX-License-Identifier: Apache-2.0
"""Text whose pieces have styles, and the palette that maps styles to terminal styles.

Renderers choose styles by meaning. The terminal interface shows them in the colours of its theme;
`paint_line` converts them to escape sequences. Colour is never the only carrier of a meaning.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import cache
from typing import NamedTuple, TypeAlias


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
