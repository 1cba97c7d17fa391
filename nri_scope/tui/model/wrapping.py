# SPDX-License-Identifier: Apache-2.0
"""What is shown of a line, how wide it is, where its rows begin, and where a text is in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from rich.cells import cell_len, get_character_cell_size

from nri_scope.recorder.escape import safe
from nri_scope.tui.model.line import Line, Part, Style, text_of

MAX_CHARACTERS = 4_000
"""Of one line that are shown; behind them stands how many there are."""


def shown(parts: Line) -> Line:
    """What is shown of a line: its beginning, made safe, and its length where that is not all."""
    room = MAX_CHARACTERS
    found: list[Part] = []
    for part in parts:
        if room <= 0:
            break
        text = part.text[:room]
        room -= len(text)
        found.append(Part(safe(text), part.style))
    total = sum(len(part.text) for part in parts)
    if total > MAX_CHARACTERS:
        found.append(Part(f"… ({total:,} characters in all)", Style.DIM))
    return tuple(found)


@lru_cache(maxsize=8)
def pattern(text: str) -> re.Pattern[str] | None:
    """Finds `text` as it is, in upper or lower case; None for no text."""
    return re.compile(re.escape(text), re.IGNORECASE) if text else None


def width(parts: Line) -> int:
    """Columns of what is shown of a line."""
    return cell_len(text_of(shown(parts)))


def breaks(text: str, room: int) -> Sequence[int]:
    """The columns at which the rows of a line begin, each row at most `room` columns wide.

    A character wider than that has a row of its own.
    """
    if text.isascii():
        return range(0, max(len(text), 1), room)
    found = [0]
    at = 0
    for char in text:
        size = get_character_cell_size(char)
        if at + size - found[-1] > room and at > found[-1]:
            found.append(at)
        at += size
    return found


def pieces(
    begin: int, end: int, spans: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int, bool]]:
    """`begin` to `end`, cut where `spans` begin and end: from, to, whether it is in one.

    `spans` ascend and do not overlap.
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
