# SPDX-License-Identifier: Apache-2.0
"""Move SQLite's write-ahead log into the file in a background thread.

A commit only appends to the log. Moving the log into the file (a checkpoint) waits for an fsync,
which takes seconds on a busy disk, so a separate thread does it.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress
from pathlib import Path

from nri_scope.recording.writable_file import connect, wal_of

# The writer appends to the log while it is moved. SQLite restarts the log, instead of growing it,
# only when a checkpoint reaches the log's end; a later attempt has less left to move.
_ATTEMPTS = 3
_PAUSE_SECONDS = 0.5


class Checkpointer:
    """Background thread that keeps the write-ahead log of one recording short."""

    def __init__(self, path: Path, target_bytes: int, max_bytes: int) -> None:
        """Open a connection and start the thread.

        A log of up to ``target_bytes`` is left alone; above ``max_bytes`` the writer itself moves
        it. Raises sqlite3.Error.
        """
        self._wal = wal_of(path)
        self._target_bytes = target_bytes
        self._max_bytes = max_bytes
        self._limit = max_bytes
        self._connection = connect(path)
        self._busy = threading.Lock()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nri-scope-disk", daemon=True)
        self._thread.start()

    def after_commit(self) -> None:
        """Check the log's size. Called by the writer after each transaction, outside of one."""
        size = self._size()
        if size <= self._target_bytes:
            self._limit = self._max_bytes
        elif size <= self._limit:
            self._wake.set()
        elif self._move():
            self._limit = self._max_bytes
        else:
            # A reader still uses the log, so another attempt now would fail as well.
            self._limit = size + self._max_bytes

    def request(self) -> None:
        """Ask the thread to move the log now, which also truncates a shortened file."""
        self._wake.set()

    def close(self) -> None:
        """Stop the thread after its current attempt, and close the connection."""
        self._closing.set()
        self._wake.set()
        self._thread.join()
        with suppress(sqlite3.Error):
            self._connection.close()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            for _ in range(_ATTEMPTS):
                if self._closing.is_set():
                    return
                if self._move():
                    break
            # Retrying without a pause does not help if the disk is too slow.
            self._closing.wait(_PAUSE_SECONDS)

    def _move(self) -> bool:
        """Move the log into the file; return whether the whole log was moved."""
        with self._busy:
            try:
                # Columns: busy flag, pages in the log, pages moved to the file.
                _, pages, moved = self._connection.execute(
                    "PRAGMA wal_checkpoint(PASSIVE)"
                ).fetchone()
            except sqlite3.Error:
                # The writer gets the same error and reports it.
                return False
        return bool(pages == moved)

    def _size(self) -> int:
        # SQLite truncates the log to journal_size_limit when it restarts the log. A larger log is
        # still in use.
        try:
            return self._wal.stat().st_size
        except OSError:
            return 0
