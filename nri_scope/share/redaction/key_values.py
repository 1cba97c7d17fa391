# SPDX-License-Identifier: Apache-2.0
"""Find what follows a key in text of any syntax: the value that is replaced as a whole."""

from __future__ import annotations

import re
from bisect import bisect
from enum import Enum, auto
from functools import lru_cache
from typing import Literal, NamedTuple

from .key_names import PROSE_WORDS, Certainty, names_group

QUOTE = r"(?:\\*[\"'`]|&quot;|&\#3[49];)"
_OPENING = re.compile(QUOTE)
_AFTER_KEY = re.compile(
    rf"(?P<close>{QUOTE}?)[ \t]*(?:(?P<sep>:=|=>|->|==?(?!~\s)|:|>)|,[ \t\n]*(?={QUOTE}))[ \t]*"
)
_PAIR = re.compile(
    rf"{QUOTE}?[\s,;]*+(?:-[ \t]*+)?{QUOTE}?(?i:value|val|data|content|stringvalue){QUOTE}?"
    r"[ \t]*[:=]>?[ \t]*"
)
"""Between a name and its value: ``{Name:PASSWORD Value:…}``, ``- name: PASSWORD`` and a line."""
_SUBSTITUTION = r"\$\((?:[^()]++|\((?:[^()]++|\([^()]*+\))*+\))*+\)|\$\{[^{}\n]*+\}"
_STRING = r"\"[^\"\n]*\"|\$'(?:[^'\\\n]|\\.)*'|'[^'\n]*'"
_GAP = re.compile(r"[ \t]+(?!-)")
_LAST_WORD = re.compile(r"[ \t]+(?=[^\s:=]+[ \t]*(?:\n|\Z))")
_QUOTED_NEXT = re.compile(r"[ \t]+(?=[\"'])")
_NEXT_KEY = rf"{QUOTE}?[^\W\d][\w.-]{{0,63}}{QUOTE}?[ \t]*[:=]"
_WORD = re.compile(
    rf"(?:{_SUBSTITUTION}|{_STRING}|[^\s\"'`;&|()<>,\\]|\\.|,(?![ ]?{_NEXT_KEY}))++", re.DOTALL
)
_ARGUMENT = re.compile(rf"(?:{_SUBSTITUTION}|{_STRING}|[^\s\"'`;&|()<>\\]|\\.)++", re.DOTALL)
_END_OF_PHRASE = re.compile(
    rf",[ \t]*{_NEXT_KEY}|,[ \t](?=[^\W\d]{{2}})|(?<![ \t])[ \t]++#|;[ \t]|;$"
    r"|[ \t][\w.-]{1,64}=|[ \t](?:&&|\|)|(?<!\\)\\++n"
)
_BLOCK = re.compile(r"(?:[|>][-+0-9]*)?[ \t]*\n")
_KEY_LINE = re.compile(rf"[ \t]*(?:- )?{QUOTE}?[\w.-]{{1,64}}{QUOTE}?[ \t]*:(?:\s|\Z)")
_REFERENCE = re.compile(
    r"(?:\$\([a-z./][^()\n]*\)|\$\{[A-Z_][A-Z0-9_]*\}|\$[A-Z_][A-Z0-9_]*)"
    r"(?=[\s\"'`;&|)/,:]|\Z)"
)
_ENV_LINE = re.compile(r"[\w.-]{1,100}=")
SCHEME = re.compile(
    r"(?i)(?:basic|bearer|digest|token|negotiate|ntlm|apikey|aws4-hmac-sha256)[ \t]+"
)
_MAX_CLOSING = 20
"""Maximum number of brackets and spaces after a value that do not belong to it."""
_HERE_DOCUMENT = re.compile(r"<<-?[ \t]*[\"'\\]?(\w{1,40})")
_BRACKETS = re.compile(r"[\[\]{}]")
SECRET_DATA = frozenset({"data", "stringData"})
_QUOTED = re.compile(
    r"(?s)\\.|([\"'])(?<![^\s=(,\[{:|&;].)((?:[^\\\"']++|\\.|(?!\1)[\"'])*+)\1"
    r"(?=[\s;|&),\]}:]|\Z)"
)
_AFTER_QUOTE = {"", *" \t\r\n,;&|)}]>:\\"}
_TAG_BEGIN = re.compile(r"<(?:[\w.-]{1,64}:)?\Z")
_TAG_END = re.compile(r"(?:\s[^<>]{0,1000}+)?>\s*+(?:<!\[CDATA\[)?")


class KeyValue(NamedTuple):
    """The place of a value in a text."""

    begin: int
    end: int
    members: Literal["brackets", "lines", ""] = ""
    """Form of a value whose members are replaced one by one; "" if it has no members."""


class _Extent(Enum):
    """Extent of a value without quotes."""

    WORD = auto()
    PHRASE = auto()
    """To the end of the line, or to what looks like the next key or sentence."""
    LINES = auto()
    """To the end of the line, and over lines that are indented further: in YAML, TOML, INI."""


