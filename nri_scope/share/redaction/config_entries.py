# SPDX-License-Identifier: Apache-2.0
"""Find keys and their values in YAML, TOML, INI and properties, within any text.

A parser for one of these formats rejects text that is broken, truncated or in another format; this
module reads as many keys and values as possible from lines and their indentation, and continues.
Every character is read a bounded number of times.
"""

from __future__ import annotations

import re

from .flow_entries import Braces, Entry, read_braces

_LINE = re.compile(
    r"(?P<indent>[ \t]*)(?P<dashes>(?:-[ \t]+){0,8})(?:(?:export|set)[ \t]+)?"
    r"(?:\"(?P<double>[^\"\\\n]{1,200})\"|'(?P<single>[^'\n]{1,200})'"
    r"|(?P<plain>[A-Za-z_$.][^\s:=#,\"'{}\[\]<>()]{0,200}))"
    r"[ \t]{0,40}(?P<sign>:(?=[\s\"'\[{]|\Z)|=>|:=|=)(?P<space>[ \t]*)"
)
_ITEM = re.compile(r"(?P<indent>[ \t]*)(?P<dashes>(?:-[ \t]+){1,8})(?=[^\s])")
_SECTION = re.compile(
    r"[ \t]*\[{1,2}[ \t]*([A-Za-z0-9_.\"'/: -]{1,200}?)[ \t]*\]{1,2}[ \t]*(?:[#;][^\n]*)?(?=\n|\Z)"
)
_BLOCK = re.compile(r"(?:[!&][^\s,\[\]{}]*[ \t]+){0,3}[|>][0-9+-]{0,2}[ \t]*(?:#[^\n]*)?(?=\n|\Z)")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_SINGLE = re.compile(r"'((?:[^']|'')*)'")
_ASSIGNING = re.compile(r"=[ \t]*\Z")
_CLOSED = re.compile(r"[ \t]*[,;]?[ \t]*(?:[ \t]#[^\n]*|//[^\n]*)?(?=[\r\n]|\Z)")
_PROPERTIES = re.compile(
    r"(?:[ \t]*(?:(?:(?:export|set)[ \t]+)?[A-Za-z_][A-Za-z0-9_.-]*[ \t]*=[^\n]*|[#;\[][^\n]*)?"
    r"(?:\n|\Z))*"
)
_INDENT = re.compile(r"[ \t]*")


