# SPDX-License-Identifier: Apache-2.0
"""Readable lists of words."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """Return the words of ``text``."""
    return frozenset(text.split())
