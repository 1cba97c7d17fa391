# SPDX-License-Identifier: Apache-2.0
"""Interrupt queries that would never end on a damaged or forged file.

A cycle of pages yields endless rows, and a query that selects none of them would never return. An
intact file has at most as many rows as fit into its size.
"""

from __future__ import annotations

import sqlite3

_STEPS_PER_CALL = 100_000
"""SQLite virtual machine steps between two calls of the progress handler."""
_STEPS_PER_ROW = 2_000
"""Allowed steps per row, sufficient for joins and a large filter."""
_ROW_BYTES = 40
"""Minimum size of a row."""
_MIN_STEPS = 50_000_000


class QueryBudget:
    """Limit for the steps of a query on one connection. Also lets Python handle signals."""

    def __init__(self, connection: sqlite3.Connection, file_bytes: int) -> None:
        self._budget = max(_MIN_STEPS, file_bytes // _ROW_BYTES * _STEPS_PER_ROW) // _STEPS_PER_CALL
        self._used = 0
        connection.set_progress_handler(self._is_exhausted, _STEPS_PER_CALL)

    def renew(self) -> None:
        """Renew the budget; call it before each query."""
        self._used = 0

    @property
    def is_over(self) -> bool:
        """Whether the last query was interrupted."""
        return self._used > self._budget

    def _is_exhausted(self) -> bool:
        self._used += 1
        return self._used > self._budget
