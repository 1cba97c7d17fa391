# SPDX-License-Identifier: Apache-2.0
"""Values as SQLite can hold them, whatever a peer sent."""

from __future__ import annotations

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
"""What SQLite can hold of whole numbers."""


def storable(text: str) -> str:
    """``text`` without what has no UTF-8: lone surrogates become ``\\udc80`` and the like."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def int64(number: int) -> int:
    """``number``, or the nearest that has 64 bits."""
    return min(max(number, LOWEST), HIGHEST)
