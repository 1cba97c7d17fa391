# SPDX-License-Identifier: Apache-2.0
"""RE2 patterns, which take linear time for any expression and any text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

import re2

_MAX_MEMORY = 32 << 20


class Match(Protocol):
    """The interface shared by matches of ``re`` and RE2."""

    def __getitem__(self, group: int, /) -> str | None: ...
    def start(self, group: int = 0, /) -> int: ...
    def end(self, group: int = 0, /) -> int: ...


def compiled(pattern: str) -> re2._Regexp[str]:
    """Compile a pattern. Raises re2.error, or UnicodeEncodeError for half of a surrogate pair."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    return re2.compile(pattern, options)


def glob(pattern: str) -> str:
    """Translate a pattern in which ``*`` matches any text to a regular expression."""
    return "(?s)" + ".*".join(re2.escape(part) for part in pattern.split("*"))


class Pattern:
    """A built-in pattern, for texts of any length.

    Python's ``re`` is several times faster for short texts, whose length bounds its backtracking;
    longer texts are matched by RE2. Such patterns use only syntax with the same meaning in both.
    """

    _SHORT = 400

    def __init__(self, pattern: str) -> None:
        self._short = re.compile(pattern, re.ASCII)
        self._long = compiled(pattern)

    def finditer(self, text: str) -> Iterator[Match]:
        """Return all matches, from left to right."""
        if len(text) <= self._SHORT:
            return self._short.finditer(text)
        return self._long.finditer(text)
