# SPDX-License-Identifier: Apache-2.0
"""What was replaced so far, and replacing it wherever it is met."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

import re2

from nri_scope.recorder.redaction.patterns import compiled
from nri_scope.recorder.redaction.tokens import HOST, MAIL, MARK, PLAIN, Tokens, is_token
from nri_scope.recorder.redaction.words import words

SECRET_MIN, PRIVATE_MIN = 6, 8
"""Characters from which on a credential, or any other value, does not stand somewhere by chance."""
_CHUNK = 256
_FRESH = 32
# A stranger's recording may have any number of variables.
_MOST = 200_000

_DIGITS = re.compile(r"[0-9a-fA-F]{1,15}")
_WORD = re.compile(r"[a-z]{1,14}|[A-Z]{1,14}|[A-Z][a-z]{1,13}")
_NAME = re.compile(r"[a-z][a-z-]{0,30}")
_COMMON = words(
    "changeme default development disabled enabled example kubernetes localhost password "
    "placeholder production redacted required secret staging test undefined unknown"
)


class Original(NamedTuple):
    """A value that was replaced."""

    value: str
    token: str
    rule: str
    is_searchable: bool
    """Whether the value, met anywhere, means a leak: it is neither so short nor so common that it
    may stand somewhere by chance, nor a name that the rules leave visible. Such a one is replaced
    wherever it occurs, any other in its place (a few also where they stand as a word).
    """


class Strength(IntEnum):
    """How sure it is that a value is secret."""

    PRIVATE = 0
    """It may be anything; nobody said that it can be shown."""
    NAME = 1
    """A name that is not to be shown."""
    SECRET = 2
    """It is a credential, by its key or its form."""


class _Reach(IntEnum):
    """Where an original is replaced."""

    PLACE = 0
    """Where a rule says so, and nowhere else."""
    WORD = 1
    """Also wherever it stands with no letter or digit beside it."""
    ANYWHERE = 2


class Known:
    """Originals with their tokens, and the names that are shown."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._rules: dict[str, tuple[str, Strength]] = {}
        self._visible: set[str] = set()
        self._shown = "\n"
        self.generation = 0
        """Another one means that texts may be replaced that were not before, or no longer."""
        self._noted: dict[str, _Reach] = {}
        self._settled: list[re2._Regexp[str]] = []
        self._fresh: list[str] = []
        self._words: list[str] = []
        self._patterns: tuple[re2._Regexp[str], ...] | None = None

    # -- what is known ----------------------------------------------------------------------

    def add(self, value: str, rule: str, strength: Strength) -> str:
        """Remember an original; returns its token."""
        before = self._rules.get(value)
        if before is None and len(self._rules) >= _MOST:
            return self._tokens.of(value)
        if before is None or before[1] < strength:
            self._rules[value] = (rule, strength)
            reach = self._reach(value, strength)
            if reach is not self._noted.get(value, _Reach.PLACE):
                self._note(value, reach)
        return self._tokens.of(value)

    def show(self, name: str) -> None:
        """``name`` stays visible: no other value that is a part of it gives it away."""
        if not name or name in self._visible or is_token(name):
            return
        self._visible.add(name)
        self._shown += name + "\n"
        if any(
            value in name and self._reach(value, self._rules[value][1]) is not reach
            for value, reach in self._noted.items()
        ):
            # Rare: a value was met before the name of which it is a part.
            self._rebuild()

    def is_shown(self, value: str) -> bool:
        """Whether ``value`` is a visible name or a part of one."""
        return value in self._visible or (len(value) > 2 and value in self._shown)

    def originals(self) -> Iterator[Original]:
        """Everything that was added."""
        for value, (rule, strength) in self._rules.items():
            searchable = self._reach(value, strength) is _Reach.ANYWHERE
            yield Original(value, self._tokens.of(value), rule, searchable)

    def _reach(self, value: str, strength: Strength) -> _Reach:
        if value in _COMMON or value in MARK or value in HOST or value in MAIL:
            return _Reach.PLACE
        least = SECRET_MIN if strength is Strength.SECRET else PRIVATE_MIN
        if len(value) < least:
            return _Reach.WORD if strength is Strength.NAME else _Reach.PLACE
        if strength is Strength.NAME:
            return _Reach.ANYWHERE if not _DIGITS.fullmatch(value) else _Reach.WORD
        if strength is Strength.PRIVATE and (_WORD.fullmatch(value) or self.is_shown(value)):
            return _Reach.PLACE
        if _NAME.fullmatch(value) and self.is_shown(value):
            return _Reach.PLACE
        # Ids and times are full of these.
        return _Reach.WORD if _DIGITS.fullmatch(value) else _Reach.ANYWHERE

    # -- replacing it -----------------------------------------------------------------------

    def replace(self, text: str) -> tuple[str, list[str]]:
        """``text`` with the tokens of what is known in it, and the rule of each."""
        rules: list[str] = []
        if not self._noted or len(text) < 2:
            return text, rules

        def anywhere(match: re2._Match[str]) -> str:
            found = match[0] or ""
            # The first alternative is a token, which is left alone whatever seems to be in it.
            if found not in self._rules or match[1] is not None:
                return found
            rules.append(self._rules[found][0])
            return self._tokens.of(found)

        def word(match: re2._Match[str]) -> str:
            found = match[3]
            after = match.string[match.end() : match.end() + 1]
            if found is None or after.isalnum():
                return match[0] or ""
            rules.append(self._rules[found][0])
            return (match[2] or "") + self._tokens.of(found)

        patterns = self._patterns
        if patterns is None:
            patterns = self._patterns = self._compiled()
        for pattern in patterns:
            if pattern.search(text) is not None:
                text = pattern.sub(word if pattern.groups == 3 else anywhere, text)
        return text, rules

    def _note(self, value: str, reach: _Reach) -> None:
        if reach is _Reach.PLACE:
            return
        self._noted[value] = reach
        (self._words if reach is _Reach.WORD else self._fresh).append(value)
        self.generation += 1
        self._patterns = None

    def _rebuild(self) -> None:
        self._settled, self._fresh, self._words = [], [], []
        self._noted = {}
        self.generation += 1
        self._patterns = None
        for value, (_, strength) in self._rules.items():
            self._note(value, self._reach(value, strength))

    def _compiled(self) -> tuple[re2._Regexp[str], ...]:
        # Few are new while recording: those of long ago are not compiled again.
        while len(self._fresh) >= _FRESH:
            chunk, self._fresh = self._fresh[:_CHUNK], self._fresh[_CHUNK:]
            self._settled.append(_anywhere(chunk))
        patterns = [*self._settled]
        if self._fresh:
            patterns.append(_anywhere(self._fresh))
        for start in range(0, len(self._words), _CHUNK):
            patterns.append(_words(self._words[start : start + _CHUNK]))
        return tuple(patterns)


def _alternatives(values: list[str]) -> str:
    # Of two that begin alike the longer one.
    return "|".join(re2.escape(value) for value in sorted(values, key=len, reverse=True))


def _anywhere(values: list[str]) -> re2._Regexp[str]:
    return compiled(f"({PLAIN})|{_alternatives(values)}")


def _words(values: list[str]) -> re2._Regexp[str]:
    return compiled(f"({PLAIN})|(^|[^A-Za-z0-9])({_alternatives(values)})")
