# SPDX-License-Identifier: Apache-2.0
"""The words that redaction shows: English, and those of NRI, OCI, CRI, Kubernetes and programs.

``vocabulary.txt.xz`` is written by ``scripts/update_vocabulary.py`` and names its sources.
"""

from __future__ import annotations

import lzma
import re
from functools import cache, lru_cache
from importlib.resources import files

MIN_PART = 3
"""Minimum length of a word that is joined to others by its case alone."""
_PART = re.compile(r"[A-Z]{2,}(?=s(?![a-z]))|[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_WITH_DIGITS = frozenset(
    {"s3", "x86", "x64", "k8s", "k3s", "e2e", "i18n", "l10n", "h2", "b64", "p2p"}
)


@cache
def _words() -> frozenset[str]:
    content = files(__package__).joinpath("vocabulary.txt.xz").read_bytes()
    lines = lzma.decompress(content).decode().splitlines()
    return frozenset(line for line in lines if not line.startswith("#"))


@lru_cache(maxsize=1 << 16)
def is_word(text: str) -> bool:
    """Return whether letters and digits without anything between them are known.

    Known are a word, a number of up to six digits, and words that are joined by their case, such as
    "getUserName". A word with a number behind it is known only if the vocabulary has both
    together ("eth0", "sha256"): people choose such passwords.
    """
    lower = text.lower()
    if lower in _words() or lower in _WITH_DIGITS:
        return True
    if text.isdigit():
        return len(text) <= 6
    if len(text) > 80 or not (text.isascii() and text.isalpha()):
        return False
    return all(
        part == "s" or (len(part) >= MIN_PART and part.lower() in _words())
        for part in _PART.findall(text)
    )
