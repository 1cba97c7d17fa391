# SPDX-License-Identifier: Apache-2.0
"""Detect whether a recorder is writing to a file, by its lock."""

from __future__ import annotations

import fcntl
import os
import stat
import threading
from pathlib import Path

from ..writable_file import is_recorded_by_this_process


class RecorderLockProbe:
    """Checks whether a recorder has locked a recording, by briefly trying to take the lock.

    The file stays open until `close`, which must be called after all other code of this process has
    closed the file: when a process closes any descriptor of a file, POSIX drops all of its locks on
    the file, including SQLite's.
    """

    def __init__(self, path: Path) -> None:
        """Prepare to check ``path``, which must not be a symbolic link."""
        self._path = path
        self._opened: dict[tuple[int, int], int] = {}
        self._check_lock = threading.Lock()

    def is_recorder_active(self) -> bool:
        """Return whether a recorder is writing to the file.

        Raises OSError, including when the file is not a regular file.
        """
        status = os.lstat(self._path)
        identity = status.st_dev, status.st_ino
        if is_recorded_by_this_process(identity):
            return True
        if not stat.S_ISREG(status.st_mode):
            raise FileNotFoundError(self._path)
        with self._check_lock:
            lock = self._open(identity)
            try:
                # A shared lock, so that several processes can check concurrently.
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            fcntl.flock(lock, fcntl.LOCK_UN)
            return False

    def _open(self, identity: tuple[int, int]) -> int:
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