class Entries:
    """All entries of one text, each listed after the entry that contains it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.list: list[Entry] = []
        # Indentation and entry; half a column more for a list item, as its keys are inside it.
        self._open: list[tuple[float, int]] = []
        self._has_properties = (
            "=" in text
            and "\n" in text
            and (whole := _PROPERTIES.match(text)) is not None
            and whole.end() == len(text)
        )
        self._is_unclosed = False
        # The document: the parent of all top-level entries.
        self._root = self._add(Entry("", -1))
        pos = 0
        while pos < len(text):
            pos = self._line(pos)

    def _line(self, pos: int) -> int:
        """Read the rest of the line from ``pos``; return the position to continue from."""
        text = self._text
        newline = text.find("\n", pos)
        end = len(text) if newline < 0 else newline
        first = text[pos:end].lstrip()[:1]
        is_text = self._is_in_text(pos, end)
        if not first or first == "#" or (first == ";" and not is_text):
            return end + 1
        if text.startswith(("---", "..."), pos) and not text[pos + 3 : end].strip():
            self._open = []
            self._root = self._add(Entry("", -1))
            return end + 1
        section = _SECTION.match(text, pos) if first == "[" and not is_text else None
        if section is not None:
            self._open = []
            above = self._root
            for key in section[1].split("."):
                above = self._add(Entry(key.strip(" \"'"), above))
            self._open = [(-1, above)]
            return end + 1
        match = _LINE.match(text, pos, end)
        if match is not None and (not is_text or self._is_colon(match)):
            return self._key(match, pos, end)
        item = _ITEM.match(text, pos, end)
        if item is not None and not is_text:
            number = self._items(item)
            return self._value(number, item.end(), end, len(item["indent"]))
        brace = text.find("{", pos, end)
        if brace < 0:
            brace = text.find("[", pos, end) if first == "[" else -1
        if brace < 0:
            return self._continued(pos, end)
        if is_text:
            # In YAML, braces inside text have no meaning.
            self._continued(pos, end)
        return self._all_braces(brace, end, self._top(pos, end))

    def _is_colon(self, match: re.Match[str]) -> bool:
        """Return whether a key ends as in YAML: other formats need no space after the colon."""
        end = match.end("sign")
        return match["sign"] == ":" and not self._text[end : end + 1].strip()

    def _is_in_text(self, pos: int, end: int) -> bool:
        """Return whether a line would continue unquoted text in YAML."""
        if not self._open:
            return False
        indent, number = self._open[-1]
        entry = self.list[number]
        return entry.start >= 0 and not entry.style and self._column(pos, end) > indent >= 0

    def _column(self, pos: int, end: int) -> int:
        match = _INDENT.match(self._text, pos, end)
        assert match is not None
        return match.end() - pos

    def _key(self, match: re.Match[str], pos: int, end: int) -> int:
        indent = len(match["indent"])
        is_colon = match["sign"] == ":"
        if match["dashes"] and not self._is_colon(match):
            # A list item that is a text, such as a container's variable.
            item = _ITEM.match(self._text, pos, end)
            assert item is not None
            return self._value(self._items(item), item.end(), end, indent)
        if not is_colon and self._is_word(match):
            brace = self._text.find("{", match.end(), end)
            if brace >= 0:
                return self._all_braces(brace, end, self._root)
            return self._continued(pos, end)
        if match["dashes"]:
            self._items(match)
            column: float = indent + len(match["dashes"])
        else:
            column = indent
            self._close(column)
        key = match["double"] or match["single"] or match["plain"]
        number = self._add(Entry(key, self._open[-1][1] if self._open else self._root))
        self._open.append((column, number))
        return self._value(number, match.end(), end, indent)

    def _is_word(self, match: re.Match[str]) -> bool:
        """Return whether ``key=value`` may be a word of a command, which other finders handle."""
        text = self._text
        return (
            match["sign"] == "="
            and not match["space"]
            and text[match.start("sign") - 1] not in " \t"
            and not self._has_properties
            and not text.startswith(('"""', "'''", "{", "["), match.end())
            and not (text[match.end() : match.end() + 1] in {'"', "'"} and "\n" in text)
        )

    def _items(self, match: re.Match[str]) -> int:
        """Open an item for each dash of a line; return the number of the last item."""
        column = len(match["indent"])
        number = -1
        for dash in re.finditer(r"-[ \t]+", match["dashes"]):
            where = column + dash.start()
            self._close(where + 0.5)
            number = self._add(Entry("", self._open[-1][1] if self._open else self._root))
            self._open.append((where + 0.5, number))
        return number

    def _close(self, column: float) -> None:
        while self._open and self._open[-1][0] >= column:
            self._open.pop()

    def _add(self, entry: Entry) -> int:
        self.list.append(entry)
        return len(self.list) - 1

    def _top(self, pos: int, end: int) -> int:
        column = self._column(pos, end)
        for indent, number in reversed(self._open):
            if indent < column:
                return number
        return self._root

    # -- values -----------------------------------------------------------------------------

    def _value(self, number: int, pos: int, end: int, indent: int) -> int:
        """Read an entry's value, which begins at ``pos``; return the position to continue from."""
        text = self._text
        entry = self.list[number]
        if pos >= end or text[pos:end].isspace():
            return end + 1
        if _BLOCK.match(text, pos, end) is not None:
            entry.start, entry.end = self._below(end, indent)
            entry.style = "|"
            # The lines of the block may contain keys of their own.
            return end + 1
        marks = text[pos : pos + 3]
        if marks in {'"""', "'''"} and _ASSIGNING.search(text, max(0, pos - 40), pos):
            close = text.find(marks, pos + 3)
            entry.start, entry.end = pos + 3, close if close >= 0 else end
            entry.style = marks[0]
            return end + 1
        mark = text[pos]
        if mark in "\"'" and self._quoted(entry, pos, end, indent, mark):
            return end + 1
        if mark in "{[":
            braces = self._braces(pos, end, number)
            if braces.is_closed and (closed := _CLOSED.match(text, braces.end)) is not None:
                return closed.end()
        stop = pos + len(text[pos:end].rstrip().rstrip(","))
        entry.start, entry.end = pos, max(stop, pos + 1)
        return end + 1

    def _quoted(self, entry: Entry, pos: int, end: int, indent: int, mark: str) -> bool:
        pattern = _DOUBLE if mark == '"' else _SINGLE
        match = pattern.match(self._text, pos, end)
        if match is None:
            # Over several lines if the following lines are indented more.
            _, below = self._below(end, indent)
            match = pattern.match(self._text, pos, max(below, end))
        if match is None or _CLOSED.match(self._text, match.end()) is None:
            return False
        entry.start, entry.end = match.span(1)
        entry.style = mark
        return True

    def _below(self, end: int, indent: int) -> tuple[int, int]:
        """Return start and end of the lines after the end of a line that are indented more."""
        text = self._text
        start = stop = end
        pos = end + 1
        while pos < len(text):
            newline = text.find("\n", pos)
            until = len(text) if newline < 0 else newline
            match = _INDENT.match(text, pos, until)
            assert match is not None
            content = match.end()
            if content < until and text[content] != "\r":
                if content - pos <= indent:
                    break
                start = content if start == end else start
                stop = pos + len(text[pos:until].rstrip())
            pos = until + 1
        return (start, stop) if stop > end else (end, end)

    def _all_braces(self, pos: int, end: int, above: int) -> int:
        """Read entries in all braces from here to the line's end; return where to continue."""
        while 0 <= pos < end:
            last = self._braces(pos, end, above).end
            pos = self._text.find("{", last, end)
            if last >= end:
                return last
        return end + 1

    def _braces(self, pos: int, end: int, above: int) -> Braces:
        """Read the entries in braces; if unclosed, only the entries in this line."""
        base = len(self.list)
        braces = read_braces(self._text, pos, end, above, base)
        if not (braces.is_closed or self._is_unclosed):
            braces = read_braces(self._text, pos, len(self._text), above, base)
            if not braces.is_closed:
                self._is_unclosed = True
                braces = read_braces(self._text, pos, end, above, base)
        self.list += braces.entries
        return braces

    def _continued(self, pos: int, end: int) -> int:
        """Append a line without a key to the value above, or make it the value of the key above."""
        text = self._text
        if not self._open:
            return end + 1
        indent, number = self._open[-1]
        entry = self.list[number]
        stop = pos + len(text[pos:end].rstrip())
        if self._is_in_text(pos, end):
            entry.end = stop
            return end + 1
        column = self._column(pos, end)
        if column > indent and entry.start < 0 and number == len(self.list) - 1:
            entry.start, entry.end = pos + column, stop
            mark = text[entry.start]
            if mark in "\"'" and stop - entry.start > 1 and text[stop - 1] == mark:
                entry.start, entry.end, entry.style = entry.start + 1, stop - 1, mark
        return end + 1
