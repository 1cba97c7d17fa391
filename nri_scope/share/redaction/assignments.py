# SPDX-License-Identifier: Apache-2.0
"""Find keys with their values inside any text: ``password=…``, ``--token …``, ``?sig=…``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote_plus

from . import shell_words
from .credentials import end_of_scheme, must_replace, replace_credential, replace_keyed, strength_of
from .key_names import Certainty, certainty_at, may_name_credential, names_node
from .known_values import Strength
from .re2_patterns import Pattern
from .tokens import PLAIN_TOKEN, is_token
from .word_lists import words

if TYPE_CHECKING:
    from .engine import Engine

_KEY = Pattern(
    r"\b(?i:set)[ \t]+[A-Za-z_][A-Za-z0-9_.-]*(?:[ \t]*(?::=|=>|={1,3}|:)[^\S\n]*|[ \t]+[\"']?)"
    r"|[A-Za-z_][A-Za-z0-9_.-]*(?:[\\\"']{0,4}\s*(?::=|=>|!?={1,3}|:)[^\S\n]*|[ \t]+[\"'])"
    r"|--?[A-Za-z][A-Za-z0-9_.-]*(?:\s|\\\n)+|\b(?:requirepass|masterauth)\s+"
)
# Anchored at the end of a key; no nested repetitions that could match the same text.
_QUOTED = re.compile(
    r'"(?P<double>(?:[^"\\]|\\.)*)"|\'(?P<single>(?:[^\'\\]|\\.|\'\')*)\'', re.DOTALL
)
_OPENED = re.compile(r'["\'](?P<rest>[^\n]*)')
_ESCAPED = re.compile(r"(?P<mark>\\+[\"'])")
_WORD_GOES_ON = re.compile(r"[^\s,;:&|)\]}>]")
_BARE = re.compile(r"[^\s,;&|]*")
_GOES_ON = re.compile(r"[,;&|][^\s\"'`]")
_NEXT = re.compile(r"[,;&|][ ]?[A-Za-z_][A-Za-z0-9_.-]{0,60}=")
# A shell does not end a word at a comma.
_NEXT_OF_OPTION = re.compile(rf"(?!,){_NEXT.pattern}")
_QUERY = re.compile(r"[^\s&\"'<>#]*")
_QUERY_KEYS = words("key sig code")
_UP_TO_SEMICOLON = re.compile(r"[^;\n]*")
_CONNECTION = re.compile(
    r"(?i)(?:^|[;\"'=\s])(?:server|data source|host|endpoint|defaultendpointsprotocol|accountname|"
    r"initial catalog|user id|uid|dsn|driver)\s{0,3}="
)
_OF_SHELL = re.compile(r"/|[\"']?\$[({A-Z_]|`|\Z")
_MARKS = re.compile(r"\n|\\+[\"']|[\"'`]")
_LINES = frozenset({"\\n", "\\r", "\\t"})
_CLOSING = ")]}>,;"
# Not a value, but a container of values that have their own keys.
_CONTAINER = re.compile(r"[{\[(]+(?:[\s\"'\\\]})]|[A-Za-z_][A-Za-z0-9_.-]*[\"']?[:=]|$)")
_OPTION = re.compile(r"--?[A-Za-z][A-Za-z0-9_.-]*")
_WORDS = re.compile(r"[A-Za-z]{1,14}[.,:;!?]?")
_HAS_TOKEN = re.compile(PLAIN_TOKEN)


def redact_assignments(engine: Engine, text: str, place: str, depth: int) -> str:
    """Replace values of keys that name credentials, or nodes if that rule is on."""
    is_on, nodes = engine.is_on("credential-keys"), engine.is_on("nodes")
    if not (is_on and may_name_credential(text)) and not nodes:
        return text
    reader = _Reader(text)
    pieces: list[str] = []
    pos = 0
    for match in _KEY.finditer(text):
        start, end = match.start(), match.end()
        if start < pos:
            continue
        found = match[0] or ""
        if found[0] == "-" != found[1] and start and text[start - 1].isalnum():
            # The end of a name, such as my-token, unless a line begins here in JSON.
            if text[max(start - 2, 0) : start] not in _LINES:
                continue
        elif found[:3].lower() == "set" and found[3] in " \t":
            found = found[3:].lstrip()
        # password "…"
        is_quoted = found.endswith(('"', "'"))
        if is_quoted:
            found, end = found[:-1], end - 1
        key = found.lstrip("-").rstrip("\\ \t\r\n").rstrip("!:=>").rstrip().rstrip("\\\"'")
        is_query = start > 0 and text[start - 1] in "?&"
        if key == "PWD" and reader.is_password_of_connection(start, end):
            key = "pwd"
        certainty = certainty_at(key) if is_on else Certainty.NONE
        if is_on and is_query and key.lower() in _QUERY_KEYS:
            certainty = Certainty.LIKELY
        is_node = nodes and names_node(key)
        if not is_node and certainty is Certainty.NONE:
            continue
        if _CONTAINER.match(text, end):
            continue
        is_option = not found.rstrip("\\ \t\r\n").endswith(("=", ":", ">"))
        begin, stop = reader.value(start, end, is_query=is_query)
        credentials_at = end_of_scheme(key, text, begin)
        if credentials_at > stop:
            begin, stop = reader.value(start, credentials_at, is_query=is_query)
        secret = text[begin:stop]
        if not secret:
            continue
        is_prose = _is_prose(secret) if is_quoted else _WORDS.fullmatch(secret) is not None
        if is_option and (is_prose or _OPTION.fullmatch(secret)):
            continue
        if text[begin] in "\"'":
            secret = shell_words.word(secret, 0).text
        if is_node:
            token = (
                secret
                if is_token(secret)
                else engine.replace("nodes", secret, Strength.NAME, place)
            )
        elif must_replace(key, secret, certainty):
            token = _replace(engine, key, secret, place, is_query=is_query)
        else:
            continue
        pieces += text[pos:begin], token
        pos = stop
    return "".join((*pieces, text[pos:]))


def _replace(engine: Engine, key: str, secret: str, place: str, *, is_query: bool) -> str:
    if is_query:
        decoded = unquote_plus(secret)
        if decoded != secret and not _HAS_TOKEN.search(decoded):
            replace_credential(engine, decoded, place)
    first = re.split(r"[\s,;&]", secret[end_of_scheme(key, secret) :], maxsplit=1)[0]
    if first and first != secret and not _WORDS.fullmatch(first) and not _HAS_TOKEN.search(first):
        engine.known.add(first, "credential-keys", strength_of(first))
    if _is_prose(secret):
        # "token: expired" is not a secret, or a weak one, and must not hide the word in all texts.
        return engine.replace("credential-keys", secret, Strength.PRIVATE, place)
    return replace_keyed(engine, key, secret, place)


def _is_prose(text: str) -> bool:
    return all(_WORDS.fullmatch(word) for word in text.split())


class _Reader:
    """Finds the ends of values; call it from left to right, so that each character is read once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._is_connection = ";" in text and _CONNECTION.search(text) is not None
        self._at = 0
        self._mark = ""
        self._close = "", -1
        # The position from which on there is no closing mark.
        self._unclosed = len(text) + 1

    def value(self, start: int, end: int, *, is_query: bool) -> tuple[int, int]:
        """Return start and end of the value found at ``end``, whose key is at ``start``."""
        text = self._text
        mark = self._enclosed_in(start)
        limit = self._closed_at(mark, end)
        if is_query:
            return end, _end(_QUERY, text, end, limit)
        if end < len(text) and text[end] in "\"'" and text[end] != mark:
            quoted = _QUOTED.match(text, end) if end < self._unclosed else None
            if quoted is not None:
                stop = quoted.end()
                if stop < len(text) and _WORD_GOES_ON.match(text, stop):
                    # For example 'it'\''s'.
                    return end, max(stop, end + shell_words.word(text[end:limit], 0).end)
                return quoted.span(quoted.lastgroup or 0)
            self._unclosed = min(self._unclosed, end)
            opened = _OPENED.match(text, end)
            assert opened is not None
            return opened.span("rest")
        escaped = _ESCAPED.match(text, end)
        if escaped is not None and escaped["mark"] != mark:
            newline = text.find("\n", escaped.end())
            newline = len(text) if newline < 0 else newline
            stop = text.find(escaped["mark"], escaped.end(), newline)
            return escaped.end(), stop if stop >= 0 else self._bare(start, escaped.end(), limit)
        if self._is_connection and "=" in text[start:end]:
            stop = _end(_UP_TO_SEMICOLON, text, end, limit)
            return end, end + len(text[end:stop].rstrip())
        return end, self._bare(start, end, limit)

    def is_password_of_connection(self, start: int, end: int) -> bool:
        """Return whether PWD at ``start`` is a key of ODBC, and not a shell's current folder."""
        text = self._text
        if not self._is_connection or not text[start:end].endswith("="):
            return False
        return text[start - 1 : start] == ";" or _OF_SHELL.match(text, end) is None

    def _bare(self, start: int, begin: int, limit: int) -> int:
        text = self._text
        next_key = _NEXT_OF_OPTION if "-" in text[max(start - 1, 0) : start + 1] else _NEXT
        stop = begin
        while True:
            # Only up to the next key, even in long texts.
            stop = _end(_BARE, text, stop, limit)
            if stop >= limit or next_key.match(text, stop) or not _GOES_ON.match(text, stop):
                break
            stop += 1
        if text.count("(", begin, stop) == text.count(")", begin, stop) > 0:
            # $(NAME)
            return stop
        while stop > begin + 1 and text[stop - 1] in _CLOSING:
            stop -= 1
        return stop

    def _closed_at(self, mark: str, end: int) -> int:
        """Return the end of the quotation that encloses a key, or the text's end if unclosed."""
        if not mark:
            return len(self._text)
        if self._close[0] != mark or self._close[1] < end:
            close = self._text.find(mark, end)
            self._close = mark, close if close >= 0 else len(self._text)
        return self._close[1]

    def _enclosed_in(self, start: int) -> str:
        """Return the quotation mark that is open in the line at ``start``, or ""."""
        text = self._text
        for found in _MARKS.finditer(text, self._at, start):
            mark = found[0]
            if mark == "\n" or self._mark == mark:
                self._mark = ""
            elif not self._mark and not (
                mark == "'" and found.start() and text[found.start() - 1].isalnum()
            ):
                self._mark = mark
        self._at = max(self._at, start)
        return self._mark


def _end(pattern: re.Pattern[str], text: str, pos: int, limit: int) -> int:
    match = pattern.match(text, pos, max(pos, limit))
    assert match is not None
    return match.end()
