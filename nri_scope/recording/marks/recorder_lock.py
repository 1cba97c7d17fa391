# SPDX-License-Identifier: Apache-2.0
"""The lock that shows whether a recorder writes to a file."""

from __future__ import annotations

import fcntl
import os
import stat
import threading
from pathlib import Path

from ..writable_file import is_recorded_by_this_process


class RecorderLockProbe:
    """Checks whether a recorder holds a recording's lock, by taking it for a moment.

    It keeps the file open until `close`, which has to wait until all other code of this process has
    closed the file: POSIX drops all of a process's locks on a file, including SQLite's, when the
    process closes any descriptor of it.
    """

    def __init__(self, path: Path) -> None:
        """Store the path of a recording, which must not be a symbolic link."""
        self._path = path
        self._opened: dict[tuple[int, int], int] = {}
        self._one_asks = threading.Lock()

    def is_recorder_active(self) -> bool:
        """Return whether a recorder is writing to the file. Raises OSError if not a plain file."""
        status = os.lstat(self._path)
        identity = status.st_dev, status.st_ino
        if is_recorded_by_this_process(identity):
            return True
        if not stat.S_ISREG(status.st_mode):
            raise FileNotFoundError(self._path)
        with self._one_asks:
            lock = self._lock_of(identity)
            try:
                # Shared, so that two processes can check at the same time.
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            fcntl.flock(lock, fcntl.LOCK_UN)
            return False

    def _lock_of(self, identity: tuple[int, int]) -> int:
        lock = self._opened.get(identity)
        if lock is None:
            lock = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            status = os.fstat(lock)
            self._opened[status.st_dev, status.st_ino] = lock
        return lock

    def close(self) -> None:
        """Close the file."""
        for lock in self._opened.values():
            os.close(lock)
        self._opened.clear()
