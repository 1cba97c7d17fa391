# SPDX-License-Identifier: Apache-2.0
"""Lines of styled text: what models make and `nri_scope.tui.widgets.lines` shows."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeAlias


class Style(StrEnum):
    """What a piece of text is, for a theme to colour. Nothing is told by colour alone."""

    PLAIN = ""
    STRONG = "strong"
    DIM = "dim"
    KEY = "key"
    GOOD = "good"
    """Added; in order."""
    BAD = "bad"
    """Removed; trouble."""
    WARN = "warn"
    """Changed; in doubt."""
    NOTE = "note"
    """Moved; worth a look."""


class Span(NamedTuple):
    """A piece of a line. It need not be escaped yet: widgets do that."""

    text: str
    style: Style = Style.PLAIN


StyledLine: TypeAlias = tuple[Span, ...]


class Source(Protocol):
    """Any number of lines. A list or tuple of lines is one, too.

    It may make lines only when they are asked for, and give None for one that is still to come.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> StyledLine | None: ...


def line(text: str = "", style: Style = Style.PLAIN) -> StyledLine:
    """Return a line of one piece."""
    return (Span(text, style),) if text else ()


def text_of(parts: Iterable[Span]) -> str:
    """Without the styles."""
    return "".join(part.text for part in parts)
