# SPDX-License-Identifier: Apache-2.0
"""Remember replaced values, and replace them wherever they occur."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from enum import IntEnum
from heapq import heappop, heappush
from itertools import islice
from typing import NamedTuple

from nri_scope.errors import UsageError
from nri_scope.recording.cache import RecentlyUsed

from .limits import REMEDY, VALUE, Memory, RedactionBudget
from .longest_prefix import PrefixIndex
from .tokens import (
    HOST_SUFFIX,
    MAIL_SUFFIX,
    NAMES_SCOPE,
    PLAIN_TOKEN,
    TOKEN_PREFIX,
    Tokens,
    is_token,
)
from .value_encodings import base64_words, text_forms
from .value_owners import ValueOwners
from .visible_names import VisibleNames
from .word_lists import words

SECRET_MIN, PRIVATE_MIN, NAME_MIN = 6, 8, 3
"""Minimum lengths at which a credential, and any other value, does not occur elsewhere by chance;
and the minimum length at which a name is replaced where it occurs as a word."""
_GRAM = SECRET_MIN
_LONG_LENGTH = 1024
"""Length in characters above which a value is searched for individually."""
_MAX_ENCODED = 16_384
"""Length in characters up to which a value is also searched for in encoded forms."""
_MAX_NEW = 100
_MAX_NESTED = 8
"""Maximum number of values, each a prefix of the next one, that are checked one by one."""
_MAX_POD_NAMES = 65_536
"""Maximum number of characters of visible names kept for one pod."""
_MAX_ALL_NAMES = 16 << 20
"""Maximum number of characters of visible names kept for all pods."""

_MAX_SEARCHED = 65_536
"""Maximum number of characters of a name that is searched for known values."""

_RUN = re.compile(r"[A-Za-z0-9]+")
_TOKEN = re.compile(PLAIN_TOKEN)
_DIGITS = re.compile(r"[0-9a-fA-F]{1,15}")
_WORD = re.compile(r"[a-z]{1,14}|[A-Z]{1,14}|[A-Z][a-z]{1,13}")
_ASSIGNMENT = re.compile(r"[A-Za-z_]{1,30}=")
_NAME = re.compile(r"[a-z][a-z-]{0,30}")
_COMMON_WORDS = words(
    "changeme default development disabled enabled example kubernetes localhost password "
    "placeholder production redacted required secret staging test undefined unknown"
)


class Original(NamedTuple):
    """A value that was replaced."""

    value: str
    rule: str
    is_searchable: bool
    """Whether the value is a leak wherever it is found: it is neither so short nor so common that
    it may occur by chance, nor a name that the rules leave visible. Such a value is replaced
    wherever it occurs, any other value only in its place (a few also where they occur as a word).
    """


class Strength(IntEnum):
    """How certain it is that a value is secret."""

    PLAIN = -1
    """Secret in its place; elsewhere, the value would be an ordinary number or word."""
    PRIVATE = 0
    """Unknown content; no rule allows showing the value."""
    NAME = 1
    """A name that must not be shown."""
    SECRET = 2
    """A credential, recognized by its key or its form."""


class _Reach(IntEnum):
    """The places in which an original is replaced."""

    PLACE = 0
    """Only where a rule finds the value."""
    PACKED = 1
    """Also where the value's base64 is not adjacent to a letter or digit."""
    WORD = 2
    """Also where the value or its base64 is not adjacent to a letter or digit."""
    ANYWHERE = 3


