# SPDX-License-Identifier: Apache-2.0
"""Names that many events share, each stored once."""

from __future__ import annotations

import sqlite3

from nri_scope.recording.row_limits import TableLimits
from nri_scope.recording.sqlite_text import named

# A runtime has about thirty names. Those beyond this limit are looked up in the file.
_KNOWN = 4_096


class Names:
    """Finds or makes the rows of the table ``name``. Raises sqlite3.Error and LimitReached."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._ids: dict[str, int] = dict(
            connection.execute(
                "SELECT text, id FROM name ORDER BY id LIMIT ?", (_KNOWN,)
            ).fetchall()
        )
        self._limits = TableLimits.of_names(connection, "name", ["text"])

    def id(self, text: str) -> int:
        """Return the number of ``text``; a new row is written at once."""
        known = self._ids.get(text)
        if known is not None:
            return known
        text = named(text)
        found = self._connection.execute("SELECT id FROM name WHERE text = ?", (text,)).fetchone()
        number = int(found[0]) if found else self._insert(text)
        if len(self._ids) < _KNOWN:
            self._ids[text] = number
        return number

    def _insert(self, text: str) -> int:
        self._limits.reserve(len(text))
        row = self._connection.execute("INSERT INTO name (text) VALUES (?)", (text,)).lastrowid
        assert row is not None
        return row
