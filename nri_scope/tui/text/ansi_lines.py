# SPDX-License-Identifier: Apache-2.0
"""Text that other renderers painted for a terminal, as styled lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from nri_scope.tui.text.styled_line import Span, Style, StyledLine

# Renderers escape what strangers wrote, so every escape sequence in their lines is their own.
_PAINT = re.compile(r"\x1b\[([0-9;]*)m")
_STYLES = {
    "1": Style.STRONG,
    "2": Style.DIM,
    "31": Style.BAD,
    "32": Style.GOOD,
    "33": Style.WARN,
    "36": Style.NOTE,
}


def lines_of(painted: Iterable[str]) -> Iterator[StyledLine]:
    """Return a line for each; colours that are not known are left out."""
    for text in painted:
        style = Style.PLAIN
        parts: list[Span] = []
        for at, piece in enumerate(_PAINT.split(text)):
            if at % 2:
                style = _STYLES.get(piece, Style.PLAIN)
            elif piece:
                parts.append(Span(piece, style))
        yield tuple(parts)
