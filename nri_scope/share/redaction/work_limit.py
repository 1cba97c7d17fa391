# SPDX-License-Identifier: Apache-2.0
"""How much work one recording may make: what a file repeats a thousand times is stored once, so its
size does not bound that.
"""

from __future__ import annotations

from nri_scope.errors import UsageError

PER_BYTE = 3.0
"""Units for each byte of a recording. A unit is about a microsecond."""
LEAST_BYTES = 10_000_000
"""A smaller file is allowed as much as one of this size."""
REMEDY = "export a part of it with --where, and redact that"

MESSAGE, TEXT, VALUE = 100, 40, 450
"""Units for a message, for a text that is looked into, for a value that is remembered; each
character of the latter two is one more.
"""
AGAIN = 50
"""Units for a message that was learned before."""


class WorkLimit:
    """What is left of it."""

    def __init__(self, left: int | None) -> None:
        """``left``: units; None: there is no limit."""
        self.is_limited = left is not None
        self._left = left or 0

    @classmethod
    def of_file(cls, size: int) -> int:
        """Units for recordings of so many bytes."""
        return int(max(size, LEAST_BYTES) * PER_BYTE)

    def spend(self, units: int) -> None:
        """Take something off. Raises UsageError where nothing is left."""
        if self.is_limited:
            self._left -= units
            if self._left < 0:
                raise UsageError(
                    "there is more in it to be looked through for secrets than is done for a file "
                    "of its size",
                    REMEDY,
                )
