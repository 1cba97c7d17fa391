# SPDX-License-Identifier: Apache-2.0
"""Ends a query that a damaged file, or one made by hand, keeps from ending.

Pages that contain each other give rows without end, and a query that wants none of them would
never come back. A sound file has at most so many rows as fit into it.
"""

from __future__ import annotations

import sqlite3

_STEPS = 100_000
# SQLite's steps for a row: joins and a large filter included.
_STEPS_PER_ROW = 2_000
_ROW_BYTES = 40
_LEAST = 50_000_000


class Patience:
    """Counts SQLite's steps on a connection. A signal is noticed meanwhile, too."""

    def __init__(self, connection: sqlite3.Connection, file_bytes: int) -> None:
        self._budget = max(_LEAST, file_bytes // _ROW_BYTES * _STEPS_PER_ROW) // _STEPS
        self._used = 0
        connection.set_progress_handler(self._go_on, _STEPS)

    def renew(self) -> None:
        """Renew the budget; call it before each query."""
        self._used = 0

    @property
    def is_over(self) -> bool:
        """Whether the last query was ended."""
        return self._used > self._budget

    def _go_on(self) -> bool:
        self._used += 1
        return self._used > self._budget