def value_after(text: str, start: int, pos: int, key: str, certainty: Certainty) -> KeyValue | None:
    """Return the value of a key that begins at ``start`` and ends at ``pos``; None without one.

    The value of a key in quotes, such as ``-H "Authorization: …"``, ends with them.
    """
    value = _value_of(text, start, pos, key, certainty)
    if value is None:
        return None
    quotes = _quotes(text)
    end = quotes[bisect(quotes, (start, len(text))) - 1][1]
    if not pos < end < value.end:
        return value
    return value._replace(end=end) if end > value.begin else None


@lru_cache(maxsize=4)
def _quotes(text: str) -> list[tuple[int, int]]:
    """Return where quoted pieces of a text begin and end; the first one is empty."""
    return [(0, 0), *[found.span(2) for found in _QUOTED.finditer(text) if found[1]]]


def _value_of(text: str, start: int, pos: int, key: str, certainty: Certainty) -> KeyValue | None:
    pair = _PAIR.match(text, pos)
    if pair is not None:
        # {"name": "PASSWORD", "value": "…"}, see _PAIR
        of_line = _Extent.LINES if "\n" in pair[0] else _Extent.PHRASE
        extent = of_line if pair[0][-1:].isspace() else _Extent.WORD
        return _value_at(text, start, pair.end(), key, extent)
    if text[start - 1 : start] == "[" and text.startswith("]\n", pos) and names_group(key):
        # A table of TOML, a section of INI: [secrets], up to the next [, or the document's end
        here = _HERE_DOCUMENT.match(text, max(0, text.rfind("<<", 0, start)))
        ending = r"\n\[" if here is None else rf"\n(?:\[|[ \t]*{here[1]}[ \t]*(?:\n|\Z))"
        end = re.compile(ending).search(text, pos)
        return KeyValue(pos + 2, len(text) if end is None else end.start(), "lines")
    line = text.rfind("\n", 0, start) + 1
    is_first = not text[line:start].strip(" \t-\"'")
    is_file = is_first and "\n" in text
    if _TAG_BEGIN.search(text, max(0, start - 66), start) is not None:
        return _content(text, pos)
    after = _AFTER_KEY.match(text, pos)
    if after is not None:
        separator, begin = after["sep"], after.end()
        if separator is None:
            # A list of arguments: ["--password", "…"]
            return _value_at(text, start, begin, key, _Extent.WORD) if key[0] == "-" else None
        if separator == ">":
            # <entry key="password">…</entry>
            return _content(text, after.end("close")) if after["close"] else None
        is_spaced = text[begin - 1 : begin].isspace() or text[begin : begin + 1] == "\n"
        extent = _Extent.WORD
        is_pair = is_file and separator == "=" and not text.startswith("$(", begin)
        # password: several words; but in a test of a shell: [ "$PASSWORD" = … ]
        if is_spaced and key[0] != "$":
            extent = _Extent.LINES if is_first else _Extent.PHRASE
        elif is_pair and _is_env_file(text, line):
            # A line of a file of variables: PASSWORD=several words
            extent = _Extent.LINES
        return _value_at(text, start, begin, key, extent, of_colon=separator == ":")
    # --password …
    gap = _GAP.match(text, pos) if key[0] == "-" else None
    if gap is None and certainty is Certainty.SURE and key.lower() not in PROSE_WORDS:
        # A line of a configuration: requirepass …
        gap = _LAST_WORD.match(text, pos) if is_file else None
        # PASSWORD '…', but not in sentences such as: secret "name" was not found
        gap = gap or _QUOTED_NEXT.match(text, pos)
    return None if gap is None else _value_at(text, start, gap.end(), key, _Extent.WORD)


def _content(text: str, pos: int) -> KeyValue | None:
    """Return the text of <password>…</password>, whose first tag goes on at ``pos``."""
    tag = _TAG_END.match(text, pos)
    if tag is None:
        return None
    end = text.find("]]>" if tag[0].endswith("[") else "<", tag.end())
    return KeyValue(tag.end(), end) if end > tag.end() else None


def _is_env_file(text: str, line: int) -> bool:
    """Return whether the line before or after the one that begins at ``line`` is NAME=value."""
    after = text.find("\n", line) + 1
    before = text.rfind("\n", 0, max(line - 1, 0)) + 1
    return any(at != line and _ENV_LINE.match(text, at) is not None for at in (before, after))


