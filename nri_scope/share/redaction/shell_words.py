# SPDX-License-Identifier: Apache-2.0
"""Split command lines in any text as shells do, into words with positions."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

_BLANK = re.compile(r"(?:[ \t\r]|\\\r?\n)+")
_OPERATOR = re.compile(r"\|[|&]?|&&|&>>?|<<<|<<-?|>>|>\||[<>]&|[;&()\n`<>]")
# Kubernetes replaces $(NAME) before the shell reads it.
_PLAIN = re.compile(r"(?:[^\s;&|()`<>\"'\\$]|\$\([A-Za-z_.-][A-Za-z0-9_.-]*\)|\$(?!\())+|\$")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_SINGLE = re.compile(r"'([^']*)'")
_ESCAPED = re.compile(r"\\([$`\"\\\n])")
_REDIRECTS = frozenset({"<", "<&", "<<", "<<-", "<<<", ">", ">&", ">>", ">|", "&>", "&>>"})
_SAFE = re.compile(r"[A-Za-z0-9_@%+=:,./{}\[\]~^*?!#-]*")


class Quoted(NamedTuple):
    """Text between quotation marks."""

    text: str
    start: int
    end: int
    mark: str


@dataclass(slots=True)
class Word:
    """A word of a command."""

    text: str
    """The text without quotes."""
    start: int
    end: int
    quote: str = ""
    """The quotation mark if the whole word is quoted, otherwise ""."""
    parts: tuple[Quoted, ...] = ()
    redirect: str = ""
    """The operator that redirects from or to this word, such as ``>`` or ``<<<``; ``n`` if the word
    is the file descriptor before such an operator."""


@dataclass(slots=True)
class Command:
    """A command of a script."""

    words: list[Word] = field(default_factory=list)
    documents: list[tuple[int, int]] = field(default_factory=list)
    """Start and end of its here-documents, without the line of the delimiter."""


def commands(text: str) -> Iterator[Command | str]:
    """Yield every command of a script or similar text, and the operators between them.

    Unclosed quotes are accepted. A here-document's body is also parsed as commands, as it may be a
    script. `Command.documents` is complete only once the whole text has been parsed.
    """
    command = Command()
    redirect = ""
    pos = 0
    unclosed = {'"': False, "'": False}
    documents = _Documents(text)
    while pos < len(text):
        blank = _BLANK.match(text, pos)
        if blank is not None:
            pos = blank.end()
            continue
        operator = _OPERATOR.match(text, pos)
        if operator is None:
            command.words.append(word(text, pos, unclosed))
            pos = command.words[-1].end
            command.words[-1].redirect = redirect
            if redirect in {"<<", "<<-"}:
                documents.expect(command, redirect)
            redirect = ""
            continue
        pos = operator.end()
        redirect = operator[0] if operator[0] in _REDIRECTS else ""
        if redirect:
            last = command.words[-1] if command.words else None
            if last is not None and last.end == operator.start() and last.text.isdigit():
                last.redirect = "n"
            continue
        if command.words:
            yield command
            command = Command()
        if operator[0] == "\n":
            documents.begin(pos)
        yield operator[0]
    if command.words:
        yield command


class _Documents:
    """Finds the bodies of here-documents, with one index of the text's lines."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._expected: list[tuple[Command, str, bool]] = []
        self._lines: dict[str, list[int]] | None = None

    def expect(self, command: Command, redirect: str) -> None:
        """Note that the last word of ``command`` ends a document that begins in the next line."""
        self._expected.append((command, command.words[-1].text, redirect == "<<-"))

    def begin(self, pos: int) -> None:
        """Find the expected documents, which begin at ``pos``."""
        for command, delimiter, is_indented in self._expected:
            end = self._end(delimiter, pos, is_indented=is_indented)
            if end is None:
                # Perhaps not a script.
                break
            command.documents.append((pos, end))
            newline = self._text.find("\n", end)
            pos = newline + 1 if newline >= 0 else len(self._text)
        self._expected = []

    def _end(self, delimiter: str, pos: int, *, is_indented: bool) -> int | None:
        """Return the start of the first line at or after ``pos`` that is the delimiter."""
        if self._lines is None:
            self._lines = {}
            begin = 0
            for line in self._text.split("\n"):
                self._lines.setdefault(line.rstrip("\r"), []).append(begin)
                begin += len(line) + 1
        positions = [
            starts[number]
            for tabs in (range(9) if is_indented else range(1))
            if (starts := self._lines.get("\t" * tabs + delimiter))
            and (number := bisect_left(starts, pos)) < len(starts)
        ]
        return min(positions, default=None)


def word(text: str, start: int, unclosed: dict[str, bool] | None = None) -> Word:
    """Return the word at ``start``; ``unclosed`` contains quotation marks that are never closed."""
    unclosed = unclosed if unclosed is not None else {'"': False, "'": False}
    pieces: list[str] = []
    parts: list[Quoted] = []
    pos = start
    while pos < len(text):
        plain = _PLAIN.match(text, pos)
        if plain is not None:
            pieces.append(plain[0])
            pos = plain.end()
            continue
        mark = text[pos]
        if mark == "\\":
            if text.startswith(("\\\n", "\\\r\n"), pos):
                break
            pieces.append(text[pos + 1 : pos + 2])
            pos = min(pos + 2, len(text))
        elif mark in "\"'":
            quoted = None
            # The apostrophe of "can't" is not a quotation mark.
            if not unclosed[mark] and not (mark == "'" and pieces and pieces[-1].isalpha()):
                quoted = (_DOUBLE if mark == '"' else _SINGLE).match(text, pos)
                unclosed[mark] = quoted is None
            if quoted is None:
                pieces.append(mark)
                pos += 1
                continue
            content = quoted[1]
            pieces.append(_ESCAPED.sub(_unescaped, content) if mark == '"' else content)
            parts.append(Quoted(pieces[-1], pos, quoted.end(), mark))
            pos = quoted.end()
        else:
            break
    quote = parts[0].mark if len(pieces) == len(parts) == 1 else ""
    return Word("".join(pieces), start, max(pos, start + 1), quote, tuple(parts))


def _unescaped(match: re.Match[str]) -> str:
    return "" if match[1] == "\n" else match[1]


def quoted(text: str, quote: str) -> str:
    """Quote a word for a shell, with ``quote`` if given."""
    if not quote and _SAFE.fullmatch(text) is not None:
        return text
    if quote == "'" or (not quote and '"' not in text):
        return "'" + text.replace("'", "'\\''") + "'"
    return '"' + re.sub(r'([\\"`$])', r"\\\1", text) + '"'
