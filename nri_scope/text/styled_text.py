# SPDX-License-Identifier: Apache-2.0
"""Text whose pieces have a style. One palette maps styles to terminal styles.

Renderers choose styles by meaning; the terminal interface shows the pieces in the colours of its
theme, and `painted` writes the escape sequences of Rich's styles. Meaning is never carried by
colour alone.
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
    """Added, or in order."""
    BAD = "bad"
    """Removed, or failed."""
    WARN = "warn"
    """Changed, or doubtful."""
    NOTE = "note"
    """Moved, or noteworthy."""


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
    """A line of text that keeps the styles of its pieces. Operations of ``str`` drop them."""

    __slots__ = ("spans",)
    spans: StyledLine

    def __new__(cls, *spans: Span | str) -> StyledText:
        """Join pieces; pieces of another StyledText keep their styles."""
        kept: list[Span] = []
        for span in spans:
            kept += spans_of(span) if isinstance(span, str) else (span,) if span.text else ()
        made = super().__new__(cls, text_of(kept))
        made.spans = tuple(kept)
        return made


def styled(style: Style, text: str) -> StyledText:
    """Return ``text`` with one style."""
    return StyledText(Span(text, style))


def spans_of(text: str) -> StyledLine:
    """Return the pieces of a line, which may be a plain ``str``."""
    if isinstance(text, StyledText):
        return text.spans
    return (Span(text),) if text else ()


def text_of(parts: Iterable[Span]) -> str:
    """Return the text without the styles."""
    return "".join(part.text for part in parts)


def painted(text: str) -> str:
    """Return a line with escape sequences for a terminal. Its text must already be safe."""
    if not isinstance(text, StyledText):
        return text
    return "".join(paint(span.style, span.text) for span in text.spans)


def paint(style: Style, text: str) -> str:
    """Return ``text`` with a style's escape sequences for a terminal."""
    if not style or not text:
        return text
    begin, end = _sequences(style)
    return f"{begin}{text}{end}"


@cache
def _sequences(style: Style) -> tuple[str, str]:
    # Rich computes this once per style, and only for a terminal: output to a pipe does not wait for
    # the import, and a line needs no call.
    from rich.color import ColorSystem
    from rich.style import Style as RichStyle

    rendered = RichStyle.parse(_PALETTE[style]).render("|", color_system=ColorSystem.STANDARD)
    begin, _, end = rendered.partition("|")
    return begin, end
