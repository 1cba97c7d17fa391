# SPDX-License-Identifier: Apache-2.0
"""Limits for the rows that readers hold in memory at once.

Readers refuse files above these limits, so a recorder that exceeded them would write an unreadable
file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from nri_scope.events import SessionStart

from . import long_names
from .schema import TABLES
from .sqlite_text import NAME_MAX, WORDS_MAX, characters_sql, int64, named

MAX_SESSIONS = 100_000
"""Maximum number of sessions. A runtime that repeats Configure begins a new one each time."""
TOO_MANY_SESSIONS = (
    f"the recording has {MAX_SESSIONS:,} sessions, or too long names of them, and takes no more"
)
MAX_GAPS = 200_000
"""Maximum number of gaps of a recording, and also of notes; fewer than readers accept."""
MAX_WORDS = 24 << 20
"""Maximum number of characters of all gaps' reasons, or of all notes; fewer than readers accept."""
TOO_MANY_GAPS = "the recording has so many gaps that these are not told apart"
TOO_MANY_NOTES = "the recording has so many notes that it takes no more"


class LimitReached(Exception):
    """A table is full; the text is the reason of the resulting gap."""


class TableLimits:
    """Counts the rows and the characters of a table. Methods raise sqlite3.Error."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        table: str,
        texts: Sequence[str],
        rows: int,
        characters: int,
        reason: str,
    ) -> None:
        """Set the limits of a table. ``texts``: its columns with text; ``rows`` and ``characters``:
        the largest numbers of them.
        """
        self._connection = connection
        lengths = " + ".join(
            f"min(coalesce({characters_sql(text)}, 0), {WORDS_MAX})" for text in texts
        )
        self._query = f"SELECT count(*), coalesce(sum({lengths}), 0) FROM {table}"
        self._most = rows, characters
        self._reason = reason
        self._rows = self._characters = 0
        self._is_counted = False

    @classmethod
    def of_names(
        cls, connection: sqlite3.Connection, table: str, texts: Sequence[str]
    ) -> TableLimits:
        """Return the limits of a table of names, as in `long_names`."""
        reason = f"the recording has too many {table}s, or too long names of them, to take more"
        return cls(
            connection, table, texts, long_names.MAX_NAMED, long_names.MAX_CHARACTERS, reason
        )

    def reserve(self, characters: int, rows: int = 1) -> None:
        """Reserve space for rows to be written. Raises LimitReached, and reserves nothing, if the
        table is full.
        """
        if not self._is_counted:
            self._rows, self._characters = self._connection.execute(self._query).fetchone()
            self._is_counted = True
        most_rows, most_characters = self._most
        if self._rows + rows > most_rows or self._characters + characters > most_characters:
            raise LimitReached(self._reason)
        self._rows += rows
        self._characters += characters

    def recount(self) -> None:
        """Count the file's rows again: rows were removed, or rolled back."""
        self._is_counted = False


class RowLimits:
    """The limits for sessions, gaps and notes; gaps report what exceeds them.
    Raises sqlite3.Error.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        most = long_names.MAX_CHARACTERS
        names = [
            column.name
            for table in TABLES
            for column in table.columns
            if table.name == "session" and column.type.startswith("TEXT")
        ]
        self._limits = {
            "session": TableLimits(
                connection, "session", names, MAX_SESSIONS, most, TOO_MANY_SESSIONS
            ),
            "gap": TableLimits(connection, "gap", ["reason"], MAX_GAPS, MAX_WORDS, TOO_MANY_GAPS),
            "note": TableLimits(connection, "note", ["text"], MAX_GAPS, MAX_WORDS, TOO_MANY_NOTES),
        }
        self._refused_in: dict[str, int] = {}
        """Gaps for refused rows, by reason."""

    def reserve(self, table: str, characters: int) -> bool:
        """Count one more row, and return whether the table has room for it."""
        try:
            self._limits[table].reserve(characters)
        except LimitReached:
            return False
        return True

    def reserve_session(self, start: SessionStart) -> bool:
        """Return whether there is room for a session and the reason of its end."""
        names = (
            start.plugin_name,
            start.plugin_index,
            start.runtime_name,
            start.runtime_version,
            start.nri_version,
        )
        characters = len(start.role) + NAME_MAX + sum(len(named(name)) for name in names)
        return self.reserve("session", characters)

    def recount(self) -> None:
        """Count again, as `TableLimits.recount` does."""
        for room in self._limits.values():
            room.recount()

    def refuse(self, reason: str, from_ns: int, to_ns: int, lost: int) -> bool:
        """Record one gap for each reason of refusal; return whether the gap is new."""
        told = (int64(from_ns), int64(to_ns), lost)
        row = self._refused_in.get(reason)
        # The gap may be gone: the ring removes gaps, and its transaction may have been rolled back.
        if row is not None and self._grow("id = ?", row, reason, told):
            return False
        newest = "id = (SELECT max(id) FROM gap WHERE reason = ?)"
        if not self.reserve("gap", len(reason)) and self._grow(newest, reason, reason, told):
            return False
        row = self._connection.execute(
            "INSERT INTO gap (from_ns, to_ns, reason, lost) VALUES (?, ?, ?, ?)",
            (*told[:2], reason, lost),
        ).lastrowid
        assert row is not None
        self._refused_in[reason] = row
        return True

    def _grow(
        self, condition: str, value: int | str, reason: str, told: tuple[int, int, int]
    ) -> bool:
        updated = self._connection.execute(
            "UPDATE gap SET from_ns = min(from_ns, ?), to_ns = max(to_ns, ?), lost = lost + ? "
            f"WHERE {condition} AND reason = ?",
            (*told, value, reason),
        )
        return updated.rowcount > 0
