# SPDX-License-Identifier: Apache-2.0
"""Move SQLite's write-ahead log into the file in a background thread.

A commit only appends to the log. Moving the log into the file (a checkpoint) waits for the disk's
confirmation, which takes seconds when the disk is busy; so a separate thread waits.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress
from pathlib import Path

from nri_scope.recording.writable_file import connect, wal_of

# The writer appends to the log during the move. That is little, so one of the next rounds may reach
# the log's end; only then does SQLite restart the log instead of growing it.
_ROUNDS = 3
_REST_SECONDS = 0.5


class Checkpointer:
    """Keeps the write-ahead log of one recording short."""

    def __init__(self, path: Path, wanted: int, most: int) -> None:
        """Open a connection and start the thread. Up to ``wanted`` bytes of log, nothing is done;
        from ``most`` bytes on, the writer itself waits for the move.

        Raises sqlite3.Error.
        """
        self._wal = wal_of(path)
        self._wanted = wanted
        self._most = most
        self._limit = most
        self._connection = connect(path)
        self._busy = threading.Lock()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nri-scope-disk", daemon=True)
        self._thread.start()

    def committed(self) -> None:
        """Check the log's size. The writer calls this after each transaction, outside of one."""
        size = self._size()
        if size <= self._wanted:
            self._limit = self._most
        elif size <= self._limit:
            self._wake.set()
        elif self._move():
            self._limit = self._most
        else:
            # A reader still uses the log's content: waiting for it does not help.
            self._limit = size + self._most

    def soon(self) -> None:
        """Move the log now, so that a shortened file is also shortened on the disk."""
        self._wake.set()

    def close(self) -> None:
        """Stop after the current round."""
        self._closing.set()
        self._wake.set()
        self._thread.join()
        with suppress(sqlite3.Error):
            self._connection.close()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            for _ in range(_ROUNDS):
                if self._closing.is_set():
                    return
                if self._move():
                    break
            # Continuous retries do not help if a disk is too slow.
            self._closing.wait(_REST_SECONDS)

    def _move(self) -> bool:
        """Move the log into the file; return whether all of it has been moved."""
        with self._busy:
            try:
                # (whether it was busy, pages in the log, pages moved to the file)
                _, pages, moved = self._connection.execute(
                    "PRAGMA wal_checkpoint(PASSIVE)"
                ).fetchone()
            except sqlite3.Error:
                # The writer gets the same error and reports it.
                return False
        return bool(pages == moved)

    def _size(self) -> int:
        # SQLite truncates the log to journal_size_limit when it restarts it, so a larger one is
        # still in use.
        try:
            return self._wal.stat().st_size
        except OSError:
            return 0
