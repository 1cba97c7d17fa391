# SPDX-License-Identifier: Apache-2.0
"""Matchers: tags in place of values in a golden, and the values that they accept.

======================  =========================================================================
``!regex '^a+$'``       a string or number whose text contains the RE2 pattern (anchor it to match
                        all)
``!tolerance 512 ±10%`` an integer, or a string that is one, within 10 % of the expected value;
                        ``±5`` is an absolute margin; ``+-`` and ``+/-`` are accepted, too
``!present``            any value, but not a missing one
``!ignored``            any value or none
======================  =========================================================================
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from nri_scope.errors import FilterError, UsageError, did_you_mean
from nri_scope.filter.text_comparison import regex
from nri_scope.nri.plain import Plain

MAX_PATTERN = 4_096
"""Maximum length of a pattern in characters, to limit the time; RE2 limits the memory."""

_TOLERANCE = re.compile(
    r"\s*(-?[0-9]{1,20})\s*(?:±|\+-|\+/-)\s*([0-9]{1,20}(?:\.[0-9]{1,9})?)\s*(%?)\s*", re.ASCII
)
_INTEGER = re.compile(r"-?[0-9]{1,20}", re.ASCII)


@dataclass(frozen=True, slots=True)
class RegexMatcher:
    """RE2 pattern that is searched in the text."""

    pattern: str
    tag = "!regex"

    @property
    def argument(self) -> str:
        """The text after the tag."""
        return self.pattern

    def accepts(self, value: Plain) -> bool:
        """Return whether ``value`` matches; None is a missing value."""
        if isinstance(value, bool) or not isinstance(value, str | int):
            return False
        return regex(self.pattern).search(str(value))


@dataclass(frozen=True, slots=True)
class Tolerance:
    """An integer that differs from ``expected`` by at most ``margin``, or ``margin`` per cent."""

    expected: int
    margin: str
    percent: bool
    tag = "!tolerance"

    @property
    def argument(self) -> str:
        """The text after the tag."""
        return f"{self.expected} ±{self.margin}{'%' * self.percent}"

    def accepts(self, value: Plain) -> bool:
        """Return whether ``value`` matches; None is a missing value."""
        if isinstance(value, str) and _INTEGER.fullmatch(value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            return False
        margin = Fraction(self.margin)
        if self.percent:
            margin *= Fraction(abs(self.expected), 100)
        return abs(value - self.expected) <= margin


@dataclass(frozen=True, slots=True)
class Present:
    """Any value that exists."""

    tag = "!present"
    argument = ""

    def accepts(self, value: Plain) -> bool:
        """Return whether ``value`` matches; None is a missing value."""
        return value is not None


@dataclass(frozen=True, slots=True)
class Ignored:
    """Any value, or none."""

    tag = "!ignored"
    argument = ""

    def accepts(self, value: Plain) -> bool:
        """Return True."""
        return True


Matcher = RegexMatcher | Tolerance | Present | Ignored

Expected = None | bool | int | float | str | Matcher | list["Expected"] | dict[str, "Expected"]
"""A plain value that may contain matchers; None for an absent value."""

_TAGS = (RegexMatcher.tag, Tolerance.tag, Present.tag, Ignored.tag)


def parse_matcher(tag: str, argument: str) -> Matcher:
    """Return the matcher written as ``tag argument``. Raises UsageError for an unknown one."""
    if tag == RegexMatcher.tag:
        return _regex(argument)
    if tag == Tolerance.tag:
        parsed = _TOLERANCE.fullmatch(argument)
        if parsed is None:
            raise UsageError(
                f"!tolerance {argument[:80]!r} is invalid", "write !tolerance 512 ±10%"
            )
        return Tolerance(int(parsed[1]), parsed[2], bool(parsed[3]))
    if tag in (Present.tag, Ignored.tag):
        if argument:
            raise UsageError(f"{tag} takes no value, got {argument[:80]!r}")
        return Present() if tag == Present.tag else Ignored()
    hint = did_you_mean(tag[:20], _TAGS, cutoff=0.5) or f"matchers are {', '.join(_TAGS)}"
    if tag.rstrip(",") in _TAGS:
        hint = "put a space after a matcher"
    raise UsageError(f"unknown matcher {tag[:80]!r}", hint)


def _regex(pattern: str) -> RegexMatcher:
    if not pattern:
        raise UsageError("!regex has no pattern", "for any value, write !present")
    if len(pattern) > MAX_PATTERN:
        raise UsageError(
            f"!regex: {len(pattern)} characters are too long", f"the maximum is {MAX_PATTERN}"
        )
    try:
        regex(pattern)
    except FilterError as error:
        raise UsageError(f"!regex {pattern[:80]!r}: {error.problem}") from None
    return RegexMatcher(pattern)
