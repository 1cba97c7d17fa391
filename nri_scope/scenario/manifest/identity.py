# SPDX-License-Identifier: Apache-2.0
"""Names, ids and hashes that a cluster assigns: the same ones for the same manifest.

Assigned values are random in a cluster. Here they are hashes of the names that they belong to.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping

from nri_scope.nri.plain import Plain

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "nri-scope")
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Characters of names made by Kubernetes: no vowels, no digits like letters (util/rand)."""


def uid_of(*words: str) -> str:
    """Return a UUID."""
    return str(uuid.uuid5(_NAMESPACE, "/".join(words)))


def suffix_of(length: int, *words: str) -> str:
    """Return ``length`` characters as they end the names of generated pods."""
    digest = hashlib.sha256("/".join(words).encode()).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:length])


def number_of(low: int, high: int, *words: str) -> int:
    """Return a number from ``low`` to ``high``."""
    digest = hashlib.sha256("/".join(words).encode()).digest()
    return low + int.from_bytes(digest[:8], "big") % (high - low + 1)


def container_hash(name: str, image: str) -> str:
    """Return the hash with which the kubelet notices a changed container.

    It is the 32-bit FNV-1a hash of a dump of the JSON with both ("HashContainer" in
    pkg/kubelet/container, "DeepHashObject" in pkg/util/hash).
    """
    dumped = f"([]uint8)[{' '.join(map(str, go_json({'image': image, 'name': name}).encode()))}]"
    return f"{fnv1a(dumped.encode()):x}"


def fnv1a(data: Iterable[int]) -> int:
    """Return the 32-bit FNV-1a hash."""
    result = 0x811C9DC5
    for byte in data:
        result = (result ^ byte) * 0x01000193 & 0xFFFFFFFF
    return result


def go_json(value: Mapping[str, Plain] | list[dict[str, Plain]]) -> str:
    """Return JSON as Go writes it: without spaces, with ``<``, ``>`` and ``&`` escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