def _value_at(
    text: str, start: int, begin: int, key: str, extent: _Extent, *, of_colon: bool = False
) -> KeyValue | None:
    """Return the value at ``begin`` of the key at ``start``; None if it is empty or a reference.

    ``extent``: without quotes or brackets. ``of_colon``: it follows a colon, so a block may follow.
    """
    opening = _OPENING.match(text, begin)
    if opening is not None:
        # "several words"
        quoted = _quoted(text, opening.end(), opening[0])
        after = 0 if quoted is None else quoted.end + len(opening[0])
        if extent is _Extent.WORD and quoted and text[after : after + 1] not in _AFTER_QUOTE:
            # A word of a shell made of several pieces: 'it'"'"'s'
            word = (_ARGUMENT if key[0] == "-" else _WORD).match(text, begin)
            if word is not None and word.end() > after:
                return KeyValue(begin, word.end())
        return quoted
    if text.startswith(("{", "["), begin):
        # A map or list: {"user": "…"}
        return KeyValue(begin, _end_of_group(text, begin), "brackets")
    reference = _REFERENCE.match(text, begin)
    if reference is not None:
        # $PASSWORD, or $PASSWORD; next command; but not the beginning of a longer value
        rest = text[reference.end() : _end_of_line(text, begin)].strip()
        is_end = rest[:1] in {*",;#&|})]"} and rest[1:2] in {"", " ", "&", "|"}
        if extent is _Extent.WORD or not rest or is_end:
            return None
    block = _BLOCK.match(text, begin) if of_colon else None
    if block is not None:
        # A block of YAML: |-, and the lines below
        return _lines_below(text, start, block.end(), key, is_block=block[0][0] in "|>")
    scheme = SCHEME.match(text, begin) if key.lower().endswith("authorization") else None
    if scheme is not None:
        # Authorization: Bearer …
        begin = scheme.end()
    if extent is _Extent.WORD:
        word = (_ARGUMENT if key[0] == "-" else _WORD).match(text, begin)
        end = begin if word is None else word.end()
    elif extent is _Extent.PHRASE:
        # failed with password: several words, up to the end of the phrase
        end = _end_of_line(text, begin)
        cut = _END_OF_PHRASE.search(text, begin, end)
        end = end if cut is None else cut.start()
        for _ in range(_MAX_CLOSING):
            last = text[end - 1]
            opening_of = {"}": "{", "]": "[", ")": "("}.get(last, last)
            is_open = text.count(opening_of, begin, end) < text.count(last, begin, end)
            end -= is_open or last in " \t\r"
    else:
        # password: several words, and the lines that continue them
        end, indentation = _end_of_line(text, begin), _indentation(text, start)
        end = _end_of_lines(text, end, indentation, is_scalar=True)
    return KeyValue(begin, end) if end > begin else None


def _end_of_line(text: str, begin: int) -> int:
    end = text.find("\n", begin)
    return len(text) if end < 0 else end


def _indentation(text: str, start: int) -> int:
    """Return the number of characters before the key at ``start`` in its line."""
    return start - text.rfind("\n", 0, start) - 1


def _end_of_lines(
    text: str, end: int, indentation: int, item: str = "", *, is_scalar: bool = False
) -> int:
    """Return the end of the lines after ``end`` that are indented further than ``indentation``, or
    as far and begin with ``item``. ``is_scalar``: they have no keys.
    """
    while end < len(text):
        after = _end_of_line(text, end + 1)
        line = text[end + 1 : after]
        width = len(line) - len(line.lstrip(" \t"))
        is_item = bool(item) and width == indentation and line[width:].startswith(item)
        if line.strip() and width <= indentation and not is_item:
            break
        if is_scalar and (not line.strip() or _KEY_LINE.match(line) is not None):
            break
        end = after
    return end


def _quoted(text: str, begin: int, opening: str) -> KeyValue | None:
    end = text.find(opening, begin)
    while end >= 0:
        after = end + len(opening)
        if text.startswith(opening, after) and len(opening) == 1 and end > begin:
            # A doubled quote.
            end = text.find(opening, after + 1)
        elif len(opening) == 1 and (end - len(text[begin:end].rstrip("\\")) - begin) % 2:
            end = text.find(opening, after)
        else:
            break
    if end < 0:
        line = text.find("\n", begin)
        end = len(text) if line < 0 else line
    return KeyValue(begin, end) if end > begin else None


def _end_of_group(text: str, begin: int) -> int:
    depth = 0
    for bracket in _BRACKETS.finditer(text, begin):
        depth += 1 if bracket[0] in "[{" else -1
        if not depth:
            return bracket.end()
    return len(text)


def _lines_below(text: str, start: int, begin: int, key: str, *, is_block: bool) -> KeyValue | None:
    """Return the value in the lines below a key: a block, a list, a group, or one value."""
    outer = _indentation(text, start)
    line = text[begin : _end_of_line(text, begin)]
    while begin < len(text) and not line.strip():
        begin += len(line) + 1
        line = text[begin : _end_of_line(text, begin)]
    if begin >= len(text):
        return None
    width = len(line) - len(line.lstrip(" \t"))
    is_list = line[width:].startswith("- ") and width >= outer
    if width <= outer and not is_list:
        return None
    if is_block or is_list or names_group(key) or key in SECRET_DATA:
        # The indentation of the key counts its own list's dash: "- password: |".
        end = _end_of_lines(text, begin - 1, min(outer, width - 1) if not is_list else width, "- ")
        return KeyValue(begin, end, "" if is_block else "lines") if end > begin else None
    if _KEY_LINE.match(line) is not None:
        return None
    return _value_at(text, start, begin + width, key, _Extent.LINES)
