# SPDX-License-Identifier: Apache-2.0
"""Limits of the rows, names and texts of tables that readers load into memory as a whole.

Readers refuse a file that exceeds them: many events refer to the same row of a session, a pod, a
container or a name, so a name of megabytes would be read again with every event. A recorder stops
at fewer rows and characters, and reports the rest in gaps.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from nri_scope.errors import RecordingError
from nri_scope.events import SessionStart

from .schema import TABLES
from .sqlite_text import NAME_MAX, WORDS_MAX, characters_sql, int64, named

MAX_ROWS = 250_000
"""Maximum number of sessions, of gaps and of notes that readers accept."""
MAX_TEXT = 32 << 20
"""Maximum number of characters in the reasons of all gaps, and in all notes, for readers."""
MAX_NAMED = 1_000_000
"""Maximum number of pods, of containers and of names."""
MAX_CHARACTERS = 64 << 20
"""Maximum number of characters of all names of pods, and so on."""
MAX_SESSIONS = 100_000
"""Maximum number of sessions. Each Configure begins one, and a faulty runtime may repeat it."""
TOO_MANY_SESSIONS = (
    f"the recording has {MAX_SESSIONS:,} sessions, or too long names of them, and takes no more"
)
MAX_GAPS = 200_000
"""Maximum number of gaps, and of notes; less than readers accept."""
MAX_WORDS = 24 << 20
"""Maximum number of characters in all gaps' reasons, and in all notes; less than readers accept."""
TOO_MANY_GAPS = "the recording has so many gaps that these are not told apart"
TOO_MANY_NOTES = "the recording has so many notes that it takes no more"

_TABLES = tuple(table for table in TABLES if table.name in ("session", "pod", "container", "name"))


class LimitReached(Exception):
    """Full table. The text is the reason for the resulting gap."""


class TableLimits:
    """Limits for the rows and characters of one table. Methods raise sqlite3.Error."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        table: str,
        texts: Sequence[str],
        rows: int,
        characters: int,
        reason: str,
    ) -> None:
        """Set the limits of ``table``.

        ``texts``: names of its text columns; ``rows`` and ``characters``: the maximum numbers;
        ``reason``: text of LimitReached.
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
        """Return the limits of a table of names, which are those of `check_names`."""
        reason = f"the recording has too many {table}s, or too long names of them, to take more"
        return cls(connection, table, texts, MAX_NAMED, MAX_CHARACTERS, reason)

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
        """Count the file's rows again, after rows were removed or rolled back."""
        self._is_counted = False


class RowLimits:
    """Limits for sessions, gaps and notes. Refused rows are reported in gaps. Methods raise
    sqlite3.Error.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        most = MAX_CHARACTERS
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
        """Ids of the gaps that report refused rows, by reason."""

    def reserve(self, table: str, characters: int) -> bool:
        """Reserve one row; return False if the table is full."""
        try:
            self._limits[table].reserve(characters)
        except LimitReached:
            return False
        return True

    def reserve_session(self, start: SessionStart) -> bool:
        """Reserve a session and the text of its end reason; return False if the table is full."""
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
        """Count the rows of all tables again, as `TableLimits.recount` does."""
        for limits in self._limits.values():
            limits.recount()

    def refuse(self, reason: str, from_ns: int, to_ns: int, lost: int) -> bool:
        """Record refused rows or events in one gap per reason; return whether the gap is new."""
        values = (int64(from_ns), int64(to_ns), lost)
        row = self._refused_in.get(reason)
        # The gap may no longer exist: the ring removes gaps, and transactions are rolled back.
        if row is not None and self._extend("id = ?", row, reason, values):
            return False
        newest = "id = (SELECT max(id) FROM gap WHERE reason = ?)"
        if not self.reserve("gap", len(reason)) and self._extend(newest, reason, reason, values):
            return False
        row = self._connection.execute(
            "INSERT INTO gap (from_ns, to_ns, reason, lost) VALUES (?, ?, ?, ?)",
            (*values[:2], reason, lost),
        ).lastrowid
        assert row is not None
        self._refused_in[reason] = row
        return True

    def _extend(
        self, condition: str, value: int | str, reason: str, values: tuple[int, int, int]
    ) -> bool:
        updated = self._connection.execute(
            "UPDATE gap SET from_ns = min(from_ns, ?), to_ns = max(to_ns, ?), lost = lost + ? "
            f"WHERE {condition} AND reason = ?",
            (*values, value, reason),
        )
        return updated.rowcount > 0


def check_names(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a recording with too many names, or with one of more than `NAME_MAX` characters.

    Raises RecordingError and sqlite3.Error.
    """
    for table in _TABLES:
        texts = [column.name for column in table.columns if column.type.startswith("TEXT")]
        # The number of bytes is an upper bound, and takes half the time to count.
        size = " + ".join(f"coalesce(length(CAST({name} AS BLOB)), 0)" for name in texts)
        rows, largest = connection.execute(
            f"SELECT count(*), coalesce(max({size}), 0) FROM main.{table.name}"
        ).fetchone()
        if rows <= MAX_NAMED and largest <= min(NAME_MAX, MAX_CHARACTERS // max(1, rows)):
            continue
        lengths = [f"coalesce({characters_sql(name)}, 0)" for name in texts]
        longest = lengths[0] if len(lengths) == 1 else f"max({', '.join(lengths)})"
        characters, longest_one = connection.execute(
            f"SELECT total(min({' + '.join(lengths)}, {NAME_MAX * len(texts)})), "
            f"coalesce(max({longest}), 0) FROM main.{table.name}"
        ).fetchone()
        if rows > MAX_NAMED or characters > MAX_CHARACTERS or longest_one > NAME_MAX:
            raise RecordingError(
                path,
                f"its {table.name}s have too many names, or names that are too long",
                "nri-scope never writes such a recording: do not trust it",
            )
