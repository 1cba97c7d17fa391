# SPDX-License-Identifier: Apache-2.0
"""Truncation and wrapping of lines, and matches of a text in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from rich.cells import cell_len, get_character_cell_size

from nri_scope.text.escape import safe

from .styled_line import Span, Style, StyledLine, text_of

MAX_CHARACTERS = 4_000
"""Maximum characters shown of one line."""


def shown(parts: StyledLine) -> StyledLine:
    """Return the visible part of a line, escaped; if cut, followed by the number of characters."""
    room = MAX_CHARACTERS
    found: list[Span] = []
    for part in parts:
        if room <= 0:
            break
        text = part.text[:room]
        room -= len(text)
        found.append(Span(safe(text), part.style))
    total = sum(len(part.text) for part in parts)
    if total > MAX_CHARACTERS:
        found.append(Span(f"… ({total:,} characters in all)", Style.DIM))
    return tuple(found)


_NATURAL = frozenset(" ,;:/=")
"""Characters after which rows preferably end."""


@lru_cache(maxsize=8)
def pattern(text: str) -> re.Pattern[str] | None:
    """Return a pattern of the literal `text`, ignoring case; None for ""."""
    return re.compile(re.escape(text), re.IGNORECASE) if text else None


def match_spans(text: str, needle: str) -> list[tuple[int, int]]:
    """Return the spans of ``needle`` in ``text``, as start and end."""
    regex = pattern(needle)
    return [] if regex is None else [match.span() for match in regex.finditer(text)]


def width(parts: StyledLine) -> int:
    """Return the width of a line's visible part, in columns."""
    return cell_len(text_of(shown(parts)))


def hanging(text: str, room: int) -> int:
    """Return the indentation of a wrapped line's rows after the first, in columns."""
    indent = len(text) - len(text.lstrip(" "))
    return min(indent + 2, room // 2)


@lru_cache(maxsize=256)
def breaks(text: str, room: int) -> tuple[int, ...]:
    """Return the columns at which the rows of a wrapped line begin.

    A row with its indentation is at most `room` columns wide, except for a single wider character.
    """
    cuts = _cuts(text, room, room - hanging(text, room))
    return tuple(cuts if text.isascii() else (cell_len(text[:cut]) for cut in cuts))


def folded(parts: StyledLine, room: int, indent: int) -> Iterator[StyledLine]:
    """Wrap the visible part of a line; yield its rows, indented by ``indent`` after the first."""
    parts = shown(parts)
    text = text_of(parts)
    indent = min(indent, room // 2)
    cuts = [*_cuts(text, room, room - indent), len(text)]
    for begin, end in pairwise(cuts):
        row = [Span(" " * indent)] if begin else []
        at = 0
        for part in parts:
            piece = part.text[max(0, begin - at) : max(0, end - at)]
            if piece:
                row.append(Span(piece, part.style))
            at += len(part.text)
        yield tuple(row)


def _cuts(text: str, room: int, rest: int) -> list[int]:
    """Return the indices at which rows begin: the first has `room` columns, all others `rest`.

    Rows end after one of `_NATURAL`, unless that leaves more than half of a row empty.
    """
    found = [0]
    if len(text) <= room and text.isascii():
        return found
    used = natural = left = 0
    for at, char in enumerate(text):
        size = get_character_cell_size(char)
        while used and used + size > room:
            # Text after the natural end moves to the next row.
            at_natural = natural > found[-1] and 2 * left >= room
            found.append(natural if at_natural else at)
            used = used - left if at_natural else 0
            room = rest
        used += size
        if char in _NATURAL:
            natural, left = at + 1, used
    return found


def split_by_spans(
    begin: int, end: int, spans: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int, bool]]:
    """Split the range `begin` to `end` at the bounds of `spans`, which ascend and are disjoint.

    Yields start, end, and whether the piece is in a span.
    """
    at = begin
    for first, last in spans:
        first, last = max(first, at), min(last, end)
        if first >= last:
            continue
        if at < first:
            yield at, first, False
        yield first, last, True
        at = last
    if at < end:
        yield at, end, False
