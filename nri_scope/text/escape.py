# SPDX-License-Identifier: Apache-2.0
"""Escape text from a recording for terminals and Markdown, so that harmful characters stay visible.

Names, messages and ids in a recording are untrusted. Printed unescaped, they could move the cursor,
colour or erase the screen, set a window's title, or (with bidirectional controls and zero-width
characters) look like other text. Such characters are shown as ``\\x1b`` or ``\\u202e``. This is for
display only and cannot be reversed: a backslash is not doubled.

When printed through Rich, the result belongs in a ``rich.text.Text``, never in markup.
"""

from __future__ import annotations

import re
import unicodedata

MAX_MARKS = 3
"""Maximum number of combining marks on one character; more marks would overlap other lines."""

# Printable according to Python, but drawn with zero width or as a blank.
_INVISIBLE = frozenset(
    chr(code)
    for first, last in (
        (0x034F, 0x034F),
        (0x115F, 0x1160),
        (0x17B4, 0x17B5),
        (0x180B, 0x180F),
        (0x2800, 0x2800),
        (0x3164, 0x3164),
        (0xFE00, 0xFE0F),
        (0xFFA0, 0xFFA0),
        (0xE0100, 0xE01EF),
    )
    for code in range(first, last + 1)
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_CUT = "…"
_NARROW = re.compile("[ -~µ·Δ–—…↑↓↕▸▾]*")

# The start of a formula in spreadsheets, some of which trim cells. The wide characters start
# formulas in Asian versions.
_FORMULA = re.compile(r"[\t\r\n]| *[=+@＝＋－＠-]")
# Spreadsheets start a new cell at a semicolon if the decimal sign is a comma.
_NEXT_FORMULA = re.compile(r";(?=[\s\"']*[=+@＝＋－＠-])")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)


def spreadsheet_cell(text: str) -> str:
    """Return ``text`` as a safe CSV cell, with a ``'`` before anything that may be a formula.

    Formulas may begin at the start of the text and after a semicolon. A signed number is not a
    formula.
    """
    guard = "'" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else ""
    return guard + _NEXT_FORMULA.sub(";'", safe(text))


def safe(text: str, width: int | None = None, *, newlines: bool = False) -> str:
    """Escape the characters in ``text`` that a terminal would interpret or hide.

    ``width`` is the maximum number of columns; longer text is truncated and ends with ``…``. With
    ``newlines``, line ends are preserved, except if ``width`` is given.
    """
    if not (text.isascii() and text.isprintable()):
        text = _escaped(text, newlines=newlines and width is None)
    if width is None or (len(text) <= width and text.isascii()):
        return text
    return _cut(text, width)


def columns(text: str) -> int:
    """Return the number of columns of ``text`` on a terminal; the text must already be ``safe``."""
    return len(text) if text.isascii() or is_narrow(text) else sum(map(_width, text))


def is_narrow(text: str) -> bool:
    """Return whether ``text`` has only characters of one column that are frequent in our output.

    Much faster than the width of each character.
    """
    return _NARROW.fullmatch(text) is not None


def _escaped(text: str, *, newlines: bool) -> str:
    parts: list[str] = []
    marks = 0
    for char in text:
        marks = marks + 1 if not char.isascii() and unicodedata.combining(char) else 0
        is_visible = char.isprintable() and char not in _INVISIBLE and marks <= MAX_MARKS
        parts.append(char if is_visible or (newlines and char == "\n") else _escape(char))
    return "".join(parts)


def _escape(char: str) -> str:
    code = ord(char)
    if code <= 0xFF:
        return _SHORT.get(char) or f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _cut(text: str, width: int) -> str:
    if columns(text) <= width:
        return text
    used = 0
    for index, char in enumerate(text):
        used += _width(char)
        if used > width - len(_CUT):
            return text[:index] + _CUT if width > 0 else ""
    return text


def _width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


_HARMLESS = re.compile(r"(?![0-9]+[.)])[A-Za-z0-9(][A-Za-z0-9 ,;()'\u2013\u2192\u00b5.:+-]*\Z")
"""Prose without Markdown syntax, links, mentions and references."""
_LINK = re.compile(r"www\.|https?:", re.IGNORECASE)


def code(text: str) -> str:
    """Return `text` as a code span that is valid in a line and in a table cell; "" for no text."""
    text = safe(text)
    if not text:
        return ""
    if text.strip() == text and not {"`", "|"} & set(text):
        return f"`{text}`"
    # Parsers split a table at every bar first, and differ in the treatment of "\\|". So every
    # character that may have a meaning in Markdown becomes a character reference.
    return f"<code>{''.join(char if char.isalnum() else f'&#{ord(char)};' for char in text)}</code>"


def prose(text: str) -> str:
    """Return a sentence with untrusted quotes: unchanged if harmless, otherwise as code."""
    text = safe(text)
    return text if _HARMLESS.match(text) and not _LINK.search(text) else code(text)
