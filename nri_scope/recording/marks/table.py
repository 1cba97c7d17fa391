# SPDX-License-Identifier: Apache-2.0
"""Read and write the marks in a recording, its table ``mark``."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path

from nri_scope.errors import RecordingError
from nri_scope.events import MAX_COMMENT, MAX_MARKS, Mark, MarkKey

from ..file_errors import error_words
from ..reader import Recording
from ..rows import ascending as in_order
from ..rows import mark_of
from ..schema import TABLES, plain_sql, table_sql
from ..schema_check import check, check_schema
from ..sqlite_errors import recording_errors
from ..sqlite_text import storable
from ..trusted_location import JOURNAL, companion, is_private
from ..work_budget import QueryBudget
from ..writable_file import connect, wal_of
from .recorder_lock import RecorderLockProbe

_BUSY_MS = 2_000
_POLL_SECONDS = 0.005
_MARK = next(table for table in TABLES if table.name == "mark")
_PUT = """
INSERT INTO mark (event, made_ns, comment) SELECT id, ?, ? FROM event WHERE id = ? AND at_ns = ?
ON CONFLICT (event) DO UPDATE SET made_ns = excluded.made_ns, comment = excluded.comment
WHERE mark.made_ns <= excluded.made_ns
"""


class Refused(Exception):
    """Marks cannot be stored in the recording now. The text is the reason."""


def marks_in(recording: Recording) -> list[Mark]:
    """Return the marks of existing events, ordered by event. Raises RecordingError."""
    with recording_errors(recording):
        rows = recording.rows(
            "SELECT m.event, e.at_ns, substr(m.comment, 1, ?), m.made_ns "
            "FROM mark AS m JOIN event AS e ON e.id = m.event ORDER BY m.event LIMIT ?",
            (MAX_COMMENT, MAX_MARKS),
        )
        return [mark_of(row) for row in in_order(rows, (0,))]


def may_write(path: Path) -> bool:
    """Return whether the user may write to a recording; False for a read-only one, even for root.

    Also False if other users could replace the recording or its companions.
    """
    try:
        status, folder = path.lstat(), path.parent.stat()
        return _is_writable(path, status, folder)
    except OSError:
        return False


def _is_writable(path: Path, status: os.stat_result, folder: os.stat_result) -> bool:
    return (
        stat.S_ISREG(status.st_mode)
        and bool(status.st_mode & stat.S_IWUSR and folder.st_mode & stat.S_IWUSR)
        and os.access(path, os.W_OK)
        # SQLite creates its journal in the folder.
        and os.access(path.parent, os.W_OK | os.X_OK)
        and is_private(path)
    )


def put(path: Path, changes: Iterable[Mark], probe: RecorderLockProbe) -> set[MarkKey]:
    """Store changed marks in the recording; return the keys of the stored marks.

    Marks of events that the recording lacks are not stored. Concurrent calls lose no change: the
    newer of two marks of one event is kept. ``path`` must not be a symbolic link. Raises Refused,
    with nothing changed, if a recorder is writing to the recording, it is a bundle or not writable,
    or another error occurs.
    """
    if not may_write(path):
        raise Refused("it is not writable")
    _wait_for_journal(path)
    try:
        if probe.is_recorder_active():
            raise Refused("it is being recorded")
        with closing(connect(path)) as connection:
            _set_up(connection, path)
            connection.execute("BEGIN IMMEDIATE")
            # A recorder that starts from here on waits for this transaction.
            if probe.is_recorder_active():
                raise Refused("it is being recorded")
            _check(connection, path)
            kept = {mark.key for mark in changes if _put(connection, mark)}
            connection.execute("COMMIT")
            _settle(connection)
    except RecordingError as error:
        raise Refused(error.problem) from error
    except (sqlite3.Error, OSError) as error:
        raise Refused(error_words(error)) from error
    return kept


def _wait_for_journal(path: Path) -> None:
    """Wait for a write in progress. Raises Refused if it was interrupted."""
    until = time.monotonic() + _BUSY_MS / 1000
    while os.path.lexists(companion(path, JOURNAL)):
        if time.monotonic() > until:
            raise Refused("a write to it was interrupted")
        time.sleep(_POLL_SECONDS)


def settle(path: Path) -> None:
    """Merge a leftover log into the recording if no other process has it open. Never raises."""
    if wal_of(path).exists() and may_write(path) and not os.path.lexists(companion(path, JOURNAL)):
        with suppress(sqlite3.Error), closing(connect(path)) as connection:
            _settle(connection)


def _set_up(connection: sqlite3.Connection, path: Path) -> None:
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute("PRAGMA temp_store = MEMORY")
    # Overwrite removed comments.
    connection.execute("PRAGMA secure_delete = ON").fetchall()
    QueryBudget(connection, path.stat().st_size)


def _check(connection: sqlite3.Connection, path: Path) -> None:
    """Check that the file is a recording with no SQL that a write would execute.

    Raises Refused and RecordingError.
    """
    check(connection, path)
    # This excludes triggers. Indexes and CHECK constraints could contain expressions too, and no
    # recorder adds them to this table.
    check_schema(connection, path)
    existing = connection.execute(
        "SELECT type, sql FROM sqlite_master WHERE lower(tbl_name) = ?", (_MARK.name,)
    ).fetchall()
    expected = table_sql(_MARK)
    if not existing:
        connection.execute(expected)
    elif [(kind, plain_sql(str(sql))) for kind, sql in existing] != [
        ("table", plain_sql(expected))
    ]:
        raise Refused("its table of marks has another definition")


def _put(connection: sqlite3.Connection, mark: Mark) -> bool:
    known = connection.execute(
        "SELECT 1 FROM event WHERE id = ? AND at_ns = ?", (mark.event, mark.at_ns)
    ).fetchone()
    if known is None:
        return False
    if mark.gone:
        connection.execute(
            "DELETE FROM mark WHERE event = ? AND made_ns <= ?", (mark.event, mark.made_ns)
        )
    else:
        connection.execute(_PUT, (mark.made_ns, storable(mark.comment), mark.event, mark.at_ns))
    return True


def _settle(connection: sqlite3.Connection) -> None:
    # A recorder leaves its log if it is killed, or if another process reads the file when it ends.
    with suppress(sqlite3.Error):
        connection.execute("PRAGMA busy_timeout = 0")
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        if mode == "wal":
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            connection.execute("PRAGMA journal_mode = DELETE").fetchall()
