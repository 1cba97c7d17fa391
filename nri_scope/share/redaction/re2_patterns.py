# SPDX-License-Identifier: Apache-2.0
"""Patterns of RE2, which take linear time whatever they are and whatever the text is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

import re2

_MAX_MEMORY = 32 << 20


class Match(Protocol):
    """What a match of either kind can tell."""

    def __getitem__(self, group: int, /) -> str | None: ...
    def start(self, group: int = 0, /) -> int: ...
    def end(self, group: int = 0, /) -> int: ...


def compiled(pattern: str) -> re2._Regexp[str]:
    """The pattern. Raises re2.error, or UnicodeEncodeError for half of a surrogate pair."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    return re2.compile(pattern, options)


def glob(pattern: str) -> str:
    """A pattern that matches as a whole what ``pattern`` does, where ``*`` is anything."""
    return "(?s)" + ".*".join(re2.escape(part) for part in pattern.split("*"))


class Pattern:
    """One of our own patterns, for texts of any length.

    Python's ``re`` is several times faster where a text is short, and there what it may try in
    vain is bounded; all else goes to RE2. Written in what both understand alike.
    """

    _SHORT = 400

    def __init__(self, pattern: str) -> None:
        self._short = re.compile(pattern, re.ASCII)
        self._long = compiled(pattern)

    def finditer(self, text: str) -> Iterator[Match]:
        """All matches, from left to right."""
        if len(text) <= self._SHORT:
            return self._short.finditer(text)
        return self._long.finditer(text)

    def is_in(self, text: str) -> bool:
        """Whether there is a match."""
        if len(text) <= self._SHORT:
            return self._short.search(text) is not None
        return self._long.search(text) is not None
