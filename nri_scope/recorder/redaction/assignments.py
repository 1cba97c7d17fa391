# SPDX-License-Identifier: Apache-2.0
"""Keys with their values in free text: ``password=…``, ``token: …``, ``"secret": "…"``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nri_scope.recorder.redaction.harmless import is_plain_path
from nri_scope.recorder.redaction.keys import names_credential, names_node
from nri_scope.recorder.redaction.known import Strength
from nri_scope.recorder.redaction.patterns import Pattern
from nri_scope.recorder.redaction.tokens import PLAIN
from nri_scope.recorder.redaction.words import words

if TYPE_CHECKING:
    from nri_scope.recorder.redaction.engine import Engine

_KEY = Pattern(
    r"[A-Za-z_][A-Za-z0-9_.-]*[\\\"']{0,4}\s*(?::=|=>|==|[:=])\s*|--?[A-Za-z][A-Za-z0-9_.-]*\s+"
    r"|\b(?:requirepass|masterauth|sshpass\s+-p|redis-cli(?:\s+-[hpn]\s+[^\s-]+){0,3}\s+-a)\s+"
)
# Anchored where a key ended; no repetition inside of a repetition that could match the same.
_VALUE = re.compile(
    r'"(?P<double>(?:[^"\\]|\\.)*)"?'
    r"|'(?P<single>[^']*)'?"
    r'|\\+["\'](?P<escaped>[^"\'\\]*)'
    r"|(?P<bare>[^\s\"'`])",
    re.DOTALL,
)
_PIECE = re.compile(r"[^\s\"'`,;&|]*")
_MORE = re.compile(r"[,;&|][^\s\"'`]")
_NEXT = re.compile(r"[,;&|][ ]?[A-Za-z_][A-Za-z0-9_.-]*=")
_PROGRAMS = ("sshpass", "redis-cli")
# The line above "value: …", and the one below "password:".
_NAME_LINE = re.compile(
    r"[ \t]*(?:-[ \t]+)?(?:name|key):[ \t]*[\"']?([A-Za-z_][A-Za-z0-9_.-]{0,100})[\"']?[ \t]*"
)
_BELOW = re.compile(r":[ \t]*\r?\n([ \t]+)")
_NO_SCALAR = re.compile(r"[#\[{&*!|>%@`]|-(?:\s|$)|[^\s:]{1,200}[ \t]*:(?:\s|$)")
_INDENT = 200
"""Characters that a key's line may begin with."""
_CLOSING = ")]}>,;"
_LINE_START = re.compile(r"[ \t]*(?:-[ \t]+|export[ \t]+|set[ \t]+)?$")
_BLOCK = re.compile(r"[|>][+-]?[ \t]*(?P<lines>(?:\n[ \t]+[^\n]*|\n[ \t]*(?=\n))+)")
_REFERENCE = re.compile(r"\$\([A-Za-z0-9_.-]+\)|\$\{[^}\s]*\}|\$[A-Za-z_][A-Za-z0-9_]*|\*+|%[sdvq]")
_SCHEMES = frozenset({"bearer", "basic", "digest", "negotiate", "token"})
_WORDS = re.compile(r"[A-Za-z]{1,14}[.,:;!?]?")
_HAS_TOKEN = re.compile(PLAIN)
_LOOSE = words("null none nil true false yes no on off")


def assignments(engine: Engine, text: str, place: str, depth: int) -> str:
    """Values of keys that name credentials, or nodes where that is asked for."""
    is_on, nodes = engine.is_on("credential-keys"), engine.is_on("nodes")
    if not (is_on or nodes) or not _KEY.is_in(text):
        return text
    pieces: list[str] = []
    at = 0
    for match in _KEY.finditer(text):
        start, end = match.start(), match.end()
        if start < at:
            continue
        found = match[0] or ""
        key = found.lstrip("-").rstrip().rstrip(":=>").rstrip().rstrip("\\\"'")
        if found.startswith(_PROGRAMS):
            key = "password"
        elif key == "value":
            key = _named(text, start)
        is_node = nodes and names_node(key)
        if not is_node and not (is_on and names_credential(key)):
            continue
        is_option = not found.rstrip().endswith(("=", ":", ">"))
        value = _value(text, start, end, found, is_option=is_option)
        if value is None:
            continue
        begin, stop = value
        secret = text[begin:stop]
        if _is_none(secret) or (is_option and _WORDS.fullmatch(secret)):
            continue
        if is_node:
            token = engine.put("nodes", secret, Strength.NAME, place)
        else:
            token = _put(engine, secret, place)
        pieces += text[at:begin], token
        at = stop
    return "".join((*pieces, text[at:]))


