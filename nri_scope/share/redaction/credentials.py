# SPDX-License-Identifier: Apache-2.0
"""Decide whether a key's value is a credential, for every syntax and place."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

from .harmless import is_plain, is_plain_path
from .key_names import Certainty, certainty_at, names_amount, names_node, names_short_number
from .known_values import Strength
from .tokens import PLAIN_TOKEN, is_token
from .word_lists import words

if TYPE_CHECKING:
    from .engine import Engine

REFERENCE = re.compile(r"\$\([A-Za-z_.-][A-Za-z0-9_.-]*\)")
"""A reference to a variable, as in Kubernetes; any other text with a dollar sign may be a
password.
"""
SCHEME = re.compile(
    r"(?i)(?:apikey|api-key|basic|bearer|digest|dpop|geniekey|hawk|hoba|jwt|key|mutual|negotiate|ntlm"
    r"|oauth|privatetoken|private-token|scram-sha-(?:1|256)|sharedkey|sharedkeylite|signature|splunk"
    r"|ssws|token|vapid|aws4-hmac-sha256|goog4-hmac-sha256|sso-key|zoho-oauthtoken|snowflake)[ \t]+"
)
"""The scheme before the credentials in an ``Authorization`` header."""
_SURROUNDED_TOKEN = re.compile(rf"[^A-Za-z0-9]{{0,8}}{PLAIN_TOKEN}[^A-Za-z0-9]{{0,8}}")
_EMPTY_WORDS = words("true false yes no on off null none nil")
_MASK = re.compile(r"\*+|<[a-z-]{1,20}>|%[sdvq]")
_SHELL_VARIABLE = re.compile(r"\$(?:[A-Z_][A-Z0-9_]*|\{[A-Z_][A-Z0-9_]*\}|[0-9@*])")


def must_replace(key: str, value: str, certainty: Certainty) -> bool:
    """Return whether to replace ``value``; ``certainty`` comes from its keys."""
    if certainty is Certainty.NONE:
        return False
    bare = value.strip()
    scheme = SCHEME.match(bare)
    if scheme is not None and is_token(bare[scheme.end() :].strip()):
        return False
    if _SURROUNDED_TOKEN.fullmatch(bare) is not None:
        # Already replaced by another finder, without the punctuation around it.
        return False
    if certainty is Certainty.FORCED:
        return bool(bare) and not is_token(bare)
    if (
        not bare
        or bare.lower() in _EMPTY_WORDS
        or is_token(bare)
        or REFERENCE.fullmatch(bare) is not None
        or _MASK.fullmatch(bare) is not None
    ):
        return False
    if certainty is Certainty.SURE:
        return True
    if is_plain(bare):
        few = 3 if names_short_number(key) else 5
        return sum(c.isdigit() for c in bare) > few and not names_amount(key)
    if "," in bare and len(bare) <= 200 and all(map(is_plain, bare.split(","))):
        # --auth=ldap,token
        return any(c.isdigit() for c in bare)
    return not (bare.count("/") > 1 and is_plain_path(bare))


def redact_credential(
    engine: Engine, key: str, value: str, place: str, above: Certainty = Certainty.NONE
) -> str | None:
    """Return the replacement for the value of ``key``, or None if it is not a credential."""
    if engine.is_on("credential-keys") and must_replace(key, value, certainty_at(key, above)):
        return replace_keyed(engine, key, value, place)
    return None


def replace_keyed(engine: Engine, key: str, value: str, place: str) -> str:
    """Return the token for a credential; the scheme of an "Authorization" is kept."""
    begin = end_of_scheme(key, value)
    if begin:
        return value[:begin] + replace_authorization(
            engine, value[begin:], place, "credential-keys"
        )
    return replace_credential(engine, value, place)


def end_of_scheme(key: str, text: str, begin: int = 0) -> int:
    """Return where the credentials begin after the scheme of an "Authorization", or 0."""
    scheme = SCHEME.match(text, begin) if key[-13:].lower() == "authorization" else None
    return scheme.end() if scheme is not None and scheme.end() < len(text) else 0


def replace_authorization(engine: Engine, value: str, place: str, rule: str) -> str:
    """Return the token for the text after a scheme; learn the user and password of Basic."""
    try:
        decoded = base64.b64decode(value.strip(), validate=True).decode()
    except (ValueError, UnicodeDecodeError):
        decoded = ""
    user, colon, password = decoded.partition(":")
    if colon and password.isprintable():
        engine.known.add(password, rule, Strength.SECRET)
        engine.known.add(user, rule, Strength.PRIVATE)
    return replace_credential(engine, value, place, rule)


def replace_encoded(engine: Engine, value: str, place: str) -> str:
    """Return the token for a credential that may be in base64, as in Secrets; learn its content."""
    try:
        decoded = base64.b64decode("".join(value.split()), validate=True).decode().strip()
    except (ValueError, UnicodeDecodeError):
        decoded = ""
    if decoded.isprintable() and decoded and not is_token(decoded):
        engine.known.add(decoded, "credential-keys", strength_of(decoded))
    return replace_credential(engine, value, place)


def redact_login(engine: Engine, text: str, place: str, between: str) -> str | None:
    """Redact ``user:password`` (``between`` is ``:``); return None for any other form."""
    user, separator, password = text.partition(between)
    if not separator or not password or password.isdigit() or not engine.is_on("credential-keys"):
        return None
    if between == ":" and ("/" in user or password.startswith("//")):
        return None
    if is_token(password):
        return text
    if user:
        user = engine.replace("credential-keys", user, Strength.PRIVATE, place)
    return user + between + replace_credential(engine, password, place)


def replace_credential(
    engine: Engine, value: str, place: str, rule: str = "credential-keys"
) -> str:
    """Return the token for a credential."""
    return engine.replace_whole(rule, value, strength_of(value), place)


def strength_of(value: str) -> Strength:
    """Return PLAIN for a credential such as "4096" or "enabled", which has other uses, too."""
    bare = value.strip()
    if is_plain(bare) or _SHELL_VARIABLE.fullmatch(bare) is not None:
        return Strength.PLAIN
    return Strength.SECRET


def apply_user_rules(engine: Engine, value: str, place: str, key: str) -> str | None:
    """Return the result of the user's rules for a value with a key, or None if none applies."""
    if not engine.rules.user_rules and not engine.rules.kept_values:
        return None
    redacted = engine.apply_user_rules(value, place, key)
    if redacted is not None:
        return redacted
    for rule in engine.user_rules_for(place, key):
        if rule.key and rule.value_pattern is not None and rule.action == "replace":
            text = engine.replace_matches(rule, value, place)
            if text != value:
                return engine.redact_text(text, place)
    return None


def redact_keyed(
    engine: Engine,
    key: str,
    value: str,
    place: str,
    above: Certainty = Certainty.NONE,
) -> str | None:
    """Return the replacement for a key's value, or None if the key does not require one."""
    redacted = apply_user_rules(engine, value, place, key)
    if redacted is not None:
        return redacted
    if engine.is_on("nodes") and names_node(key):
        return redact_node(engine, value, place)
    return redact_credential(engine, key, value, place, above)


def redact_node(engine: Engine, value: str, place: str) -> str:
    """Return the replacement for a node's name if that rule is on."""
    if REFERENCE.fullmatch(value) or is_plain(value):
        return value
    return engine.replace("nodes", value, Strength.NAME, place)
