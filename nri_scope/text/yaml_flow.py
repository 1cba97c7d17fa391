# SPDX-License-Identifier: Apache-2.0
"""Write one value as YAML flow text, on one line or broken where YAML allows it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from .escape import columns
from .yaml_text import CUT, YamlValue, atom, double_quoted, key, scalar

MAX_DEPTH = 24
"""Maximum depth of the output; a malicious value may be nested deeper than Python's stack."""

_BREAKS = frozenset("/:,;= ")
_UNITS = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|.)|.", re.DOTALL)


def fill(head: str, value: YamlValue, width: int | None, indent: int) -> list[str]:
    """Return `head` followed by the value, in lines of at most `width` columns where possible.

    `head` (``- `` or ``key: ``) starts the first line unchanged, with its indentation; the other
    lines are indented by `indent` columns, which must be more than the indentation of `head`.
    """
    pieces = _pieces(value)
    whole = f"{head}{' '.join(piece.whole for piece in pieces)}"
    if width is None or columns(whole) <= width:
        return [whole]
    lines: list[str] = []
    margin = " " * indent
    line, begun = head, False
    for piece in pieces:
        gap = " " if begun else ""
        if columns(line) + columns(gap) + columns(piece.whole) <= width:
            line += gap + piece.whole
            begun = True
            continue
        if begun:
            lines.append(line)
            line = margin
        begun = True
        if piece.text is None and columns(line) + columns(piece.whole) > width:
            if len(line) > indent:
                lines.append(line.rstrip())
                line = margin
            line += piece.whole
            continue
        if columns(line) + columns(piece.whole) <= width:
            line += piece.whole
            continue
        *full_lines, line = piece.break_text(line, margin, width)
        lines += full_lines
    return [*lines, line]


class _FlowPiece(NamedTuple):
    """A piece of a value that may start a new line."""

    lead: str
    shown: str
    tail: str = ""
    text: str | None = None
    """The text quoted in `shown`; None for values that are not text."""

    @property
    def whole(self) -> str:
        return f"{self.lead}{self.shown}{self.tail}"

    def break_text(self, line: str, margin: str, width: int) -> Iterator[str]:
        """Yield the text in several lines, the first of which continues `line`.

        In double quotes, a backslash at the end of a line joins it with the next line.
        """
        head = f'{line}{self.lead}"'
        units: list[str] = []
        used = columns(head)
        for unit in _UNITS.findall(double_quoted(self.text or "")[1:-1]):
            if units and used + columns(unit) + 1 + len(self.tail) > width:
                end = _line_end(units)
                yield f"{head}{''.join(units[:end])}\\"
                # YAML ignores an unescaped space at the beginning of a line.
                units = [*units[end:], unit]
                head = f"{margin}{chr(92) if units[0] == ' ' else ''}"
                used = columns(head) + sum(map(columns, units))
            else:
                units.append(unit)
                used += columns(unit)
        yield f'{head}{"".join(units)}"{self.tail}'


def _line_end(units: list[str]) -> int:
    """Return the best line end: after the last preferred break, if that fills half of the line."""
    for at in range(len(units), len(units) // 2, -1):
        if units[at - 1] in _BREAKS:
            return at
    return len(units)


def _pieces(value: YamlValue, *, in_flow: bool = False, depth: int = 0) -> list[_FlowPiece]:
    if isinstance(value, str):
        return [_FlowPiece("", scalar(value, in_flow=in_flow), text=value)]
    if value is None or isinstance(value, bool | int | float):
        return [_FlowPiece("", atom(value))]
    assert isinstance(value, dict | list)
    if not value:
        return [_FlowPiece("", "{}" if isinstance(value, dict) else "[]")]
    if depth >= MAX_DEPTH:
        return [_FlowPiece("", CUT)]
    pieces: list[_FlowPiece] = []
    named = value.items() if isinstance(value, dict) else ((None, each) for each in value)
    for name, each in named:
        if name is not None:
            pieces.append(_FlowPiece("", key(name)))
        pieces += _pieces(each, in_flow=True, depth=depth + 1)
        pieces[-1] = pieces[-1]._replace(tail=f"{pieces[-1].tail},")
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    pieces[0] = pieces[0]._replace(lead=f"{opening}{pieces[0].lead}")
    pieces[-1] = pieces[-1]._replace(tail=f"{pieces[-1].tail[:-1]}{closing}")
    return pieces
