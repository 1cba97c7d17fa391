# SPDX-License-Identifier: Apache-2.0
"""The work limit of redacting a recording. A file stores repeated content once, so its size alone
does not bound the work.
"""

from __future__ import annotations

from nri_scope.errors import UsageError

PER_BYTE = 3.0
"""Units for each byte of a recording. A unit is about a microsecond."""
LEAST_BYTES = 10_000_000
"""Size to assume for smaller files."""
REMEDY = "export a part of it with --where, and redact that"

MESSAGE, TEXT, VALUE = 100, 40, 450
"""Units for a message, for a text that is searched, and for a value that is remembered; the latter
two take one more per character.
"""
AGAIN = 100
"""Units for a message that was learned before."""


class WorkLimit:
    """The remaining work."""

    def __init__(self, left: int | None) -> None:
        """``left``: units; None: no limit."""
        self.is_limited = left is not None
        self._left = left or 0

    @classmethod
    def of_file(cls, size: int) -> int:
        """Return the units for recordings of this many bytes."""
        return int(max(size, LEAST_BYTES) * PER_BYTE)

    def spend(self, units: int) -> None:
        """Subtract units. Raises UsageError where none are left."""
        if self.is_limited:
            self._left -= units
            if self._left < 0:
                raise UsageError(
                    "searching the recording for secrets takes more work than is allowed "
                    "for a file of its size",
                    REMEDY,
                )
