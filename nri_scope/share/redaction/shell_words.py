# SPDX-License-Identifier: Apache-2.0
"""Split command lines in any text as shells do, into words with positions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

_BLANK = re.compile(r"(?:[ \t\r]|\\\r?\n)+")
_OPERATOR = re.compile(r"[;&|()\n`<>]+")
# Kubernetes replaces $(NAME) before the shell reads it.
_PLAIN = re.compile(r"(?:[^\s;&|()`<>\"'\\$]|\$\([A-Za-z_.-][A-Za-z0-9_.-]*\)|\$(?!\())+|\$")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_SINGLE = re.compile(r"'([^']*)'")
_ESCAPED = re.compile(r"\\([$`\"\\\n])")
_ENDS = re.compile(r"[;&|\n()`]")
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


def commands(text: str) -> Iterator[list[Word]]:
    """Yield every command of a script or similar text; unclosed quotes are accepted."""
    command: list[Word] = []
    at = 0
    unclosed = {'"': False, "'": False}
    while at < len(text):
        blank = _BLANK.match(text, at)
        if blank is not None:
            at = blank.end()
            continue
        operator = _OPERATOR.match(text, at)
        if operator is not None:
            at = operator.end()
            if _ENDS.search(operator[0]) and command:
                yield command
                command = []
            continue
        command.append(word(text, at, unclosed))
        at = command[-1].end
    if command:
        yield command


def word(text: str, start: int, unclosed: dict[str, bool] | None = None) -> Word:
    """Return the word at ``start``; ``unclosed`` contains quotation marks that are never closed."""
    unclosed = unclosed if unclosed is not None else {'"': False, "'": False}
    pieces: list[str] = []
    parts: list[Quoted] = []
    at = start
    while at < len(text):
        plain = _PLAIN.match(text, at)
        if plain is not None:
            pieces.append(plain[0])
            at = plain.end()
            continue
        mark = text[at]
        if mark == "\\":
            if text.startswith(("\\\n", "\\\r\n"), at):
                break
            pieces.append(text[at + 1 : at + 2])
            at = min(at + 2, len(text))
        elif mark in "\"'":
            quoted = None
            # The apostrophe of "can't" is not a quotation mark.
            if not unclosed[mark] and not (mark == "'" and pieces and pieces[-1].isalpha()):
                quoted = (_DOUBLE if mark == '"' else _SINGLE).match(text, at)
                unclosed[mark] = quoted is None
            if quoted is None:
                pieces.append(mark)
                at += 1
                continue
            content = quoted[1]
            pieces.append(_ESCAPED.sub(_unescaped, content) if mark == '"' else content)
            parts.append(Quoted(pieces[-1], at, quoted.end(), mark))
            at = quoted.end()
        else:
            break
    quote = parts[0].mark if len(pieces) == len(parts) == 1 else ""
    return Word("".join(pieces), start, max(at, start + 1), quote, tuple(parts))


def _unescaped(match: re.Match[str]) -> str:
    return "" if match[1] == "\n" else match[1]


def quoted(text: str, quote: str) -> str:
    """Quote a word for a shell, with ``quote`` if given."""
    if not quote and _SAFE.fullmatch(text) is not None:
        return text
    if quote == "'" or (not quote and '"' not in text):
        return "'" + text.replace("'", "'\\''") + "'"
    return '"' + re.sub(r'([\\"`$])', r"\\\1", text) + '"'
