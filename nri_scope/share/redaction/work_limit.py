# SPDX-License-Identifier: Apache-2.0
"""Limit on the work of redacting a recording. A file stores repeated content only once, so its size
alone does not bound the work.
"""

from __future__ import annotations

from nri_scope.errors import UsageError
from nri_scope.nri.element_limits import short_elements

PER_BYTE = 3.0
"""Units per byte of a recording. A unit is about a microsecond."""
LEAST_BYTES = 10_000_000
"""Size in bytes to assume for smaller files."""
REMEDY = "export a part of it with --where, and redact that part"

MESSAGE, TEXT, VALUE = 180, 40, 450
"""Units per message, per searched text, and per remembered value; for texts and values, one more
per character.
"""
PART = 5
"""Units per message in a message, such as a mount, even if it contains no text."""
AGAIN = 100
"""Units per message from which the redactor already learned; one more per 32 bytes."""
ELEMENT = 4
"""Units per short element beyond the usual number for the message's size, such as a thousand empty
mounts.
"""


class WorkLimit:
    """A budget of units of work."""

    def __init__(self, units: int | None) -> None:
        """Start with ``units``; None for no limit."""
        self.is_limited = units is not None
        self._left = units or 0

    @classmethod
    def of_file(cls, size: int) -> int:
        """Return the units for recordings of ``size`` bytes."""
        return int(max(size, LEAST_BYTES) * PER_BYTE)

    def decode(self, content: bytes) -> None:
        """Subtract the units for decoding and copying a message, whatever it contains."""
        size = len(content)
        self.spend(size // 32 + max(0, short_elements(content) - size // 16) * ELEMENT)

    def spend(self, units: int) -> None:
        """Subtract units. Raises UsageError if none are left."""
        if self.is_limited:
            self._left -= units
            if self._left < 0:
                raise UsageError(
                    "searching this recording for secrets exceeds the work limit for a file of "
                    "its size",
                    REMEDY,
                )
