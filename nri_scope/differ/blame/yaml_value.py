# SPDX-License-Identifier: Apache-2.0
"""One JSON value as YAML, safe for a terminal, broken into lines only where YAML allows it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from nri_scope.oci import Json
from nri_scope.text.escape import columns, safe

MAX_DEPTH = 24
"""Levels of one value that are written; a hostile one may be deeper than Python's stack."""

_NATURAL = frozenset("/:,;= ")
_CUT = '"…"'
# Other words than YAML 1.1 and 1.2 take for something else than text, and no sign in front.
_RESERVED = frozenset(("", "true", "false", "yes", "no", "on", "off", "y", "n", "null", "none"))
_PLAIN = re.compile(
    r"[^\W\d][\w ./@%+=;()$^*<>~:,!?&|#'\"\\{}\[\]\u00a1-\U0010ffff-]*|[/.][\w./@%+=~:-]*"
)
_UNPLAIN = re.compile(r": | #|[: ]$")
_IN_FLOW = re.compile(r"[,\[\]{}:?\"']|^=")
_WORD_FLAG = re.compile(r"-{1,2}[A-Za-z][\w-]*")
_NUMBER = re.compile(r"\.?(?:\d|inf$|nan$)", re.IGNORECASE)
_UNITS = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|.)|.", re.DOTALL)


def scalar(text: str, *, in_flow: bool = False) -> str:
    """Text as YAML: as it is where it can be, else in double quotes with YAML's own escapes."""
    if _is_plain(text, in_flow=in_flow):
        return text
    return _quoted(text)


def key(text: str) -> str:
    """A mapping's key with its colon."""
    return f"{scalar(text, in_flow=True)}:"


def inline(value: Json) -> str:
    """The value on one line."""
    return " ".join(piece.whole for piece in _pieces(value))


def fill(head: str, value: Json, width: int | None, indent: int) -> list[str]:
    """`head` and the value behind it, in lines of at most `width` columns where that can be.

    `head` (``- `` or ``key: ``) stands in the first line as it is, with its indentation; the
    others are indented by `indent` columns, which has to be more than that.
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
        *broken, line = piece.broken(line, margin, width)
        lines += broken
    return [*lines, line]


class _Piece(NamedTuple):
    """What may stand on a line of its own."""

    lead: str
    shown: str
    tail: str = ""
    text: str | None = None
    """The text that `shown` is; None for what is none."""

    @property
    def whole(self) -> str:
        return f"{self.lead}{self.shown}{self.tail}"

    def broken(self, line: str, margin: str, width: int) -> Iterator[str]:
        """A text over several lines, the first of which goes on from `line`.

        In double quotes a backslash at the end of a line joins it with the next one.
        """
        head = f'{line}{self.lead}"'
        units: list[str] = []
        used = columns(head)
        for unit in _UNITS.findall(_quoted(self.text or "")[1:-1]):
            if units and used + columns(unit) + 1 + len(self.tail) > width:
                end = _natural_end(units)
                yield f"{head}{''.join(units[:end])}\\"
                # A blank at the beginning of a line is not part of the text, unless escaped.
                units = [*units[end:], unit]
                head = f"{margin}{chr(92) if units[0] == ' ' else ''}"
                used = columns(head) + sum(map(columns, units))
            else:
                units.append(unit)
                used += columns(unit)
        yield f'{head}{"".join(units)}"{self.tail}'


def _natural_end(units: list[str]) -> int:
    """Where a line ends best: behind the last of certain marks, unless it were half empty then."""
    for at in range(len(units), len(units) // 2, -1):
        if units[at - 1] in _NATURAL:
            return at
    return len(units)


def _pieces(value: Json, *, in_flow: bool = False, depth: int = 0) -> list[_Piece]:
    if isinstance(value, str):
        return [_Piece("", scalar(value, in_flow=in_flow), text=value)]
    if not isinstance(value, dict | list):
        return [_Piece("", _atom(value))]
    if not value:
        return [_Piece("", "{}" if isinstance(value, dict) else "[]")]
    if depth >= MAX_DEPTH:
        return [_Piece("", _CUT)]
    pieces: list[_Piece] = []
    named = value.items() if isinstance(value, dict) else ((None, each) for each in value)
    for name, each in named:
        if name is not None:
            pieces.append(_Piece("", key(name)))
        pieces += _pieces(each, in_flow=True, depth=depth + 1)
        pieces[-1] = pieces[-1]._replace(tail=f"{pieces[-1].tail},")
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    pieces[0] = pieces[0]._replace(lead=f"{opening}{pieces[0].lead}")
    pieces[-1] = pieces[-1]._replace(tail=f"{pieces[-1].tail[:-1]}{closing}")
    return pieces


def _atom(value: bool | int | float | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if value != value:
            return ".nan"
        if value in (float("inf"), float("-inf")):
            return ".inf" if value > 0 else "-.inf"
        text = repr(value)
        # YAML 1.1 has no exponents without a point.
        return text if "." in text or "e" not in text else text.replace("e", ".0e")
    return str(value)


def _quoted(text: str) -> str:
    # The escapes of safe() are YAML's too, in double quotes.
    return safe(json.dumps(text, ensure_ascii=False))


def _is_plain(text: str, *, in_flow: bool) -> bool:
    if _WORD_FLAG.fullmatch(text):
        return True
    return (
        _PLAIN.fullmatch(text) is not None
        and text.lower() not in _RESERVED
        and not _NUMBER.match(text)
        and not _UNPLAIN.search(text)
        and not (in_flow and _IN_FLOW.search(text))
        and safe(text) == text
    )