def _put(engine: Engine, secret: str, place: str) -> str:
    first = re.split(r"[\s,;&]", secret, maxsplit=1)[0]
    if first and first != secret and not _WORDS.fullmatch(first):
        engine.known.add(first, "credential-keys", Strength.SECRET)
    # "token: expired" is no secret, or a poor one, that must not take the word from all texts.
    plain = all(_WORDS.fullmatch(word) for word in secret.split())
    strength = Strength.PRIVATE if plain else Strength.SECRET
    return engine.put("credential-keys", secret, strength, place)


def _is_none(secret: str) -> bool:
    return (
        not secret.strip("{}[]()")
        or secret.lower() in _LOOSE
        or secret.lower() in _SCHEMES
        or (secret.isdigit() and len(secret) < 4)
        or _HAS_TOKEN.match(secret) is not None
        or _REFERENCE.fullmatch(secret) is not None
        or (secret.count("/") > 1 and is_plain_path(secret))
    )


def _value(
    text: str, start: int, end: int, found: str, *, is_option: bool
) -> tuple[int, int] | None:
    """From where to where the value is that begins at ``end``."""
    line = text.rfind("\n", max(0, start - _INDENT), start) + 1 or max(0, start - _INDENT)
    # "key: value" and "key = value" on a line of its own have all the line.
    whole_line = (
        not is_option
        and (":" in found or " =" in found or "= " in found)
        and _LINE_START.fullmatch(text, line, start) is not None
    )
    if "\n" in found and not is_option:
        return _below(text, line, start, end, found) if whole_line else None
    block = _BLOCK.match(text, end) if whole_line else None
    if block is not None:
        begin = block.start("lines") + 1
        while begin < len(text) and text[begin] in " \t":
            begin += 1
        return begin, block.end("lines")
    value = _VALUE.match(text, end)
    if value is None:
        return None
    kind = value.lastgroup or "bare"
    begin, stop = value.span(kind)
    if kind != "bare":
        return begin, stop
    if whole_line:
        newline = text.find("\n", begin)
        stop = len(text.rstrip()) if newline < 0 else newline
        stop = max(begin, begin + len(text[begin:stop].rstrip().rstrip(",")))
        return begin, stop
    stop = begin
    while True:
        # Only as far as the next key: each character is looked at once, however long the text is.
        piece = _PIECE.match(text, stop)
        assert piece is not None
        stop = piece.end()
        if _NEXT.match(text, stop) or not _MORE.match(text, stop):
            break
        stop += 1
    while stop > begin + 1 and text[stop - 1] in _CLOSING:
        stop -= 1
    return begin, stop


def _below(text: str, line: int, start: int, end: int, found: str) -> tuple[int, int] | None:
    """The same for a value in the line below its key, as YAML may have it."""
    below = _BELOW.search(found)
    if (
        below is None
        or below.end() != len(found)
        or len(below[1]) <= start - line
        or end >= len(text)
        or _NO_SCALAR.match(text, end)
    ):
        return None
    newline = text.find("\n", end)
    stop = len(text) if newline < 0 else newline
    stop = end + len(text[end:stop].rstrip())
    if stop - end > 1 and text[end] in "\"'" and text[stop - 1] == text[end]:
        return end + 1, stop - 1
    return end, stop


def _named(text: str, start: int) -> str:
    """What the line above that of ``start`` says the name of the value is; empty if it does not."""
    line = text.rfind("\n", max(0, start - _INDENT), start)
    if line < 0:
        return ""
    above = text.rfind("\n", max(0, line - _INDENT), line) + 1 or max(0, line - _INDENT)
    name = _NAME_LINE.fullmatch(text, above, line)
    return "" if name is None else name[1]
