# SPDX-License-Identifier: Apache-2.0
"""Durations and sizes as typed by users: ``500us``, ``1.5ms``, ``2h``, ``4k``, ``500M``."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

DURATION_UNITS: dict[str, int] = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60 * 1_000_000_000,
    "h": 3600 * 1_000_000_000,
    "d": 86400 * 1_000_000_000,
}
"""Nanoseconds by unit."""

SIZE_UNITS: dict[str, int] = {
    "b": 1,
    "k": 2**10,
    "m": 2**20,
    "g": 2**30,
    "t": 2**40,
}
"""Bytes by unit in lower case. ``k``, ``kB``, ``Ki`` and ``KiB`` are all 1024."""

LARGEST = 2**63 - 1
"""The largest integer in SQLite."""

_QUANTITY = re.compile(r"([0-9]{1,19})(?:\.([0-9]{1,9}))?([A-Za-zµ]{0,3})")


def split_quantity(text: str) -> tuple[Fraction, Fraction, str] | None:
    """Return the number, its precision and its unit; None if ``text`` is not a quantity.

    The precision is the place value of the last digit: 1/100 for ``1.50``.
    """
    found = _QUANTITY.fullmatch(text)
    if found is None:
        return None
    decimals = found[2] or ""
    precision = Fraction(1, 10 ** len(decimals))
    return Fraction(int(found[1] + decimals)) * precision, precision, found[3]


def duration_unit(unit: str) -> int | None:
    """Return the number of nanoseconds in ``unit``, or None if there is no such unit."""
    # Accept the Greek letter mu, which looks like the micro sign.
    return DURATION_UNITS.get(unit.replace("\N{GREEK SMALL LETTER MU}", "µ"))


def size_unit(unit: str) -> int | None:
    """Return the number of bytes in ``unit``, or None if there is no such unit."""
    short = unit.lower()
    if short != "b":
        short = short.removesuffix("b").removesuffix("i")
    return SIZE_UNITS.get(short)


def parse_duration(text: str) -> int | None:
    """Return the nanoseconds in ``10m``, ``1.5s`` …; None without a unit, or if not a duration."""
    return _parse(text, duration_unit)


def parse_size(text: str) -> int | None:
    """Return the bytes in ``500M``, ``64KiB``, ``4096`` …; None if it is not a size."""
    return _parse(text, lambda unit: size_unit(unit or "b"))


def _parse(text: str, unit_of: Callable[[str], int | None]) -> int | None:
    parts = split_quantity(text)
    scale = unit_of(parts[2]) if parts else None
    if parts is None or scale is None:
        return None
    amount = int(parts[0] * scale)
    return amount if amount <= LARGEST else None
