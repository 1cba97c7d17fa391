# SPDX-License-Identifier: Apache-2.0
"""What a key says about its value."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from nri_scope.recorder.redaction.words import words

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_BETWEEN = re.compile(r"[^A-Za-z0-9]+")

_CREDENTIALS = words(
    "pass passwd password passwords passphrase passcode pwd pw secret secrets token tokens "
    "credential credentials creds cred auth authorization authkey apikey cookie cookies jwt bearer "
    "otp pin salt signature sig dsn htpasswd dockercfg dockerconfigjson kubeconfig keytab webhook "
    "connectionstring connstr sessionid hmac pat psk requirepass masterauth"
)
# Anywhere in a part: PGPASSWORD, mysecretkey.
_INSIDE = ("password", "passwd", "secret", "apikey", "accesskey", "privatekey", "credential")
_KEYS = words(
    "access account admin api app application auth client consumer deploy deployment encryption "
    "host jwt license master private root secret server service session shared signing ssh sshrsa "
    "storage subscription tls user vault"
)
"""Before ``key``."""
_PAIRS = frozenset({("connection", "string"), ("conn", "str"), ("session", "id")})
# What comes last says that it is about a credential, and none.
_ABOUT = words(
    "file files filename path dir directory name names ttl expiry expiration expires timeout "
    "length size type count enabled disabled enable disable required policy mode provider issuer "
    "audience endpoint version format algorithm max min ref kind class method scope scopes url uri "
    "namespace reviewer ports port host hosts mount mounts"
)
_PERSONS = words(
    "owner owners contact contacts email emails mail phone author authors maintainer maintainers "
    "user username customer requester oncall assignee approver creator"
)
_PERSON_PAIRS = frozenset(
    {("created", "by"), ("updated", "by"), ("deployed", "by"), ("requested", "by"), ("on", "call")}
)
_NODES = frozenset(
    {("node", "name"), ("nodename",), ("hostname", "override"), ("host", "name", "override")}
)


@lru_cache(maxsize=4096)
def _parts(key: str) -> tuple[str, ...]:
    return tuple(
        part.lower() for word in _BETWEEN.split(key[-200:]) for part in _CAMEL.split(word) if part
    )


@lru_cache(maxsize=4096)
def names_credential(key: str) -> bool:
    """Whether the value of such a key is a credential."""
    if key in {"PWD", "OLDPWD"}:
        return False
    parts = _parts(key)
    if not parts or parts[-1] in _ABOUT:
        return False
    if any(part in _CREDENTIALS or any(word in part for word in _INSIDE) for part in parts):
        return True
    pairs = list(pairwise(parts))
    return any(
        pair in _PAIRS or (pair[1] in {"key", "keys"} and pair[0] in _KEYS) for pair in pairs
    )


@lru_cache(maxsize=4096)
def names_person(key: str) -> bool:
    """Whether the value of such a key says who somebody is."""
    parts = _parts(key)
    return bool(parts) and (parts[-1] in _PERSONS or parts[-2:] in _PERSON_PAIRS)


@lru_cache(maxsize=4096)
def names_node(key: str) -> bool:
    """Whether the value of such a key is a node's name."""
    parts = _parts(key)
    return parts[-2:] in _NODES or parts[-1:] in _NODES or parts[-3:] in _NODES
