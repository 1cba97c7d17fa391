# SPDX-License-Identifier: Apache-2.0
"""Match many expressions at once, trying only those whose keywords are in the text.

The public rules come from gitleaks, as data (``gitleaks/rules.json``);
``scripts/update_gitleaks_rules.py`` refreshes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import re2

from .re2_patterns import Match, compiled

if TYPE_CHECKING:
    from collections.abc import Mapping

PUBLIC_RULES_FILE = Path(__file__).with_name("gitleaks") / "rules.json"
_AFTER_NAME = r"(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)"
"""The part between a name and a value, in rules that require a name."""
_BEFORE_NAME = r"[\w.-]{0,50}?"
"""The beginning of these rules, which takes time and does not affect the group."""
_END = r"""(?:[\x60'"\s;]|\\[nr]|$)"""
"""The required end of a credential in source code; other texts may continue differently."""
_NO_LETTER, _NO_WORD = r"(?:[^A-Za-z0-9]|$)", r"(?:[^A-Za-z0-9_-]|$)"


@dataclass(frozen=True)
class FormatRule:
    """The format of one kind of credential."""

    name: str
    expression: str
    keywords: tuple[str, ...]
    """Expressions, case-insensitive; every text with a match contains one of them."""
    group: int | None = None
    """The group of the secret in a match; None for the first group that matched, or else the whole
    match."""
    needs_digit: bool = False
    """Whether a digit is required because ordinary words have the same format."""

    @classmethod
    def public(cls, rule: Mapping[str, object]) -> FormatRule:
        """Return a rule of the file, adapted to texts other than source code."""
        expression, keywords = str(rule["regex"]), rule["keywords"]
        assert isinstance(keywords, list)
        needs_name = _AFTER_NAME in expression
        if expression.endswith(_END):
            end = _NO_WORD if needs_name else _NO_LETTER
            expression = expression.removesuffix(_END) + end
        return cls(
            name=str(rule["id"]),
            expression=expression.replace(_BEFORE_NAME, "", 1),
            keywords=tuple(re2.escape(keyword) for keyword in keywords),
            group=int(str(rule["secretGroup"])) if "secretGroup" in rule else None,
            needs_digit=needs_name,
        )

    @cached_property
    def pattern(self) -> re2._Regexp[str]:
        """The expression, compiled on first use, as most are never needed."""
        return compiled(self.expression)

    @property
    def needs_name(self) -> bool:
        """Whether a value is only a credential because of the name beside it."""
        return _AFTER_NAME in self.expression

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield start and end of each secret found."""
        for match in self.pattern.finditer(text):
            start, end = self._secret(match)
            if not self.needs_digit or any(c.isdigit() for c in text[start:end]):
                yield start, end

    def _secret(self, match: Match) -> tuple[int, int]:
        group = self.group
        if group is None:
            groups = self.pattern.groups
            is_first = self.needs_name or self.expression.endswith(_NO_LETTER)
            # Otherwise, groups are parts of one credential.
            numbers = range(1, groups + 1) if is_first or groups == 1 else ()
            group = next((number for number in numbers if match[number]), 0)
        return match.start(group), match.end(group)


class Found(NamedTuple):
    """A secret's position in a text."""

    start: int
    end: int
    needs_name: bool


class RuleSet:
    """Rules that are applied together."""

    def __init__(self, rules: Iterable[FormatRule]) -> None:
        self._rules = tuple(rules)
        by_keyword: dict[str, list[int]] = {}
        for number, rule in enumerate(self._rules):
            for keyword in rule.keywords:
                by_keyword.setdefault(keyword, []).append(number)
        self._asked = list(by_keyword.values())
        options = re2.Options()
        options.case_sensitive = False
        options.log_errors = False
        self._keywords = re2.Set.SearchSet(options)
        for keyword in by_keyword:
            self._keywords.Add(keyword)
        self._keywords.Compile()

    def find(self, text: str) -> list[Found]:
        """Return all secrets from left to right; overlapping secrets are merged."""
        hits = self._keywords.Match(text)
        if not hits:
            return []
        rule_numbers = {number for hit in hits for number in self._asked[hit]}
        found = sorted(
            Found(start, end, self._rules[number].needs_name)
            for number in rule_numbers
            for start, end in self._rules[number].spans(text)
        )
        merged: list[Found] = []
        for each in found:
            if merged and each.start < merged[-1].end:
                last = merged.pop()
                each = Found(
                    last.start, max(last.end, each.end), last.needs_name and each.needs_name
                )
            merged.append(each)
        return merged


@lru_cache(maxsize=1)
def public_rules() -> tuple[FormatRule, ...]:
    """Return those rules of gitleaks that are used."""
    document = json.loads(PUBLIC_RULES_FILE.read_text("utf-8"))
    return tuple(FormatRule.public(rule) for rule in document["rules"])
