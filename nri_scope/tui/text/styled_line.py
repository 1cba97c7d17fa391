# SPDX-License-Identifier: Apache-2.0
"""Lines of styled text and tables of them, created by views and shown by `LinesView`.

Lines may be wrapped or truncated, searched for a text, and made of plain values as YAML.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise
from typing import Protocol, Self

from rich.cells import cell_len, get_character_cell_size

from nri_scope.nri.plain import Plain
from nri_scope.text import yaml_text
from nri_scope.text.escape import columns, safe
from nri_scope.text.styled_text import Span, Style, StyledLine, text_of

from ..store.reader_thread import CancelFlag

MAX_CHARACTERS = 4_000
"""Maximum characters shown of one line."""

MAX_TEXT = 2_000
"""Maximum characters of one value."""
MAX_MEMBERS = 1_000
"""Maximum members of one list or mapping; real containers have fewer."""
MAX_LINES = 20_000
"""Maximum lines of a document; enough for a Synchronize request with hundreds of containers."""
_KEY = re.compile(r"([ -]*)([^\s'\"-][^:]*:|'[^']*':|\"(?:[^\"\\]|\\.)*\":)( .*)?\Z")

__all__ = ["Span", "Style", "StyledLine", "text_of"]


class LineSequence(Protocol):
    """Sequence of lines, such as a list or tuple.

    It may create lines on request, and return None for a line that is not available yet.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> StyledLine | None: ...


def line(text: str = "", style: Style = Style.PLAIN) -> StyledLine:
    """Return a line of a single span."""
    return (Span(text, style),) if text else ()


class EventLine(tuple[Span, ...]):
    """A line about an event, which can be opened."""

    event: int
    """The event's number."""

    def __new__(cls, parts: StyledLine, event: int) -> Self:
        """Return ``parts`` as the line of an event."""
        made = super().__new__(cls, parts)
        made.event = event
        return made


GAP = 1
"""Blanks between columns."""


def fitted(text: str, width: int, *, right: bool = False) -> str:
    """Pad or visibly cut ``text``, which is already safe, to exactly ``width`` columns."""
    cut = safe(text, width)
    blanks = " " * (width - columns(cut))
    return blanks + cut if right else cut + blanks


@dataclass(frozen=True, slots=True)
class TableField:
    """A column of a table."""

    title: str
    width: int
    """Width in columns; the minimum width if ``grows``."""
    right: bool = False
    grows: bool = False
    """Whether the field shares spare width with other growing fields."""
    most: int = 1_000
    """Maximum width if ``grows``."""
    rank: int = 0
    """Order of omission if the line is too narrow: highest rank first, rank 0 never."""


