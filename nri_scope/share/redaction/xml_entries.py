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