class KnownValues:
    """Originals with their tokens, and the names that stay visible.

    `ValueOwners` decides in which pods a value is replaced. Tokens belong to `Tokens.scope`, except
    for those of names, which are the same everywhere.
    """

    def __init__(self, tokens: Tokens, memory: Memory, work: RedactionBudget | None = None) -> None:
        """Start without values. ``work`` limits adding; by default there is no limit."""
        self._work = work or RedactionBudget()
        self._tokens = tokens
        self._memory = memory
        self._characters = 0
        self.is_full = False
        """Whether some value could not be remembered."""
        self._rules: dict[str, tuple[str, Strength]] = {}
        self._visible = VisibleNames(memory.shown)
        self._own: RecentlyUsed[str, str] = RecentlyUsed(memory.shown or _MAX_ALL_NAMES)
        self._names: set[str] = set()
        self.owners = ValueOwners(memory.values)
        self.epoch = 0
        """A number that changes when texts that were replaced before may now stay visible."""
        self.count = 0
        """Number of values replaced outside of their places; only grows within an epoch."""
        self._noted: dict[str, _Reach] = {}
        # Encoded forms, each with the original value.
        self._plain: dict[str, str] = {}
        # All values and forms in the order of addition.
        self._numbers: dict[str, int] = {}
        # By first characters; long values separately.
        self._short = PrefixIndex(_GRAM)
        self._long: dict[str, set[str]] = {}
        # By the first run of letters and digits, then by the run's offset and length.
        self._by_run: dict[str, dict[tuple[int, int], set[str]]] = {}

    # -- known values -----------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._rules)

    def add(self, value: str, rule: str, strength: Strength) -> str:
        """Remember an original; return its token."""
        scope = NAMES_SCOPE if strength is Strength.NAME else None
        before = self._rules.get(value)
        if before is None:
            memory = self._memory
            if len(self) >= memory.values or self._characters >= memory.characters:
                self._fill()
                return self._tokens.token_for(value, scope)
            self._work.spend(VALUE + len(value))
            self._characters += len(value)
        if (
            strength is not Strength.NAME
            and not self.owners.has(value)
            and self._reach(value, strength) is not _Reach.PLACE
        ):
            self.owners.add(value)
        if before is None or before[1] < strength:
            self._rules[value] = (rule, strength)
            if strength is Strength.NAME:
                self._names.add(value)
            reach = self._reach(value, strength)
            if reach is not self._noted.get(value, _Reach.PLACE):
                self._note(value, reach)
        return self._tokens.token_for(value, scope)

    def _fill(self) -> None:
        self.is_full = True
        if self._work.is_limited:
            # Fail early instead of after all the work.
            self.check_remembered()

    def check_remembered(self) -> None:
        """Raise UsageError if not all values are remembered, as leaks could go unnoticed."""
        if self.is_full:
            raise UsageError(
                "too many different values to replace: the output could not be checked for "
                "all of them",
                f"{REMEDY}, or add rules that keep values which are not secret",
            )

    def mark_visible(self, name: str, pod: str = "") -> None:
        """Keep ``name`` visible: replace ordinary values inside it only in their own places.

        ``pod`` is the id of the pod with that name; "": a name of all pods.
        """
        if not name or is_token(name) or self.is_marked_visible(name, pod):
            return
        if self._names and len(name) <= _MAX_SEARCHED:
            # The part of a label that repeats a replaced name is not visible.
            name = self._without_names(name)
            if is_token(name) or self.is_marked_visible(name, pod):
                return
        own = self._own.get(pod) or "\n"
        if len(own) + len(name) < _MAX_POD_NAMES:
            self._own.put(pod, f"{own}{name}\n", len(own) + len(name) + 1)
        if name in self._visible:
            return
        self._visible.add(name)
        if len(name) > _MAX_SEARCHED:
            return
        changed = False
        for part in {self._plain.get(part, part) for part in self._parts(name)}:
            if self._reach(part, self._rules[part][1]) is not self._noted[part]:
                # Rare: the value was found before the name that contains it.
                self._forget(part)
                changed = True
        if changed:
            self.epoch += 1
            self._numbers = {one: pos for pos, one in enumerate((*self._noted, *self._plain))}
            self.count = len(self._numbers)

    def is_marked_visible(self, name: str, pod: str) -> bool:
        """Return whether `mark_visible` was called with this exact name for this pod."""
        return name in self._visible and f"\n{name}\n" in (self._own.get(pod) or "")

    def is_visible(self, value: str, pod: str) -> bool:
        """Return whether ``value`` is a visible name of this pod or of all pods, or part of one.

        Names of other pods do not count: their owners may have chosen them to find out whether a
        value is then shown.
        """
        own = self._own.get(pod)
        return own is not None and (value if len(value) > 2 else f"\n{value}\n") in own

    def _is_visible_anywhere(self, value: str) -> bool:
        """Return whether ``value`` is a visible name of any pod, or part of one."""
        return value in self._visible or (len(value) > 2 and self._visible.have_part(value))

    def is_known(self, value: str, strength: Strength) -> bool:
        """Return whether the value was added for this pod, with at least this strength."""
        known = self._rules.get(value)
        return known is not None and known[1] >= strength and self.owners.has(value)

    def originals(self) -> Iterator[Original]:
        """Yield all values that were added."""
        left = self.owners.skipped_values()
        for value, (rule, strength) in self._rules.items():
            searchable = self._reach(value, strength) is _Reach.ANYWHERE and value not in left
            yield Original(value, rule, searchable)

    def _reach(self, value: str, strength: Strength) -> _Reach:
        bare = value.strip()
        if (
            bare in TOKEN_PREFIX
            or bare in HOST_SUFFIX
            or bare in MAIL_SUFFIX
            or _TOKEN.search(value)
        ):
            # A part of a token, or a partly redacted text, which does not occur in the original.
            return _Reach.PLACE
        if _ASSIGNMENT.fullmatch(value):
            # ``NAME=``, with which every assignment to that variable begins.
            return _Reach.PLACE
        if strength is Strength.PLAIN:
            return _Reach.PLACE
        length = len(value)
        if strength is Strength.NAME:
            if length < NAME_MIN:
                return _Reach.PLACE
            is_long = length >= PRIVATE_MIN and not _DIGITS.fullmatch(value)
            return _Reach.ANYWHERE if is_long else _Reach.WORD
        if value in _COMMON_WORDS:
            return _Reach.PLACE
        if strength is Strength.PRIVATE:
            if length < PRIVATE_MIN or _WORD.fullmatch(value) or self._is_visible_anywhere(value):
                return _Reach.PLACE
        elif length < SECRET_MIN:
            if length < 4:
                return _Reach.PLACE
            return _Reach.PACKED if _WORD.fullmatch(value) else _Reach.WORD
        elif _NAME.fullmatch(value) and self._is_visible_anywhere(value):
            return _Reach.PLACE
        # Ids and times often contain these digits.
        return _Reach.WORD if _DIGITS.fullmatch(value) else _Reach.ANYWHERE

    # -- replacing values -------------------------------------------------------------------

    @property
    def progress(self) -> tuple[int, int, int]:
        """Return numbers that change when a text may have to be redacted again."""
        return self.count, self.owners.added, self.epoch

    def has_new(self, text: str, since: int) -> bool:
        """Return whether ``text`` may contain a value added after the first ``since``.

        Also True if checking would take long.
        """
        fresh = self.count - since
        if not fresh:
            return False
        if fresh <= _MAX_NEW:
            return any(value in text for value in islice(reversed(self._numbers), fresh))
        numbers = self._numbers
        if any(numbers[value] >= since for _, value in self._as_words(text)):
            return True
        for start in self._starts(text):
            if text[start : start + _GRAM] in self._long:
                return True
            limit = len(text)
            for _ in range(_MAX_NESTED):
                value = self._short.longest_at(text, start, limit)
                if not value:
                    break
                if numbers[value] >= since:
                    return True
                limit = start + len(value) - 1
            else:
                return True
        return False

    def replace(self, text: str) -> tuple[str, list[str]]:
        """Return ``text`` with tokens in place of known values, and the rules of these values."""
        rules: list[str] = []
        if self._numbers and len(text) > 1:
            spans = self._spans(text)
            if spans:
                pieces: list[str] = []
                pos = 0
                for start, value in spans:
                    plain = self._plain.get(value, value)
                    pieces += text[pos:start], self._token(plain)
                    rules.append(self._rules[plain][0])
                    pos = start + len(value)
                return "".join((*pieces, text[pos:])), rules
        return text, rules

    def _without_names(self, text: str) -> str:
        pieces: list[str] = []
        pos = 0
        for start, value in self._spans(text, of_all=True):
            plain = self._plain.get(value, value)
            if self._rules[plain][1] is Strength.NAME:
                pieces += text[pos:start], self._token(plain)
                pos = start + len(value)
        return "".join((*pieces, text[pos:]))

    def _token(self, value: str) -> str:
        return self._tokens.token_for(value, NAMES_SCOPE if value in self._names else None)

    def _may_replace(self, value: str) -> bool:
        """Return whether ``value``, or the original of a form, may be replaced in this pod."""
        plain = self._plain.get(value, value)
        return plain in self._names or self.owners.may_replace(plain)

    def _spans(self, text: str, *, of_all: bool = False) -> list[tuple[int, str]]:
        """Return start and text of known values, without overlaps: the first one wins, and the
        longest of several with the same start. ``of_all``: include values of other pods.
        """
        starts = self._starts(text)
        words: dict[int, list[str]] = defaultdict(list)
        for start, value in self._as_words(text):
            words[start].append(value)
        if words:
            starts = sorted({*starts, *words})
        if not starts:
            return []
        # Tokens are never changed, even if they appear to contain a value.
        taken = [match.span() for match in _TOKEN.finditer(text)] if TOKEN_PREFIX in text else []
        ends = [end for _, end in taken]
        long = _LongValueSearch(self._long, text)
        spans: list[tuple[int, str]] = []
        until = 0
        for start in starts:
            if start < until:
                continue
            limit = len(text)
            after = bisect_right(ends, start)
            if after < len(taken):
                limit = taken[after][0]
                if limit <= start:
                    continue
            value = self._longest_at(text, start, limit, long)
            while value and not (of_all or self._may_replace(value)):
                value = self._longest_at(text, start, start + len(value) - 1, long)
            for word in words.get(start, ()):
                is_longer = start + len(word) <= limit and len(word) > len(value)
                if is_longer and (of_all or self._may_replace(word)):
                    value = word
            if value:
                spans.append((start, value))
                until = start + len(value)
        return spans

    def _starts(self, text: str) -> list[int]:
        short, long = self._short.of, self._long
        if not (short or long) or len(text) < _GRAM:
            return []
        grams = short.keys() | long.keys() if long else short
        return [pos for pos in range(len(text) - _GRAM + 1) if text[pos : pos + _GRAM] in grams]

    def _longest_at(self, text: str, start: int, limit: int, long: _LongValueSearch) -> str:
        gram = text[start : start + _GRAM]
        if gram in self._long:
            value = long.longest_at(start, limit, gram)
            if value:
                return value
        return self._short.longest_at(text, start, limit)

    def _parts(self, name: str) -> set[str]:
        """Return all known values in ``name``."""
        found = {value for _, value in self._as_words(name)}
        for start in self._starts(name):
            gram = name[start : start + _GRAM]
            found.update(
                value for value in self._long.get(gram, ()) if name.startswith(value, start)
            )
            limit = len(name)
            while value := self._short.longest_at(name, start, limit):
                found.add(value)
                limit = start + len(value) - 1
        return found

    def _as_words(self, text: str) -> list[tuple[int, str]]:
        index = self._by_run
        if not index:
            return []
        found: list[tuple[int, str]] = []
        for run in _RUN.finditer(text):
            for (offset, length), values in index.get(run[0], _NO_RUNS).items():
                start = run.start() - offset
                end = start + length
                if (
                    start >= 0
                    and (value := text[start:end]) in values
                    and not text[end : end + 1].isalnum()
                    and not (start and text[start - 1].isalnum() and value[0].isalnum())
                ):
                    found.append((start, value))
        return found

    def _note(self, value: str, reach: _Reach) -> None:
        if reach is _Reach.PLACE:
            return
        if value in self._noted:
            # The value was replaced only as a word so far.
            self._forget(value)
        if value in self._plain:
            # The value was known only as an encoded form of another value so far.
            original = self._plain.pop(value)
            self._unindex(value, max(self._noted[original], _Reach.WORD))
        self._noted[value] = reach
        if reach is _Reach.PACKED:
            reach = _Reach.WORD
        else:
            self._index(value, reach)
        for form in self._forms(value, reach):
            if len(form) >= _GRAM and form not in self._noted and form not in self._plain:
                self._plain[form] = value
                self._index(form, reach)

    def _forms(self, value: str, reach: _Reach) -> set[str]:
        if reach is _Reach.WORD:
            is_name = value in self._names or _DIGITS.fullmatch(value) is not None
            return set() if is_name else base64_words(value)
        return text_forms(value) if len(value) <= _MAX_ENCODED else set()

    def _index(self, value: str, reach: _Reach) -> None:
        self._numbers.pop(value, None)
        self._numbers[value] = self.count
        self.count += 1
        gram = value[:_GRAM]
        if reach is _Reach.WORD:
            run = _RUN.search(value)
            if run is not None:
                self._by_run.setdefault(run[0], {}).setdefault(
                    (run.start(), len(value)), set()
                ).add(value)
        elif len(value) > _LONG_LENGTH:
            self._long.setdefault(gram, set()).add(value)
        else:
            self._short.add(value)

    def _forget(self, value: str) -> None:
        reach = self._noted.pop(value)
        if reach is _Reach.PACKED:
            reach = _Reach.WORD
        else:
            self._unindex(value, reach)
        for form in self._forms(value, reach):
            if self._plain.get(form) == value:
                del self._plain[form]
                self._unindex(form, reach)

    def _unindex(self, value: str, reach: _Reach) -> None:
        gram = value[:_GRAM]
        if reach is _Reach.WORD:
            run = _RUN.search(value)
            if run is not None:
                self._by_run[run[0]][run.start(), len(value)].discard(value)
        elif len(value) > _LONG_LENGTH:
            self._long[gram].discard(value)
        else:
            self._short.remove(value)


_NO_RUNS: dict[tuple[int, int], set[str]] = {}


class _LongValueSearch:
    """Finds the next occurrences of long values in a text read from left to right."""

    def __init__(self, values: dict[str, set[str]], text: str) -> None:
        self._values = values
        self._text = text
        self._begun: set[str] = set()
        self._next: list[tuple[int, int, str]] = []

    def longest_at(self, start: int, limit: int, gram: str) -> str:
        """Return the longest value at ``start`` that ends by ``limit``, or ""."""
        if gram not in self._begun:
            self._begun.add(gram)
            for value in self._values[gram]:
                self._look(value, start)
        upcoming = self._next
        while upcoming and upcoming[0][0] <= start:
            pos, length, value = upcoming[0]
            if pos == start and pos - length <= limit:
                return value
            heappop(upcoming)
            self._look(value, start if pos < start else start + 1)
        return ""

    def _look(self, value: str, start: int) -> None:
        pos = self._text.find(value, start)
        if pos >= 0:
            heappush(self._next, (pos, -len(value), value))
