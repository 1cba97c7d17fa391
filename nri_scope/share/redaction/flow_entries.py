# SPDX-License-Identifier: Apache-2.0
"""Find keys and their values in braces: JSON, flow maps of YAML, inline tables of TOML."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_SINGLE = re.compile(r"'((?:[^']|'')*)'")
_CHUNK = re.compile(r"[^,\[\]{}\n]*")
_SPACE = re.compile(r"\s*")
_SIGN = re.compile(r"[ \t]*(?::|=>?)")
# In an unquoted value; "a:b" is one text, as is "http://x".
_KEY = re.compile(r"\s*([^\s:=\"'][^:=\"'\n,\[\]{}]{0,200}?)[ \t]*(?::(?=[\s\"'\[{]|\Z)|=>?)")


@dataclass(slots=True)
class Entry:
    """A key or a list item, with the position of its value if that is a text."""

    key: str
    """The key, or "" for a list item."""
    above: int
    """The number of the entry whose value contains this entry; -1 for none."""
    start: int = -1
    """The start of the value's text, without quotes; -1 if it is a map, a list, or missing."""
    end: int = -1
    style: str = ""
    """A quotation mark, ``|`` for a block, or ""."""


@dataclass(slots=True)
class _Bracket:
    owner: int
    """The entry that has this value."""
    key: str = ""
    has_key: bool = False


@dataclass(slots=True)
class Braces:
    """The entries read from an opening brace on."""

    end: int
    """The position after the closing brace, or where reading stopped."""
    is_closed: bool = False
    entries: list[Entry] = field(default_factory=list)


def read_braces(text: str, pos: int, limit: int, above: int, base: int) -> Braces:
    """Read from the brace at ``pos``, up to ``limit`` at most.

    ``above`` is the entry whose value begins there; ``base`` is the number of the first new entry.
    """
    braces = Braces(limit)
    entries = braces.entries
    brackets: list[_Bracket] = []

    def add(start: int, end: int, style: str) -> int:
        top = brackets[-1] if brackets else None
        if top is None:
            return above
        entries.append(Entry(top.key if top.has_key else "", top.owner, start, end, style))
        top.has_key = False
        return base + len(entries) - 1

    while pos < limit:
        space = _SPACE.match(text, pos, limit)
        assert space is not None
        pos = space.end()
        if pos >= limit:
            break
        mark = text[pos]
        if mark in "{[":
            owner = add(-1, -1, "")
            brackets.append(_Bracket(owner))
            pos += 1
        elif mark in "}]":
            brackets.pop()
            pos += 1
            if not brackets:
                braces.end, braces.is_closed = pos, True
                return braces
        elif mark == ",":
            brackets[-1].has_key = False
            pos += 1
        else:
            pos = _read_scalar(text, pos, limit, brackets[-1], add)
    return braces


def _read_scalar(
    text: str, pos: int, limit: int, top: _Bracket, add: Callable[[int, int, str], int]
) -> int:
    """Read a key, or a value that is a text; return the position to continue from."""
    mark = text[pos]
    if mark in "\"'":
        quoted = (_DOUBLE if mark == '"' else _SINGLE).match(text, pos, limit)
        if quoted is not None:
            sign = _SIGN.match(text, quoted.end(), limit) if not top.has_key else None
            if sign is not None:
                top.key, top.has_key = quoted[1], True
                return sign.end()
            rest = _CHUNK.match(text, quoted.end(), limit)
            assert rest is not None
            if not rest[0] or rest[0].isspace():
                add(quoted.start(1), quoted.end(1), mark)
                return rest.end()
    elif not top.has_key:
        key = _KEY.match(text, pos, limit)
        if key is not None:
            top.key, top.has_key = key[1], True
            return key.end()
    chunk = _CHUNK.match(text, pos, limit)
    assert chunk is not None
    end = max(pos + len(chunk[0].rstrip()), pos + 1)
    add(pos, end, "")
    return max(chunk.end(), pos + 1)
