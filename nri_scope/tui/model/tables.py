# SPDX-License-Identifier: Apache-2.0
"""Sessions and gaps of a recording that grows: made anew only where their tables have changed."""

from __future__ import annotations

from nri_scope.recorder.model import Gap, Session
from nri_scope.recorder.reader import MAX_ROWS, Recording
from nri_scope.recorder.sound import sound

_Rows = list[tuple[object, ...]]


class Tables:
    """For one thread. With a thousand reconnects, to look whether any of it has changed takes a
    fifth of the time that it takes to make all of it.
    """

    def __init__(self) -> None:
        self.sessions: tuple[Session, ...] = ()
        """Oldest first; the same object as long as nothing of the table has changed."""
        self.gaps: tuple[Gap, ...] = ()
        """By their beginnings; likewise."""
        self._session_rows: _Rows | None = None
        self._gap_rows: _Rows | None = None

    def read(self, recording: Recording) -> None:
        """Look at the tables. Raises RecordingError."""
        # The rows come first: what is written in between is then found to have changed next time.
        sessions, gaps = _rows(recording, "session"), _rows(recording, "gap")
        changed = sessions != self._session_rows
        if changed:
            self.sessions = tuple(recording.sessions())
            self._session_rows = sessions
        # Between sessions are gaps, too.
        if changed or gaps != self._gap_rows:
            self.gaps = tuple(recording.gaps())
            self._gap_rows = gaps


def _rows(recording: Recording, table: str) -> _Rows:
    with sound(recording):
        query = f"SELECT * FROM {table} ORDER BY id LIMIT {MAX_ROWS}"
        return recording.connection.execute(query).fetchall()
