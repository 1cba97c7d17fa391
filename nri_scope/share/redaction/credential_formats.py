# SPDX-License-Identifier: Apache-2.0
"""Find credentials by format, with public rules and additional rules.

Many expressions are matched at once, trying only those whose keywords are in the text. The public
rules come from gitleaks, as data (``gitleaks/rules.json``); ``scripts/update_gitleaks_rules.py``
refreshes them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import re2

from .known_values import Strength
from .re2_patterns import Match, compiled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .engine import Engine


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


_MIN_LENGTH = 16
_REST = re.compile(r"[A-Za-z0-9_-]*={0,2}")


def _rule(name: str, keywords: str, *expressions: str, needs_digit: bool = False) -> FormatRule:
    return FormatRule(
        name,
        "|".join(f"(?:{expression})" for expression in expressions),
        tuple(keywords.split()),
        group=0,
        needs_digit=needs_digit,
    )


_KEY_BLOCK = r"[A-Za-z0-9 ]*(?:PRIVATE KEY(?: BLOCK)?|Static key V1)-----"
OWN_RULES = (
    # Up to the end of the text if the end mark is missing.
    _rule(
        "private-key", "-----BEGIN", rf"(?s)-----BEGIN {_KEY_BLOCK}.*?(?:-----END {_KEY_BLOCK}|$)"
    ),
    # Signed tokens have three parts; encrypted tokens have five, the second of which may be empty.
    _rule("json-web-token", "eyJ", r"eyJ[\w=-]{8,}\.[\w=-]*\.[\w=-]*(?:\.[\w=-]+){0,2}"),
    _rule(
        "paseto",
        r"[kv][1-4]\.(?:local|public|secret)",
        r"\bv[1-4]\.(?:local|public)\.[\w-]{15,}(?:\.[\w-]*)?",
        r"\bk[1-4]\.(?:local|secret)(?:-pw|-wrap)?\.[\w.-]{15,}",
    ),
    _rule(
        "password-hash",
        r"\$ \*[0-9A-F]{8} md5[0-9a-f]{8} \{S?(?:SHA|MD5)",
        r"\$(?:2[abxy]?|5|6|7|y|gy|argon2(?:id?|d)|scrypt|pbkdf2(?:-[a-z0-9]+)?)\$[\w./=$,+-]{8,}",
        r"\$(?:1|apr1|md5)\$[\w./]{1,16}\$[\w./]{22}",
        # MySQL: caching_sha2_password and mysql_native_password.
        r"\$A\$[0-9A-F]{3}\$[^\s\"'<>]{40,}",
        r"\*[0-9A-F]{40}\b",
        # PostgreSQL.
        r"\bSCRAM-SHA-[0-9]{1,3}\$[0-9]{1,9}:[\w+/=]+\$[\w+/=]+(?::[\w+/=]+)?",
        r"\bmd5[0-9a-f]{32}\b",
        # Django, LDAP.
        r"\b(?:pbkdf2|argon2|bcrypt|scrypt)[a-z0-9_]*\$[\w./=$,+-]{20,}",
        r"\{S?(?:SHA|MD5)(?:256|384|512)?\}[A-Za-z0-9+/]{20,}={0,2}",
    ),
    _rule(
        "kubernetes-bootstrap-token",
        r"[a-z0-9]{6}\.[a-z0-9]{16}",
        r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b",
        needs_digit=True,
    ),
    _rule("age-secret-key", "AGE-SECRET-KEY-", r"\bAGE-SECRET-KEY-[A-Z0-9-]{40,}"),
    _rule(
        "docker",
        "dckr_ SWMTKN- SWMKEY-",
        r"\bdckr_[a-z]{3}_[\w-]{16,}",
        r"\bSWM(?:TKN|KEY)-1-[\w-]{40,}",
    ),
    _rule(
        "gitlab",
        "gl[a-z]{2,5}-",
        r"\bgl(?:agent|soat|ffct|p[at]t|oas|cbt|imt|rtr|[dfrw]t)-[\w-]{20,}(?:\.[\w-]{2,16}){0,2}",
    ),
    _rule(
        "digitalocean and others",
        "do[oprs]_v1_ sbp_ sq[apu]_ tskey-",
        r"\bdo[oprs]_v1_[0-9a-f]{64}",
        r"\bsbp_(?:v0_)?[0-9a-f]{40}",
        r"\bsq[apu]_[0-9a-f]{40}",
        r"\btskey-[a-z]+-[\w-]{20,}",
    ),
    # Public rules require the service's name nearby, or base32 letters only.
    _rule(
        "form enough",
        r"A[BKS]IA[A-Z0-9]{16} pat[a-z0-9]{14}\.[0-9a-f] [0-9a-f]{8}-us[0-9]",
        r"\bA[BKS]IA[A-Z0-9]{16}\b",
        r"\bpat[A-Za-z0-9]{14}\.[0-9a-f]{64}",
        r"\b[0-9a-f]{32}-us[0-9]{1,2}\b",
    ),
    _rule("google-oauth", r"ya29\. GOCSPX-", r"\bya29\.[\w-]{20,}", r"\bGOCSPX-[\w-]{20,}"),
    _rule(
        "mailgun",
        "key-[0-9a-z]{32} [0-9a-f]{8}-[0-9a-f]{8}",
        r"\bkey-[0-9a-z]{32}\b",
        r"\b[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}\b",
    ),
    _rule(
        "new-relic",
        "NR[A-Z]{2}- NRAL",
        r"\bNR(?:AA|AK|BR|II|IQ|JS|RA)-[\w-]{19,}",
        r"\b[0-9a-z]{5,6}[0-9a-f]{30,31}NRAL\b",
    ),
    _rule("pypi", "pypi-", r"\bpypi-[\w-]{16,}"),
    # Anthropic's, OpenAI's, OpenRouter's, and others in the same format.
    _rule(
        "sk",
        "sk-",
        r"\bsk-(?:(?:admin|ant|or|proj|svcacct)-[\w-]{20,}|\w{20,})",
        needs_digit=True,
    ),
    _rule("shopify", "shp[a-z]{2,3}_", r"\bshp[a-z]{2,3}_[0-9a-fA-F]{32}"),
    _rule("slack", "xox[a-z]-", r"\bxox[a-z]-[A-Za-z0-9-]{10,}", needs_digit=True),
    _rule("vault", r"hv[brs]\.", r"\bhv[brs]\.[\w-]{16,}"),
    _rule(
        "vault-legacy",
        r"\bs\.[A-Za-z0-9]{24}\b",
        r"\bs\.[A-Za-z0-9]{24}\b",
        needs_digit=True,
    ),
)
"""Credentials that public rules do not cover, find only beside a name, or treat differently."""


@lru_cache(maxsize=1)
def _rules() -> RuleSet:
    return RuleSet((*public_rules(), *OWN_RULES))


def redact_formats(engine: Engine, text: str, place: str, depth: int) -> str:
    """Replace credentials that are recognized by their format. A finder."""
    if len(text) < _MIN_LENGTH or not engine.is_on("credential-formats"):
        return text
    pieces: list[str] = []
    pos = 0
    for start, end, needs_name in _rules().find(text):
        if start < pos:
            continue
        if needs_name:
            if engine.known.is_visible(text[start:end], engine.scope.pod):
                continue
        else:
            # A credential longer than the rule expects: its end must not remain visible.
            rest = _REST.match(text, end)
            end = rest.end() if rest is not None else end
        pieces += (
            text[pos:start],
            engine.replace("credential-formats", text[start:end], Strength.SECRET, place),
        )
        pos = end
    return "".join((*pieces, text[pos:])) if pieces else text
