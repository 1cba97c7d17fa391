# SPDX-License-Identifier: Apache-2.0
"""Lists of words in readable form."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """Return the words of ``text``."""
    return frozenset(text.split())
