# SPDX-License-Identifier: Apache-2.0
"""Find credentials by key in YAML, TOML, INI, properties and XML, or in fragments of these."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from html import unescape
from typing import TYPE_CHECKING

from . import commands
from .config_entries import Entries
from .credentials import must_replace, replace_encoded, replace_keyed
from .flow_entries import Entry
from .key_names import Certainty, certainty_at, certainty_inside, may_name_credential
from .word_lists import words
from .xml_entries import elements

if TYPE_CHECKING:
    from .engine import Engine

COMMAND_MEMBERS = words("args command cmd entrypoint argv")
"""Members that contain command lines, word by word."""
NAME_MEMBERS = words("name key")
"""Members that contain the name for the value in a neighbouring member."""
VALUE_MEMBERS = words("value val data content text plaintext default")
"""Members that contain the value for the name in a neighbouring member, or for the key above."""
_STRUCTURED = re.compile(r"[:=]\s|[{\[\n]|\A[^\s=]+=")


def redact_keyed_values(engine: Engine, text: str, place: str, depth: int) -> str:
    """Replace values whose keys, or enclosing keys, name credentials. A finder."""
    if not engine.is_on("credential-keys") or not (
        may_name_credential(text) or commands.names_client(text)
    ):
        return text
    if "</" in text or "/>" in text:
        text = _redact_entries(engine, text, place, elements(text))
    if _STRUCTURED.search(text) is None:
        return text
    return _redact_entries(engine, text, place, Entries(text).list)


def _redact_entries(engine: Engine, text: str, place: str, entries: list[Entry]) -> str:
    pieces: list[str] = []
    pos = 0
    changes = {
        start: (end, redacted)
        for start, end, redacted in _redact_command_lines(engine, text, place, entries)
    }
    for entry, key, certainty in _credentials(entries, text):
        encoded = text[entry.start : entry.end]
        value = _decoded(encoded, entry.style)
        if certainty is Certainty.FORCED:
            token = replace_encoded(engine, value, place)
        else:
            token = replace_keyed(engine, key, value, place)
        if token == value:
            continue
        if not entry.style and " #" in value:
            # The rest may be a comment.
            replace_keyed(engine, key, value[: value.index(" #")], place)
        changes[entry.start] = entry.end, token
    for start, (end, redacted) in sorted(changes.items()):
        if start >= pos:
            pieces += text[pos:start], redacted
            pos = end
    return "".join((*pieces, text[pos:]))


def _redact_command_lines(
    engine: Engine, text: str, place: str, entries: list[Entry]
) -> Iterator[tuple[int, int, str]]:
    """Yield replaced words of command lines given as lists: start, end and replacement."""
    lines: dict[int, list[Entry]] = {}
    for entry in entries:
        is_item = not entry.key and entry.start >= 0 and entry.above >= 0
        if is_item and entries[entry.above].key.lower() in COMMAND_MEMBERS:
            lines.setdefault(entry.above, []).append(entry)
    for line in lines.values():
        words = [_decoded(text[word.start : word.end], word.style) for word in line]
        redacted = commands.redact_credentials(engine, words, place)
        for entry, word, changed in zip(line, words, redacted, strict=True):
            if changed is not None and changed != word:
                yield entry.start, entry.end, _encoded(changed, entry.style)


def _encoded(value: str, style: str) -> str:
    """Encode a value in the style of its entry; the inverse of `_plain`."""
    match style:
        case '"':
            return json.dumps(value, ensure_ascii=False)[1:-1]
        case "'":
            return value.replace("'", "''")
        case _:
            return value


def _credentials(entries: list[Entry], text: str) -> Iterator[tuple[Entry, str, Certainty]]:
    """Yield the entries whose values are credentials, each with the key that indicates it."""
    names, kinds = _siblings(entries, text)
    below: list[Certainty] = []
    certainties: list[Certainty] = []
    for entry in entries:
        inherited = below[entry.above] if entry.above >= 0 else Certainty.NONE
        above = entries[entry.above] if entry.above >= 0 else None
        key = entry.key
        if not key:
            # An item inherits from its list, and its members inherit from the item.
            certainty = max(certainties[entry.above], inherited) if above is not None else inherited
            inner = max(inherited, certainty) if certainty is Certainty.SURE else inherited
            key = above.key if above is not None else ""
        elif inherited is Certainty.FORCED or (
            key in {"data", "stringData"} and kinds.get(entry.above) == "Secret"
        ):
            certainty = inner = Certainty.FORCED
        else:
            certainty = certainty_at(key, inherited)
            inner = certainty_inside(key, inherited)
            if key.lower() in VALUE_MEMBERS and above is not None and certainty < Certainty.SURE:
                named = names.get(entry.above)
                named_certainty = certainty_at(named) if named else certainties[entry.above]
                if named_certainty > certainty:
                    certainty, key = named_certainty, named or above.key
        below.append(inner)
        certainties.append(certainty)
        if entry.start >= 0 and must_replace(key, text[entry.start : entry.end], certainty):
            yield entry, key, certainty


def _siblings(entries: Iterable[Entry], text: str) -> tuple[dict[int, str], dict[int, str]]:
    """Return, by enclosing entry, the name in its ``name`` or ``key`` member, and its ``kind``."""
    names: dict[int, str] = {}
    kinds: dict[int, str] = {}
    for entry in entries:
        key = entry.key.lower()
        if key == "kind":
            kinds[entry.above] = text[entry.start : entry.end].strip() if entry.start >= 0 else ""
        elif key in NAME_MEMBERS and entry.start >= 0:
            name = text[entry.start : entry.end].strip()
            if certainty_at(name) > certainty_at(names.get(entry.above, "")):
                names[entry.above] = name
    return names, kinds


def _decoded(encoded: str, style: str) -> str:
    """Decode a value from the style of its entry."""
    match style:
        case '"':
            try:
                decoded = json.loads(f'"{encoded}"', strict=False)
            except ValueError:
                return encoded
            return decoded if isinstance(decoded, str) else encoded
        case "'":
            return encoded.replace("''", "'")
        case "|":
            return "\n".join(line.strip() for line in encoded.split("\n"))
        case "<":
            return unescape(encoded)
        case _:
            return encoded
