# SPDX-License-Identifier: Apache-2.0
"""Parse and round quantities of Kubernetes: ``500m``, ``1.5``, ``64Mi``, ``1e3``."""

from __future__ import annotations

import math
import re
from fractions import Fraction

_QUANTITY = re.compile(
    r"([+-]?)([0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})"
    r"(?:([numkMGTPE]|[KMGTPE]i)?|[eE]([+-]?[0-9]{1,2}))",
    re.ASCII,
)
_SUFFIXES = {
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate("num", -3)},
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}
_LARGEST = 2**63 - 1


def parse_quantity(text: str) -> Fraction | None:
    """Return the value of a quantity, at most 2⁶³ - 1; None if ``text`` is not one."""
    found = _QUANTITY.fullmatch(text)
    if found is None:
        return None
    sign, digits, suffix, exponent = found.groups()
    scale = Fraction(10) ** int(exponent) if exponent else _SUFFIXES.get(suffix, Fraction(1))
    amount = min(Fraction(digits) * scale, Fraction(_LARGEST))
    return -amount if sign == "-" else amount


def whole(quantity: Fraction) -> int:
    """Return a quantity, or a sum of some, rounded up as by Kubernetes; at most 2⁶³ - 1."""
    return min(math.ceil(quantity), _LARGEST)


def milli(quantity: Fraction) -> int:
    """Return a quantity in thousandths, rounded up."""
    return min(math.ceil(quantity * 1000), _LARGEST)
