# SPDX-License-Identifier: Apache-2.0
"""Find credentials by format, with public rules and additional rules."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from .known_values import Strength
from .rule_set import FormatRule, RuleSet, public_rules

if TYPE_CHECKING:
    from .engine import Engine

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
