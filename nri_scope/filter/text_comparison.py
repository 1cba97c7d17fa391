# SPDX-License-Identifier: Apache-2.0
"""Text comparison that agrees with SQLite's, so that SQL and Python select the same events.

Regular expressions are RE2's, which have the syntax of Go and run in linear time. Python's ``re``
backtracks: a pattern, or text in an untrusted recording, could make it run for minutes. It would
hold the interpreter's lock, so ``record --where`` could not reply to the runtime.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from nri_scope.errors import FilterError

if TYPE_CHECKING:
    import re2

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
        start = len(first)
        for piece in middle:
            position = text.find(piece, start, end)
            if position < 0:
                return False
            start = position + len(piece)
        return True

    return test


def sql_glob(pattern: str) -> str:
    """Escape ``?`` and ``[``, which are special only in SQLite's GLOB."""
    return pattern.replace("[", "[[]").replace("?", "[?]")


def sql_exactly(text: str) -> str:
    """Return a GLOB pattern that matches exactly ``text``."""
    return sql_glob(text).replace("*", "[*]")


MAX_MEMORY = 1 << 20
"""Maximum memory in bytes for one pattern; patterns that need more are rejected."""


class Regex:
    """A compiled pattern."""

    def __init__(self, pattern: str) -> None:
        """Compile a pattern. Raises FilterError if RE2 rejects it or it needs too much memory."""
        # Imported here, as most commands use no regular expression.
        import re2

        options = re2.Options()
        options.max_mem = MAX_MEMORY
        options.log_errors = False
        try:
            self._compiled: re2._Regexp[str] = re2.compile(pattern, options)
        except re2.error as error:
            (reason,) = error.args
            text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
            raise FilterError(pattern, 0, f"bad regular expression: {text}") from None
        except UnicodeEncodeError as error:
            raise FilterError(pattern, error.start, "this character is not valid text") from None

    def search(self, text: str) -> bool:
        """Return whether the pattern matches somewhere in ``text``."""
        try:
            return self._compiled.search(text) is not None
        except UnicodeEncodeError:
            # Replace surrogates, which no recording contains.
            return self._compiled.search(text.encode("utf-8", "replace").decode()) is not None


@lru_cache(maxsize=64)
def regex(pattern: str) -> Regex:
    """Compile ``pattern``, or return it from a cache. Raises FilterError."""
    return Regex(pattern)
