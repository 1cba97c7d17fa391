# SPDX-License-Identifier: Apache-2.0
"""Roll back the interrupted write of a killed process.

Without SQLite's WAL mode, which only recorders use, a write saves the previous pages in a journal
beside the file. If the journal exists and no process holds the lock, SQLite must restore these
pages before the file can be read, for which the user needs write permission.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

from nri_scope.errors import RecordingError

from .trusted_location import JOURNAL, companion

_BUSY_TIMEOUT_MS = 2_000
_SUPER_JOURNAL = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
"""Last bytes of a journal that names a super-journal, a file that SQLite may delete."""


def is_interrupted(error: sqlite3.Error | UnicodeError) -> bool:
    """Return whether an interrupted write must be rolled back before the file can be read."""
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_ROLLBACK


def refuse_another_file(path: Path, journal: int) -> None:
    """Raise RecordingError if an open journal of ``path`` names a file that SQLite would delete.

    Raises OSError, too.
    """
    end = os.fstat(journal).st_size
    if os.pread(journal, len(_SUPER_JOURNAL), max(0, end - 8)) == _SUPER_JOURNAL:
        raise RecordingError(
            path,
            f"{path.name}{JOURNAL} beside it names another file, which SQLite would delete",
            "nri-scope never writes such a journal: do not trust the recording, nor open it with "
            "sqlite3",
        )


def undo(path: Path) -> bool:
    """Roll back the interrupted write; return whether that succeeded.

    Call it only if no other user can replace the journal (`trusted_location.opening_by_name`).
    Raises RecordingError if the journal cannot be trusted.
    """
    try:
        opened = os.open(
            companion(path, JOURNAL), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )
        try:
            if not stat.S_ISREG(os.fstat(opened).st_mode):
                return False
            refuse_another_file(path, opened)
        finally:
            os.close(opened)
    except FileNotFoundError:
        # Another process has rolled it back in the meantime.
        return True
    except OSError:
        return False
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True)) as connection:
            connection.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
            connection.execute("PRAGMA trusted_schema = OFF")
            # Any read of the file makes SQLite roll back.
            connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error:
        return False
    return True
