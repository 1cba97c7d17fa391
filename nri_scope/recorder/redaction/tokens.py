# SPDX-License-Identifier: Apache-2.0
"""Tokens: what stands where an original was.

A token tells what it is by its form alone, whoever made it, so what was redacted before is left as
it is. It has the form of what it replaces as far as programs care: an address is an address, a
host name a host name, a path a path, and the plain one can be a DNS label, a file name, a key or a
value.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import re
from collections.abc import Callable

from nri_scope.recorder.redaction.harmless import ENDINGS

MARK = "redacted-"
PLAIN = MARK + "[a-z2-7]{12}"
"""Pattern of the plain token; all others have one in them, but for addresses."""
HOST = ".invalid"
MAIL = "@redacted.invalid"
# Set aside for documentation and benchmarks (RFC 2544, RFC 3849): no host has such an address.
NETWORK4 = ipaddress.IPv4Network("198.18.0.0/15")
NETWORK6 = ipaddress.IPv6Network("2001:db8::/32")

# Of the same order as what is remembered of originals.
_MOST = 400_000
_TOKEN = re.compile(f"/?{PLAIN}(?:{re.escape(HOST)}|{re.escape(MAIL)})?")
_HOST = re.compile(r"(?=.{4,253}$)(?:[A-Za-z0-9_-]{1,63}\.)+[A-Za-z][A-Za-z0-9-]{1,62}\.?")
_MAIL = re.compile(r"[^\s@/:]{1,64}@[A-Za-z0-9.-]{3,253}")


def is_token(text: str) -> bool:
    """Whether all of ``text`` is one token."""
    return _TOKEN.fullmatch(text) is not None or is_token_address(text)


def is_token_address(text: str) -> bool:
    """Whether ``text`` is an address out of those that tokens are taken from."""
    address = address_of(text)
    return address is not None and address in (NETWORK4 if address.version == 4 else NETWORK6)


def address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address that ``text`` is, if it is one and nothing else."""
    if (
        len(text) > 45
        or not text
        or text[0] not in "0123456789abcdefABCDEF:"
        or ("." not in text and ":" not in text)
    ):
        return None
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


class Tokens:
    """Makes tokens: one for each original, never one for two."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._of: dict[str, str] = {}
        self._taken: dict[str, str] = {}

    def of(self, original: str) -> str:
        """The token for ``original``, in the form that suits it."""
        token = self._of.get(original)
        if token is None:
            token = self._made(original)
            if len(self._of) < _MOST:
                self._of[original] = token
        return token

    def _made(self, original: str) -> str:
        address = address_of(original)
        make: Callable[[bytes], str]
        if address is not None:
            network = NETWORK4 if address.version == 4 else NETWORK6
            make = lambda digest: _in_network(network, digest)  # noqa: E731
        elif original.startswith("/"):
            make = lambda digest: "/" + _plain(digest)  # noqa: E731
        elif _MAIL.fullmatch(original):
            make = lambda digest: _plain(digest) + MAIL  # noqa: E731
        elif _HOST.fullmatch(original) and original.rpartition(".")[2].lower() in ENDINGS:
            make = lambda digest: _plain(digest) + HOST  # noqa: E731
        else:
            make = _plain
        content = original.encode("utf-8", "surrogatepass")
        for attempt in range(1 << 16):
            # There are only 2^17 addresses for tokens: two originals may meet.
            token = make(hmac.digest(self._key, bytes([attempt & 255, attempt >> 8]) + content, _H))
            if self._taken.get(token, original) == original:
                if len(self._taken) < _MOST:
                    self._taken[token] = original
                return token
        # More than there are addresses: then it is a token of the plain form.
        return _plain(hmac.digest(self._key, content, _H))


_H = hashlib.sha256


def _plain(digest: bytes) -> str:
    return MARK + base64.b32encode(digest)[:12].decode().lower()


def _in_network(network: ipaddress.IPv4Network | ipaddress.IPv6Network, digest: bytes) -> str:
    hosts = network.num_addresses - 2
    return str(network[1 + int.from_bytes(digest, "big") % hosts])
