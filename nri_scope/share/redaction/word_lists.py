# SPDX-License-Identifier: Apache-2.0
"""Sets of words, written as one text."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """Return the words of ``text``."""
    return frozenset(text.split())
