# SPDX-License-Identifier: Apache-2.0
"""Logic of the filter bar: errors and completions of a filter, named views, history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from nri_scope.errors import FilterError
from nri_scope.filter import FIELDS, Filter, TimeSpan, parse
from nri_scope.filter.fields import BY_NAME
from nri_scope.filter.tree import Or, quote

VIEWS: Mapping[str, str] = MappingProxyType(
    {"errors": "problem:failed", "changed": "changed:~.", "slow": "problem:slow OR took:>1ms"}
)
"""Named views: filters toggled by one key."""

_VALUES_MAX = 500
"""Maximum number of completions for the value of a field."""

Values = Mapping[str, Sequence[str]]
"""Values that occur in a recording, by field."""


@dataclass(frozen=True, slots=True)
class FilterCheck:
    """Result of `check`."""

    filter: Filter | None
    """The parsed filter; None if it is invalid."""
    problem: str = ""
    """The error and the remedy, in one line."""
    position: int = 0
    """Offset of the error in the text."""


def check(text: str, span: TimeSpan | None = None) -> FilterCheck:
    """Parse a filter for a recording while it is typed. Never raises."""
    try:
        return FilterCheck(parse(text, span))
    except FilterError as error:
        problem = f"{error.problem}; {error.hint}" if error.hint else error.problem
        return FilterCheck(None, problem, error.position)


@dataclass(frozen=True, slots=True)
class Completion:
    """Alternative replacements for ``text[start:end]``."""

    start: int
    end: int
    options: tuple[str, ...]


def complete(text: str, cursor: int, values: Values) -> Completion:
    """Return completions of the word at ``cursor``: field names, or values of its field."""
    start = _word_start(text, cursor)
    while start < cursor and text[start] in "-(":
        start += 1
    name, colon, value = text[start:cursor].partition(":")
    if not colon:
        names = [f"{field.name}:" for field in FIELDS if field.name.startswith(name.lower())]
        return Completion(start, cursor, tuple(names))
    start += len(name) + 1
    typed = value.lstrip("\"'").lower()
    known = [each for each in _known(name.lower(), values) if typed in each.lower()]
    # Values that begin with the typed text come first; sorting is stable.
    known.sort(key=lambda each: not each.lower().startswith(typed))
    return Completion(start, cursor, tuple(quote(each) for each in known[:_VALUES_MAX]))


def _known(field: str, values: Values) -> Sequence[str]:
    found = values.get(field, ())
    return found or BY_NAME[field].known if field in BY_NAME else found


def _word_start(text: str, cursor: int) -> int:
    """Return the start of the word that ends at ``cursor``; quotes may contain blanks."""
    start, quoted = 0, ""
    for at, char in enumerate(text[:cursor]):
        if quoted:
            quoted = "" if char == quoted else quoted
        elif char in "\"'":
            quoted = char
        elif char.isspace():
            start = at + 1
    return start


def narrowed(text: str, added: str, *, out: bool = False) -> str:
    """Return a filter that requires ``text`` and ``added``, or, with ``out``, not ``added``.

    Raises FilterError.
    """
    more = added
    if out:
        more = f"-({added})" if " " in added else f"-{added}"
    root = parse(text).root
    if not text.strip():
        return more
    if f" {more} " in f" {text} ":
        return text
    return f"({text}) {more}" if isinstance(root, Or) else f"{text.strip()} {more}"


class TypedHistory:
    """History of typed texts, the newest last, and the current draft."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._at = 0
        self._draft = ""

    def add(self, text: str) -> None:
        """Add ``text`` as the newest, and go to the end of the history."""
        if text.strip():
            self._texts = [each for each in self._texts if each != text] + [text]
        self._at = len(self._texts)

    def older(self, current: str) -> str:
        """Return the previous text; at the end of the history, save ``current`` as the draft."""
        if self._at == len(self._texts):
            self._draft = current
        self._at = max(0, self._at - 1)
        return self._texts[self._at] if self._texts else current

    def newer(self, current: str) -> str:
        """Return the next text, and after the newest one the draft."""
        if self._at >= len(self._texts):
            return current
        self._at += 1
        return self._texts[self._at] if self._at < len(self._texts) else self._draft
