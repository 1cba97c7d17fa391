# SPDX-License-Identifier: Apache-2.0
"""Comparison of text in filters, exactly as in SQLite, so that both back-ends agree."""

from __future__ import annotations

import string
from collections.abc import Callable

_FOLD = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def fold(text: str) -> str:
    """Convert only ASCII letters to lower case, as SQLite's ``lower()`` does."""
    return text.lower() if text.isascii() else text.translate(_FOLD)


def glob_test(pattern: str) -> Callable[[str], bool]:
    """Return a test for whole texts; each ``*`` in ``pattern`` matches any characters, or none."""
    first, *middle, last = pattern.split("*")

    def test(text: str) -> bool:
        # SQLite's GLOB treats a NUL as the end of the text.
        text = text.partition("\0")[0]
        end = len(text) - len(last)
        if end < len(first) or not (text.startswith(first) and text.endswith(last)):
            return False
        at = len(first)
        for piece in middle:
            found = text.find(piece, at, end)
            if found < 0:
                return False
            at = found + len(piece)
        return True

    return test


def sql_glob(pattern: str) -> str:
    """Convert ``pattern`` for SQLite's GLOB, in which ``?`` and ``[`` are also special."""
    return pattern.replace("[", "[[]").replace("?", "[?]")


def sql_exactly(text: str) -> str:
    """Return a pattern for SQLite's GLOB that matches exactly ``text``."""
    return sql_glob(text).replace("*", "[*]")
