# SPDX-License-Identifier: Apache-2.0
"""Classify keys: whether their values are credentials, persons or nodes."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise

from .word_lists import words

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATORS = re.compile(r"[^A-Za-z0-9]+")

_SURE = words(
    "pass passwd password passwords passphrase passphrases passcode passcodes pwd pwds pw secret "
    "secrets psk requirepass masterauth"
)
_LIKELY = words(
    "token tokens credential credentials creds cred auth authorization authkey apikey cookie "
    "cookies jwt bearer signature sig dsn htpasswd dockercfg dockerconfigjson kubeconfig keytab "
    "webhook connectionstring connstr sessionid pat salt hmac pin otp totp"
)
# Matched anywhere in a part: PGPASSWORD, mysecretkey.
_SURE_INSIDE = ("password", "passwd", "passphrase", "secret")
_LIKELY_INSIDE = ("apikey", "accesskey", "privatekey", "accountkey", "credential")
# Matched at the end of a part: dbpass, rootpwd, authtoken; except in words with the same ending.
_SURE_ENDINGS = ("pass", "pwd")
_LIKELY_ENDINGS = ("token", "tokens")
_NOT_SURE_WORDS = words("bypass compass encompass surpass trespass overpass underpass outpass")
_SHORT = re.compile(
    r"(?:admin|auth|bind|db|ftp|http|key|ldap|login|mail|my|mysql|new|old|pg|proxy|root|smb|smtp|"
    r"sql|ssh|svn|user|vnc|vpn){1,3}pw"
)
_KEY_PREFIXES = words(
    "access account admin api app application auth client consumer deploy deployment encryption "
    "host jwt license master private root secret server service session shared signing ssh sshrsa "
    "storage subscription tls user vault"
)
"""Words that name a credential if followed by ``key``."""
_PAIRS = frozenset({("connection", "string"), ("conn", "str"), ("session", "id")})
# The last part of keys that are about a credential, but whose value is not a credential.
_ATTRIBUTES = words(
    "file files filename path dir directory name names ttl expiry expiration expires timeout "
    "length size type count enabled disabled enable disable required policy mode provider issuer "
    "audience endpoint version format algorithm alg max min ref refs kind class method methods "
    "scope scopes url uri namespace reviewer ports port host hosts mount mounts domain realm "
    "scheme header headers rotation interval lifetime duration limit limits budget usage strategy "
    "driver backend level selector role roles status state encoding charset stdin fd"
)
# The first part of keys whose value is an amount.
_AMOUNT_WORDS = words("max min num total limit count maximum minimum")
_NO_CREDENTIALS = frozenset(
    {
        # Identifies a cluster, and protects nothing.
        ("initial", "cluster", "token"),
        ("etcd", "initial", "cluster", "token"),
    }
)
_GROUPS = words("credentials creds secrets tokens cookies")
_SURE_GROUPS = words("passwords passwds passphrases pwds passcodes")
_PIN_WORDS = words("pin otp totp")
_HINTS = (
    *("pass", "secret", "token", "key", "auth", "cred", "pwd", "cookie", "bearer", "signature"),
    *("dockerc", "kubeconfig", "webhook", "conn", "session"),
    *("salt", "hmac", "totp"),
)
"""Every key that names a credential contains one of these, or one of the short words."""
_SHORT_HINT = re.compile(
    r"(?:(?:^|[^A-Za-z])(?:pin|otp|psk|pat|jwt|sig|dsn)|Pin|Otp|Psk|Pat|Jwt|Sig|Dsn"
    r"|PIN|OTP|PSK|PAT|JWT|SIG|DSN|pw|Pw|PW)(?:[^a-z]|$)"
)
_PERSON_WORDS = words(
    "owner owners contact contacts email emails mail phone author authors maintainer maintainers "
    "user username customer requester oncall assignee approver creator"
)
_PERSON_PAIRS = frozenset(
    {("created", "by"), ("updated", "by"), ("deployed", "by"), ("requested", "by"), ("on", "call")}
)
_NODE_KEYS = frozenset(
    {("node", "name"), ("nodename",), ("hostname", "override"), ("host", "name", "override")}
)


class Certainty(IntEnum):
    """How certain it is that the value of a key is a credential."""

    NONE = 0
    LIKELY = 1
    """Likely, except for numbers and words of configuration: ``auth: basic``,
    ``--max-tokens=4096``."""
    SURE = 2
    """Certain for any value: ``password: 4096``."""
    FORCED = 3
    """Certain for any value of any key: in the data of a Kubernetes Secret."""


@lru_cache(maxsize=4096)
def _parts(key: str) -> tuple[str, ...]:
    return tuple(
        part.lower()
        for word in _SEPARATORS.split(key[-200:])
        for part in _CAMEL.split(word)
        if part
    )


@lru_cache(maxsize=4096)
def _bare_parts(key: str) -> tuple[str, ...]:
    """Return the parts of a key without trailing digits, as in PASS1 and token_2."""
    bare = (part.rstrip("0123456789") for part in _parts(key))
    return tuple(part for part in bare if part)


@lru_cache(maxsize=4096)
def certainty_of(key: str) -> Certainty:
    """Return the certainty of a key's own value."""
    parts = _bare_parts(key)
    if (
        key in {"PWD", "OLDPWD"}
        or parts in _NO_CREDENTIALS
        or not parts
        or parts[-1] in _ATTRIBUTES
    ):
        return Certainty.NONE
    certainty = max(map(_certainty_of_part, parts))
    if certainty is Certainty.NONE and any(
        pair in _PAIRS or (pair[1] in {"key", "keys"} and pair[0] in _KEY_PREFIXES)
        for pair in pairwise(parts)
    ):
        return Certainty.LIKELY
    return certainty


