# SPDX-License-Identifier: Apache-2.0
"""Limit the size of all recordings in a folder, by removing the oldest finished ones."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from nri_scope.recording.file.file_errors import error_words
from nri_scope.recording.file.heartbeat import heartbeat_of
from nri_scope.recording.file.schema import APPLICATION_ID
from nri_scope.recording.file.trusted_location import COMPANIONS, companion, try_lock
from nri_scope.recording.file.writable_file import wal_of, wal_status

_SUFFIX = ".nriscope.db"
CHECK_SECONDS = 5.0
"""Seconds after which the size is checked again."""
_MAGIC = b"SQLite format 3\0"
_ID_OFFSET = 68
"""Offset of the application's id in the header of an SQLite file."""


class _RecordingFile(NamedTuple):
    modified_ns: int
    path: Path
    size: int
    """Bytes of the file and its write-ahead log."""


class FolderBudget:
    """Size limit that all recorders of a folder share."""

    def __init__(self, recording: Path, max_bytes: int) -> None:
        """Limit the folder of ``recording``, which itself is counted but never removed."""
        self._recording = recording
        self._max_bytes = max_bytes
        self._due = 0.0

    @property
    def is_due(self) -> bool:
        """Whether the last call of `apply` was some seconds ago."""
        return time.monotonic() >= self._due

    def apply(self) -> Iterator[str]:
        """Remove the oldest finished recordings while all together exceed the limit.

        Yields a line about each recording that was or could not be removed.
        """
        self._due = time.monotonic() + CHECK_SECONDS
        try:
            recordings = sorted(self._recordings())
        except OSError as error:
            yield f"{self._recording.parent}: its size is unknown: {error_words(error)}"
            return
        total = sum(recording.size for recording in recordings)
        for _, path, size in recordings:
            if total <= self._max_bytes:
                return
            if path.name == self._recording.name or not size:
                continue
            try:
                removed = _remove(path)
            except OSError as error:
                yield f"{path}: it cannot be removed: {error_words(error)}"
                continue
            if removed:
                total -= size
                yield (
                    f"{path}: removed, as the recordings in its folder exceeded "
                    f"{self._max_bytes} bytes"
                )

    def _recordings(self) -> Iterator[_RecordingFile]:
        with os.scandir(self._recording.parent) as entries:
            for entry in entries:
                is_own = entry.name == self._recording.name
                if not is_own and not entry.name.endswith(_SUFFIX):
                    continue
                with suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        path = self._recording.with_name(entry.name)
                        wal_bytes, wal_ns = wal_status(wal_of(path))
                        yield _RecordingFile(
                            max(status.st_mtime_ns, wal_ns), path, status.st_size + wal_bytes
                        )


def _remove(path: Path) -> bool:
    """Remove a recording of this user, unless it is being recorded. Raises OSError."""
    lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        header = os.pread(lock, _ID_OFFSET + 4, 0)
        status = os.fstat(lock)
        if (
            status.st_uid != os.geteuid()
            or not header.startswith(_MAGIC)
            or header[_ID_OFFSET:] != APPLICATION_ID.to_bytes(4, "big")
        ):
            return False
        # Held during the removal: a recorder that continues the file would need it.
        if not try_lock(lock):
            return False
        # The file first: without its log it would be incomplete, or damaged.
        companions = (companion(path, suffix) for suffix in COMPANIONS)
        for file in (path, *companions, heartbeat_of(path)):
            file.unlink(missing_ok=True)
        return True
    finally:
        os.close(lock)
