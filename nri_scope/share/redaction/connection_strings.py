# SPDX-License-Identifier: Apache-2.0
"""Find users and passwords in addresses: URLs and other connection strings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from .credentials import REFERENCE, replace_credential
from .free_text import substitute
from .known_values import Strength
from .re2_patterns import Pattern
from .tokens import is_token

if TYPE_CHECKING:
    from .engine import Engine

# In JSON, slashes may be preceded by backslashes. Any text may follow the @, as templates and
# variables are not host names; or no text, if the host is inserted later.
_URL = Pattern(
    r"(?:^|[:\s\"'=,])(?:\\*/){2}((?:[^\s\"'<>:@/?#]*:[^\s\"'<>]*[^\s\"'<>@]@?|[^\s\"'<>@/?#:]+))@(?:[^@]|$)"
)
# A URL that is the whole text, or a share (//user:password@server/share): its password may
# contain any character.
_WHOLE_URL = re.compile(
    r"(?:[A-Za-z][A-Za-z0-9+.-]{0,40}:)?//([^\s:@/?#]*:.+)@[^\s@\"'<>]+", re.DOTALL
)
_PORT = re.compile(r"[0-9]{1,5}(?:/|$)")
# user:password@tcp(host:3306)/database, also without a host.
_GO_MYSQL = Pattern(r"[^\s\"'<>:@/?#=,;]+:([^\s\"'<>]+)@(?:[a-z0-9]{0,10}\([^()\s]*\))?/")
# user/password@//host:1521/service
_ORACLE = Pattern(
    r"[A-Za-z][A-Za-z0-9_$#]*/([^\s\"'/@]+|\"[^\"]+\")@(?:(?://)[A-Za-z0-9]|[A-Za-z0-9_.-]+:[0-9]{2,5}[/:])"
)
_PGPASS = Pattern(
    r"(?m)^[ \t]*[^\s:#\\]+:(?:[0-9]{2,5}|\*)(?::[^\s:]*[^\s:0-9][^\s:]*){2}:([^\n]*[^\s])"
)
_NETRC = Pattern(
    r"\b(?:machine\s+\S+|default)\s+(?:(?:login|user|account)\s+\S+\s+)*password\s+(\"[^\"\n]*\"|\S+)"
)
_SQL_HINT = re.compile(r"(?i)\bidentified\s|\bset\s+password\s|\sreplace\s")
# A quotation mark that is doubled or has a backslash does not end a text, but where the whole
# command is quoted, all marks have backslashes.
_SQL = tuple(
    Pattern(key + value)
    for key in (
        r"(?i)\b(?:identified\s+(?:with\s+[^\s;]+\s+)?(?:by|as)\s+(?:password\s+)?"
        r"|set\s+password\s+(?:for\s+[^=;\n]{1,100})?=\s*(?:password\s*\(\s*)?)",
        r"(?i)\b(?:identified|password)\s[^;\n]{1,200}\sreplace\s+",
    )
    for value in (
        r"'((?:[^'\\\n]|''|\\[^\n])+)",
        r"\"((?:[^\"\\\n]|\"\"|\\[^\n])+)",
        r"\\+[\"']([^\"'\\\n]+)",
    )
)
_SQL_BARE = Pattern(r"(?i)\b(?:create|alter)\s+user\s+[^\s;]+\s+identified\s+by\s+([^\s;,\"'`\\]+)")


def redact_connections(engine: Engine, text: str, place: str, depth: int) -> str:
    """Replace user and password in URLs, other connection strings, and files of logins."""
    if not engine.is_on("url-passwords") or len(text) < 6:
        return text

    def replace_password(found: str) -> str:
        return (
            found
            if _is_not_secret(found)
            else replace_credential(engine, found, place, "url-passwords")
        )

    def replace_sql(found: str) -> str:
        return found if found.lower() in {"values", "password"} else replace_password(found)

    if "@" in text and "/" in text:
        text = _redact_urls(engine, text, place)
        text = substitute(_GO_MYSQL, text, 1, replace_password)
        text = substitute(_ORACLE, text, 1, replace_password)
    if text.count(":") > 3:
        text = substitute(_PGPASS, text, 1, replace_password)
    if _SQL_HINT.search(text) is not None:
        for pattern in _SQL:
            text = substitute(pattern, text, 1, replace_password)
        text = substitute(_SQL_BARE, text, 1, replace_sql)
    if "password" in text:
        text = substitute(_NETRC, text, 1, replace_password)
    return text


def _redact_urls(engine: Engine, text: str, place: str) -> str:
    def replace_both(found: str) -> str:
        user, colon, password = found.partition(":")
        if _PORT.match(password) is not None and not password.isdigit():
            # http://host:80/path@version
            return found
        if not colon:
            return (
                found
                if _is_not_secret(user)
                else replace_credential(engine, user, place, "url-passwords")
            )
        if not _is_not_secret(password):
            plain = unquote(password)
            if plain != password and not is_token(plain):
                engine.known.add(plain, "url-passwords", Strength.SECRET)
            password = replace_credential(engine, password, place, "url-passwords")
        if user and not _is_not_secret(user):
            user = engine.replace("url-passwords", user, Strength.PRIVATE, place)
        return user + colon + password

    whole = _WHOLE_URL.fullmatch(text)
    if whole is not None and "//" not in whole[1]:
        redacted = replace_both(whole[1])
        return text[: whole.start(1)] + redacted + text[whole.end(1) :]
    if "//" in text or "\\/" in text:
        text = substitute(_URL, text, 1, replace_both)
    return text


def _is_not_secret(part: str) -> bool:
    return is_token(part) or not part or REFERENCE.fullmatch(part) is not None