@dataclass(frozen=True, slots=True)
class TableGrid:
    """Layout of a table's fields in lines of some width."""

    fields: tuple[TableField, ...]
    widths: tuple[int, ...]
    """Width of each field; 0 if omitted."""

    width: int
    """Requested width of a line; lines are wider if not even the fields of rank 0 fit."""

    @classmethod
    def of(cls, fields: Sequence[TableField], width: int) -> TableGrid:
        """Lay out as many of ``fields`` as fit into ``width``, and always those of rank 0."""
        kept = list(fields)

        def least() -> int:
            return sum(each.width for each in kept) + GAP * (len(kept) - 1)

        while least() > width:
            last = max(kept, key=lambda each: each.rank)
            if not last.rank:
                break
            kept.remove(last)
        spare = max(0, width - least())
        growing = sum(each.grows for each in kept)
        widths: list[int] = []
        for each in fields:
            wide = each.width if each in kept else 0
            if each in kept and each.grows:
                share = min(spare // growing, each.most - wide)
                wide += share
                spare, growing = spare - share, growing - 1
            widths.append(wide)
        return cls(tuple(fields), tuple(widths), width)

    def line(self, cells: Sequence[Span]) -> StyledLine:
        """Return a line with one cell per field, escaped, padded and cut."""
        parts: list[Span] = []
        for field, width, cell in zip(self.fields, self.widths, cells, strict=True):
            if not width:
                continue
            if parts:
                parts.append(Span(" " * GAP))
            # Cut before escaping: a text may have millions of characters.
            text = safe(cell.text[: 4 * width])
            parts.append(Span(fitted(text, width, right=field.right), cell.style))
        return tuple(parts)

    def line_of(self, first: Span) -> StyledLine:
        """Return a line in which only the first field has a text."""
        return self.line([first, *(Span("") for _ in self.fields[1:])])

    def head(self) -> StyledLine:
        """Return the line of titles."""
        return self.line([Span(field.title, Style.STRONG) for field in self.fields])


def cut(parts: StyledLine, width: int) -> StyledLine:
    """Return a line of at most ``width`` columns, escaped, and visibly cut if necessary."""
    # Cut before escaping: a part may have millions of characters.
    whole = [Span(safe(part.text[: 4 * width + 1]), part.style) for part in parts]
    if sum(columns(part.text) for part in whole) <= width:
        return tuple(whole)
    spans: list[Span] = []
    left = width - 1
    for text, style in whole:
        if columns(text) > left:
            # Append a blank, so that a text that just fits is cut visibly, too: more follows.
            spans.append(Span(safe(f"{text} ", left + 1), style))
            break
        spans.append(Span(text, style))
        left -= columns(text)
    return tuple(spans)


def yaml_lines(value: dict[str, Plain], stop: CancelFlag) -> Iterator[StyledLine]:
    """Yield the lines of a document, keeping the order of keys.

    Raises CancelledError after `CancelFlag.set`.
    """
    for count, text in enumerate(yaml_text.yaml_lines(_clipped(value, stop.check))):
        stop.check()
        if count == MAX_LINES:
            yield (Span(f"… more than {MAX_LINES:,} lines: the rest is omitted", Style.WARN),)
            return
        yield styled_yaml(text)


def clipped(value: Plain) -> Plain:
    """Truncate long texts, lists and mappings, adding what was cut."""
    return _clipped(value, lambda: None)


def _clipped(value: Plain, check: Callable[[], None]) -> Plain:
    if isinstance(value, str):
        return clipped_text(value)
    if isinstance(value, list):
        found = [_clipped(each, check) for each in value[:MAX_MEMBERS]]
        return [*found, _omitted_count(value)] if len(value) > MAX_MEMBERS else found
    if isinstance(value, dict):
        check()
        entries = islice(value.items(), MAX_MEMBERS)
        named = {clipped_text(key): _clipped(each, check) for key, each in entries}
        return {**named, "…": _omitted_count(value)} if len(value) > MAX_MEMBERS else named
    return value


def clipped_text(text: str, most: int = MAX_TEXT) -> str:
    """Truncate to `most` characters, followed by the original number of characters."""
    if len(text) <= most:
        return text
    return f"{text[:most]}… ({len(text):,} characters in all)"


def _omitted_count(value: Sequence[Plain] | dict[str, Plain]) -> str:
    return f"… {len(value) - MAX_MEMBERS:,} more"


def styled_yaml(text: str) -> StyledLine:
    """Return a line of YAML with its key in a style."""
    found = _KEY.match(text)
    if found is None:
        return (Span(text),)
    indent, key, value = found.groups(default="")
    parts = (Span(indent), Span(key, Style.KEY), Span(value))
    return tuple(part for part in parts if part.text)


def shown(parts: StyledLine) -> StyledLine:
    """Return the visible part of a line, escaped; if cut, followed by the number of characters."""
    room = MAX_CHARACTERS
    spans: list[Span] = []
    for part in parts:
        if room <= 0:
            break
        text = part.text[:room]
        room -= len(text)
        spans.append(Span(safe(text), part.style))
    total = sum(len(part.text) for part in parts)
    if total > MAX_CHARACTERS:
        spans.append(Span(f"… ({total:,} characters in all)", Style.DIM))
    return tuple(spans)


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
    begins = [0]
    if len(text) <= room and text.isascii():
        return begins
    used = natural = left = 0
    for index, char in enumerate(text):
        size = get_character_cell_size(char)
        while used and used + size > room:
            # Text after the natural end moves to the next row.
            at_natural = natural > begins[-1] and 2 * left >= room
            begins.append(natural if at_natural else index)
            used = used - left if at_natural else 0
            room = rest
        used += size
        if char in _NATURAL:
            natural, left = index + 1, used
    return begins


def split_by_spans(
    begin: int, end: int, spans: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int, bool]]:
    """Split the range `begin` to `end` at the bounds of `spans`, which ascend and are disjoint.

    Yields start, end, and whether the piece is in a span.
    """
    position = begin
    for first, last in spans:
        first, last = max(first, position), min(last, end)
        if first >= last:
            continue
        if position < first:
            yield position, first, False
        yield first, last, True
        position = last
    if position < end:
        yield position, end, False
