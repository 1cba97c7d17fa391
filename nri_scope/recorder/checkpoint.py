# SPDX-License-Identifier: Apache-2.0
"""Moving SQLite's write-ahead log into the file, beside the writer.

A commit only appends to the log. Moving it into the file waits until the disk says that it is
there, which takes seconds when the disk has other work; so a thread of its own waits.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress
from pathlib import Path

from nri_scope.recording.writable_file import connect, wal_of

# The writer adds to the log while it is moved. What was added is little, so the next round may
# meet its end; only then it begins anew instead of growing.
_ROUNDS = 3
_REST_SECONDS = 0.5


class Checkpointer:
    """Keeps the log of one recording short."""

    def __init__(self, path: Path, wanted: int, most: int) -> None:
        """Begin. ``wanted`` bytes of log are fine; with ``most`` the writer has to wait.

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
        """To be called by the writer after each transaction, outside of one."""
        size = self._size()
        if size <= self._wanted:
            self._limit = self._most
        elif size <= self._limit:
            self._wake.set()
        elif self._move():
            self._limit = self._most
        else:
            # Somebody reads what is in the log: waiting for them is no use.
            self._limit = size + self._most

    def soon(self) -> None:
        """Move the log now, so that a file that became shorter does so on the disk."""
        self._wake.set()

    def close(self) -> None:
        """End, after the round that is under way."""
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
            # A disk that is too slow is not helped by asking it all the time.
            self._closing.wait(_REST_SECONDS)

    def _move(self) -> bool:
        """Returns whether all of the log is in the file now."""
        with self._busy:
            try:
                # (whether it was busy, pages in the log, pages of it in the file)
                _, pages, moved = self._connection.execute(
                    "PRAGMA wal_checkpoint(PASSIVE)"
                ).fetchone()
            except sqlite3.Error:
                # The writer meets the same disk, and tells of it.
                return False
        return bool(pages == moved)

    def _size(self) -> int:
        # SQLite cuts the log back to journal_size_limit when it begins anew, so a larger one is
        # still in use.
        try:
            return self._wal.stat().st_size
        except OSError:
            return 0
