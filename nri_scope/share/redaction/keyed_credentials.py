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
from .re2_patterns import Pattern
from .word_lists import words

if TYPE_CHECKING:
    from .engine import Engine


_TAG = Pattern(r"<(/?)([A-Za-z_][A-Za-z0-9_.:-]*)((?:[^<>\"']|\"[^\"]*\"|'[^']*')*)>")
_ATTRIBUTE = re.compile(r"([A-Za-z_][\w.:-]*)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_DATA = re.compile(r"\s*<!\[CDATA\[(.*?)\]\]>\s*", re.DOTALL)
_NAMES = ("name", "key", "id", "property")
_MAX_OPEN = 100


def elements(text: str) -> list[Entry]:
    """Return all elements of a text with their content, in order, including unclosed ones."""
    found: list[Entry] = []
    open_elements: list[tuple[str, int, int]] = []
    key_text = ""
    for tag in _TAG.finditer(text):
        closing, name, rest = tag[1], tag[2] or "", tag[3] or ""
        start, end = tag.start(), tag.end()
        if closing:
            if open_elements and open_elements[-1][0] == name:
                _, number, begin = open_elements.pop()
                if number == len(found) - 1:
                    key_text = _set_content(found[number], text, begin, start)
                continue
            while open_elements and open_elements[-1][0] != name:
                open_elements.pop()
            if open_elements:
                open_elements.pop()
            continue
        above = open_elements[-1][1] if open_elements else -1
        attributes = {
            match[1].lower(): match.span(2) if match[2] is not None else match.span(3)
            for match in _ATTRIBUTE.finditer(rest)
        }
        offset = tag.start(3)
        key = name
        for attribute in _NAMES:
            if attribute in attributes:
                first, last = attributes[attribute]
                key = rest[first:last]
                break
        else:
            if key_text and found and name.lower() in {"string", "data", "integer"}:
                # <key>password</key><string>…</string>
                key = key_text
        key_text = ""
        if key != name and "value" in attributes:
            first, last = attributes["value"]
            found.append(Entry(key, above, offset + first, offset + last, "<"))
        for attribute, (first, last) in attributes.items():
            if attribute not in _NAMES and attribute != "value":
                found.append(Entry(attribute, above, offset + first, offset + last, "<"))
        found.append(Entry(key, above, style="<"))
        if not rest.endswith("/") and len(open_elements) < _MAX_OPEN:
            open_elements.append((name, len(found) - 1, end))
    return found


def _set_content(entry: Entry, text: str, begin: int, end: int) -> str:
    """Set an element's value to its content; return it if the element is ``key``, otherwise ""."""
    data = _DATA.fullmatch(text, begin, end)
    if data is not None:
        entry.start, entry.end = data.span(1)
    else:
        content = text[begin:end]
        entry.start = begin + len(content) - len(content.lstrip())
        entry.end = max(entry.start, begin + len(content.rstrip()))
    return text[entry.start : entry.end] if entry.key.lower() == "key" else ""


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