def _certainty_of_part(part: str) -> Certainty:
    if (
        part in _SURE
        or any(word in part for word in _SURE_INSIDE)
        or (part.endswith(_SURE_ENDINGS) and part not in _NOT_SURE_WORDS)
        or _SHORT.fullmatch(part) is not None
    ):
        return Certainty.SURE
    if (
        part in _LIKELY
        or any(word in part for word in _LIKELY_INSIDE)
        or part.endswith(_LIKELY_ENDINGS)
        or (part.endswith("key") and part[:-3] in _KEY_PREFIXES)
    ):
        return Certainty.LIKELY
    return Certainty.NONE


def names_credential(key: str) -> bool:
    """Return whether the value of such a key is, or may be, a credential."""
    return certainty_of(key) is not Certainty.NONE


@lru_cache(maxsize=4096)
def certainty_within(key: str, above: Certainty) -> Certainty:
    """Return the certainty of a key in a value with certainty ``above``; see `certainty_below`."""
    if above is Certainty.FORCED:
        return above
    own = certainty_of(key)
    if own is not Certainty.NONE or above is Certainty.NONE:
        return own
    parts = _bare_parts(key)
    return Certainty.NONE if parts and parts[-1] in _ATTRIBUTES else above


@lru_cache(maxsize=4096)
def certainty_below(key: str, above: Certainty) -> Certainty:
    """Return the certainty for the contents of the map or list that is a key's value."""
    parts = _bare_parts(key)
    if not parts or above is Certainty.FORCED:
        return above
    if parts[-1] in _ATTRIBUTES:
        return Certainty.NONE
    if parts[-1] in _SURE_GROUPS:
        return Certainty.SURE
    return max(above, Certainty.LIKELY) if parts[-1] in _GROUPS else above


@lru_cache(maxsize=4096)
def certainty_at(key: str, above: Certainty = Certainty.NONE) -> Certainty:
    """Return `certainty_within` for a key that may itself be a path: ``secrets.db.main``."""
    if "." in key and "/" not in key:
        above = certainty_inside(key.rpartition(".")[0], above)
    return certainty_within(key, above)


def certainty_inside(key: str, above: Certainty = Certainty.NONE) -> Certainty:
    """Return `certainty_below` for a key that may itself be a path."""
    for part in key.split(".")[-20:] if "/" not in key else (key,):
        above = certainty_below(part, above)
    return above


def certainty_in_list(key: str, above: Certainty = Certainty.NONE) -> Certainty:
    """Return the certainty for maps in the list that is a key's value, such as "passwords"."""
    return max(above, Certainty.SURE) if certainty_at(key, above) is Certainty.SURE else above


@lru_cache(maxsize=64)
def may_name_credential(text: str) -> bool:
    """Return whether ``text`` may contain a key that names a credential (quick check)."""
    lower = text.lower()
    return any(hint in lower for hint in _HINTS) or _SHORT_HINT.search(text) is not None


@lru_cache(maxsize=4096)
def names_short_number(key: str) -> bool:
    """Return whether a credential with that key is a number with few digits."""
    return not _PIN_WORDS.isdisjoint(_bare_parts(key))


@lru_cache(maxsize=4096)
def names_amount(key: str) -> bool:
    """Return whether numbers with such a key are amounts or limits, such as "max_tokens"."""
    parts = _bare_parts(key)
    return bool(parts) and (parts[-1] in _GROUPS or parts[0] in _AMOUNT_WORDS)


@lru_cache(maxsize=4096)
def names_person(key: str) -> bool:
    """Return whether the value of such a key identifies a person."""
    parts = _parts(key)
    return bool(parts) and (parts[-1] in _PERSON_WORDS or parts[-2:] in _PERSON_PAIRS)


@lru_cache(maxsize=4096)
def names_node(key: str) -> bool:
    """Return whether the value of such a key is a node's name."""
    parts = _parts(key)
    return parts[-2:] in _NODE_KEYS or parts[-1:] in _NODE_KEYS or parts[-3:] in _NODE_KEYS
