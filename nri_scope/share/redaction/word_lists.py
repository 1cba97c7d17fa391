# SPDX-License-Identifier: Apache-2.0
"""Lists of words as they read best."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """The words of ``text``."""
    return frozenset(text.split())
