# SPDX-License-Identifier: Apache-2.0
"""Find credentials in HTTP headers, within any text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .credentials import REFERENCE, SCHEME, replace_authorization, replace_credential
from .free_text import substitute
from .re2_patterns import Pattern
from .tokens import is_token

if TYPE_CHECKING:
    from .engine import Engine

_SCHEME = Pattern(r"(?i)\b(?:bearer|basic|digest|negotiate)[^\S\n]+([A-Za-z0-9._~+/=-]{8,})")
# Up to the end of the line, or to the same quotation mark as before the name.
_NAMED = Pattern(
    r"(?i)(?:[\"'`]|\\+[\"'])?\b(?:proxy-)?authorization(?:[\"']|\\+[\"'])?\s*[:=]\s*"
    r"((?:[\"']|\\+[\"'])?[^\n]+)"
)
_COOKIE = Pattern(r"(?i)\bcookie[\"']?\s*:\s*([^\s\"'][^\"'\n]*)")
_OPENING = re.compile(r"(\\*[\"'`])")
_PROSE = re.compile(r"[a-z]{1,14}(?: [a-z]{1,14})*[.!?,;]?")


def redact_headers(engine: Engine, text: str, place: str, depth: int) -> str:
    """Replace values of ``Authorization:``, ``Cookie:`` and well-known schemes. A finder."""
    if not engine.is_on("auth-headers") or len(text) < 8:
        return text
    if "uthorization" in text or "UTHORIZATION" in text:
        text = _redact_named(engine, text, place)

    def replace_scheme(found: str) -> str:
        if (found.isalpha() and (found.islower() or found.istitle())) or is_token(found):
            return found  # "basic authentication"
        return replace_authorization(engine, found, place, "auth-headers")

    def replace_cookie(found: str) -> str:
        return (
            found
            if is_token(found.strip())
            else replace_credential(engine, found, place, "auth-headers")
        )

    return substitute(_COOKIE, substitute(_SCHEME, text, 1, replace_scheme), 1, replace_cookie)


def _redact_named(engine: Engine, text: str, place: str) -> str:
    pieces: list[str] = []
    pos = 0
    for match in _NAMED.finditer(text):
        start, end = match.start(1), match.end(1)
        if start < pos:
            continue
        before = _OPENING.match(match[0] or "")
        opening = _OPENING.match(match[1] or "")
        mark = before[1] if before is not None else ""
        if opening is not None:
            # The value contains quotation marks of its own, as in JSON.
            mark = opening[1]
            start += len(mark)
        if mark:
            close = text.find(mark, start, end)
            end = close if close >= 0 else end
        value = text[start:end].rstrip()
        scheme = SCHEME.match(value)
        begin = scheme.end() if scheme is not None else 0
        secret = value[begin:]
        if (
            not secret
            or is_token(secret)
            or REFERENCE.fullmatch(secret) is not None
            or (not begin and _PROSE.fullmatch(secret) is not None)
        ):
            continue
        pieces += (
            text[pos : start + begin],
            replace_authorization(engine, secret, place, "auth-headers"),
        )
        pos = start + len(value)
    return "".join((*pieces, text[pos:]))
