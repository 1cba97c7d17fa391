# SPDX-License-Identifier: Apache-2.0
"""End queries that a damaged or forged file would keep running forever.

Pages that contain each other yield endless rows, and a query that selects none of them would never
return. A sound file has at most as many rows as fit into it.
"""

from __future__ import annotations

import sqlite3

_STEPS = 100_000
# SQLite's steps for a row, including joins and a large filter.
_STEPS_PER_ROW = 2_000
_ROW_BYTES = 40
_LEAST = 50_000_000


class QueryBudget:
    """Counts SQLite's steps on a connection. Signals are noticed meanwhile, too."""

    def __init__(self, connection: sqlite3.Connection, file_bytes: int) -> None:
        self._budget = max(_LEAST, file_bytes // _ROW_BYTES * _STEPS_PER_ROW) // _STEPS
        self._used = 0
        connection.set_progress_handler(self._go_on, _STEPS)

    def renew(self) -> None:
        """Renew the budget; call it before each query."""
        self._used = 0

    @property
    def is_over(self) -> bool:
        """Whether the budget ended the last query."""
        return self._used > self._budget

    def _go_on(self) -> bool:
        self._used += 1
        return self._used > self._budget
