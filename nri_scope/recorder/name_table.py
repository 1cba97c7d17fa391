# SPDX-License-Identifier: Apache-2.0
"""Method, event and service names, which many events share: each is stored once."""

from __future__ import annotations

import sqlite3

from nri_scope.recording.row_limits import TableLimits
from nri_scope.recording.sqlite_text import named

_MAX_CACHED = 4_096
"""Number of cached names; others are looked up in the file. A runtime uses about thirty."""


class Names:
    """The table ``name``. Methods raise sqlite3.Error and LimitReached."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._ids: dict[str, int] = dict(
            connection.execute(
                "SELECT text, id FROM name ORDER BY id LIMIT ?", (_MAX_CACHED,)
            ).fetchall()
        )
        self._limits = TableLimits.of_names(connection, "name", ["text"])

    def id(self, text: str) -> int:
        """Return the id of ``text``; write a row immediately if it is new."""
        known = self._ids.get(text)
        if known is not None:
            return known
        text = named(text)
        found = self._connection.execute("SELECT id FROM name WHERE text = ?", (text,)).fetchone()
        number = int(found[0]) if found else self._insert(text)
        if len(self._ids) < _MAX_CACHED:
            self._ids[text] = number
        return number

    def _insert(self, text: str) -> int:
        self._limits.reserve(len(text))
        row = self._connection.execute("INSERT INTO name (text) VALUES (?)", (text,)).lastrowid
        assert row is not None
        return row
