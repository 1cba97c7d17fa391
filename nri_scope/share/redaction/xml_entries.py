# SPDX-License-Identifier: Apache-2.0
"""Find keys and their values in XML: elements, and attribute pairs of name and value."""

from __future__ import annotations

import re

from .flow_entries import Entry
from .re2_patterns import Pattern

_TAG = Pattern(r"<(/?)([A-Za-z_][A-Za-z0-9_.:-]*)((?:[^<>\"']|\"[^\"]*\"|'[^']*')*)>")
_ATTRIBUTE = re.compile(r"([A-Za-z_][\w.:-]*)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_DATA = re.compile(r"\s*<!\[CDATA\[(.*?)\]\]>\s*", re.DOTALL)
_NAMES = ("name", "key", "id", "property")
_MAX_OPEN = 100


def elements(text: str) -> list[Entry]:
    """Return all elements of a text with their content, in order, including unclosed ones."""
    found: list[Entry] = []
    open_: list[tuple[str, int, int]] = []
    said = ""
    for tag in _TAG.finditer(text):
        closing, name, rest = tag[1], tag[2] or "", tag[3] or ""
        start, end = tag.start(), tag.end()
        if closing:
            if open_ and open_[-1][0] == name:
                _, number, begin = open_.pop()
                if number == len(found) - 1:
                    said = _set_content(found[number], text, begin, start)
                continue
            while open_ and open_[-1][0] != name:
                open_.pop()
            if open_:
                open_.pop()
            continue
        above = open_[-1][1] if open_ else -1
        attributes = {
            match[1].lower(): match.span(2) if match[2] is not None else match.span(3)
            for match in _ATTRIBUTE.finditer(rest)
        }
        offset = tag.start(3)
        key = name
        for of in _NAMES:
            if of in attributes:
                first, last = attributes[of]
                key = rest[first:last]
                break
        else:
            if said and found and name.lower() in {"string", "data", "integer"}:
                # <key>password</key><string>…</string>
                key = said
        said = ""
        if key != name and "value" in attributes:
            first, last = attributes["value"]
            found.append(Entry(key, above, offset + first, offset + last, "<"))
        for of, (first, last) in attributes.items():
            if of not in _NAMES and of != "value":
                found.append(Entry(of, above, offset + first, offset + last, "<"))
        found.append(Entry(key, above, style="<"))
        if not rest.endswith("/") and len(open_) < _MAX_OPEN:
            open_.append((name, len(found) - 1, end))
    return found


def _set_content(entry: Entry, text: str, begin: int, end: int) -> str:
    """Set an element's value to its content; return the content if it names the next element."""
    data = _DATA.fullmatch(text, begin, end)
    if data is not None:
        entry.start, entry.end = data.span(1)
    else:
        content = text[begin:end]
        entry.start = begin + len(content) - len(content.lstrip())
        entry.end = max(entry.start, begin + len(content.rstrip()))
    return text[entry.start : entry.end] if entry.key.lower() == "key" else ""
