# SPDX-License-Identifier: Apache-2.0
"""An emulated terminal for the control sequences that Textual and the terminal interface send."""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

from rich.cells import cell_len

_SEQUENCE = re.compile(
    r"\x1b\[([0-9;?<>$]*)([A-Za-z])|\x1b\][^\x07]*\x07|\x1b[^\[\]]|([^\x1b\n\r]+)|[\n\r]"
)
_ENDED = {"22": {"1", "2"}, **{f"2{code}": {code} for code in "34579"}}
"""Attributes ended by SGR codes."""


class Look(NamedTuple):
    """Attributes and colours of a cell, as SGR codes."""

    attributes: frozenset[str] = frozenset()
    foreground: str = ""
    background: str = ""


class Emulator:
    """The cells of a terminal. Positions are zero-based, lines first."""

    def __init__(self, columns: int, lines: int) -> None:
        self.columns, self.height = columns, lines
        self.cells = [[(" ", Look())] * columns for _ in range(lines)]
        self.written: set[int] = set()
        """Lines with output; to be cleared by the caller."""
        self._line = self._column = 0
        self._look = Look()
        self._rest = ""
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def line(self, number: int) -> str:
        """Return the text of a line."""
        return "".join(text for text, _ in self.cells[number])

    def text(self) -> str:
        """Return the text of the screen."""
        return "\n".join(self.line(number).rstrip() for number in range(self.height))

    def looks(self) -> list[list[tuple[str, Look]]]:
        """Return all cells, without attributes that are not visible on blanks."""
        return [
            [
                (text, Look(background=look.background))
                if text == " " and not look.attributes & {"4", "7", "9"}
                else (text, look)
                for text, look in line
            ]
            for line in self.cells
        ]

    def feed(self, output: bytes) -> None:
        """Process output; a sequence may be split between two calls."""
        text = self._rest + self._decode(output)
        cut = text.rfind("\x1b")
        cut = cut if cut >= 0 and not _SEQUENCE.match(text, cut) else len(text)
        text, self._rest = text[:cut], text[cut:]
        for found in _SEQUENCE.finditer(text):
            values, final, written = found.groups()
            if written:
                self._write(written)
            elif final == "H":
                line, _, column = values.partition(";")
                self._line, self._column = int(line or 1) - 1, int(column or 1) - 1
            elif final == "m":
                self._set(values)
            elif final == "J" or (final == "h" and values == "?1049"):
                self.cells = [[(" ", Look())] * self.columns for _ in range(self.height)]

    def _write(self, text: str) -> None:
        if self._line >= self.height:
            return
        line = self.cells[self._line]
        self.written.add(self._line)
        for char in text:
            if not (width := cell_len(char)):
                before = max(0, self._column - 1)
                line[before] = (line[before][0] + char, line[before][1])
                continue
            self._blank_halves(line, width)
            for at, part in enumerate((char, "")[:width], self._column):
                if at < self.columns:
                    line[at] = (part, self._look)
            self._column += width

    def _blank_halves(self, line: list[tuple[str, Look]], width: int) -> None:
        """Blank the other half of wide characters that are overwritten in part."""
        first, end = self._column, self._column + width
        if 0 < first < self.columns and not line[first][0]:
            line[first - 1] = (" ", line[first - 1][1])
        if end < self.columns and not line[end][0]:
            line[end] = (" ", line[end][1])

    def _set(self, parameters: str) -> None:
        attributes, foreground, background = set(self._look.attributes), *self._look[1:]
        codes = iter(parameters.split(";"))
        for code in codes:
            if code in ("38", "48"):
                kind = next(codes)
                values = [next(codes) for _ in range(3 if kind == "2" else 1)]
                code = ";".join((code, kind, *values))
            number = int(code.partition(";")[0] or 0)
            if not number:
                attributes, foreground, background = set(), "", ""
            elif number in range(30, 40) or number in range(90, 98):
                foreground = "" if number == 39 else code
            elif number in range(40, 50) or number in range(100, 108):
                background = "" if number == 49 else code
            elif code in _ENDED:
                attributes -= _ENDED[code]
            else:
                attributes.add(code)
        self._look = Look(frozenset(attributes), foreground, background)
