# SPDX-License-Identifier: Apache-2.0
"""Text comparison that agrees with SQLite's, so that SQL and Python select the same events."""

from __future__ import annotations

import string
from collections.abc import Callable

_FOLD = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def fold(text: str) -> str:
    """Convert only ASCII letters to lower case, as SQLite's ``lower()`` does."""
    return text.lower() if text.isascii() else text.translate(_FOLD)


def glob_test(pattern: str) -> Callable[[str], bool]:
    """Return a test for whole texts; each ``*`` in ``pattern`` matches zero or more characters."""
    first, *middle, last = pattern.split("*")

    def test(text: str) -> bool:
        # As in SQLite's GLOB, text ends at a NUL.
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
    """Escape ``?`` and ``[``, which are special only in SQLite's GLOB."""
    return pattern.replace("[", "[[]").replace("?", "[?]")


def sql_exactly(text: str) -> str:
    """Return a GLOB pattern that matches exactly ``text``."""
    return sql_glob(text).replace("*", "[*]")
