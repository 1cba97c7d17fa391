# SPDX-License-Identifier: Apache-2.0
"""Copy a recording from a folder to which other users can write to a private folder for reading.

Files are opened without following links and without blocking, and are checked to be regular files
through their descriptors. The write-ahead log is moved into the copy.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from nri_scope.errors import RecordingError

from .file_errors import error_words, reading_hint
from .temporary_files import ELSEWHERE
from .trusted_location import (
    JOURNAL,
    WAL,
    FolderAccess,
    companion,
    folder_access,
    interrupted_write,
    status_of,
    trusted_users,
)

_ATTEMPTS = 8
_PAUSE_SECONDS = 0.05
_CHUNK_BYTES = 4 << 20
_WAL_HEADER_BYTES = 32
"""Size of the log's header. A changed header means that the log was restarted with other pages."""


@dataclass(frozen=True, slots=True)
class _Opened:
    path: Path
    descriptor: int
    status: os.stat_result

    def has_changed(self) -> bool:
        now = os.fstat(self.descriptor)
        return _contents(now) != _contents(self.status) or not self.is_at_its_name()

    def is_at_its_name(self) -> bool:
        try:
            there = os.lstat(self.path)
        except OSError:
            return False
        return (there.st_dev, there.st_ino) == (self.status.st_dev, self.status.st_ino)


def private_copy(path: Path, folder: Path) -> Path:
    """Copy the recording ``path`` and its log into ``folder``; return the merged copy.

    Raises RecordingError, also if there is not enough space, and sqlite3.Error for damage.
    """
    if folder_access(Path(os.path.realpath(folder))).access is FolderAccess.SHARED:
        raise RecordingError(path, f"no private copy of it can be made in {folder}", ELSEWHERE)
    copy = folder / "recording.db"
    for attempt in range(_ATTEMPTS):
        time.sleep(_PAUSE_SECONDS * attempt)
        if _copied(path, copy):
            _merge_log(path, copy)
            return copy
    raise RecordingError(
        path, "it changes faster than it can be copied", "try again, or run as its owner"
    )


def _copied(path: Path, copy: Path) -> bool:
    """Copy the file and its log; return whether the copies are consistent."""
    with ExitStack() as stack:
        main = _opened(path, stack)
        if main is None:
            raise RecordingError(path, "no such file", "check the path")
        wal = _opened_beside(path, WAL, main.status.st_uid, stack)
        if _opened_beside(path, JOURNAL, main.status.st_uid, stack) is not None:
            raise interrupted_write(path)
        _check_room(path, copy.parent, [main, wal])
        header = os.pread(wal.descriptor, _WAL_HEADER_BYTES, 0) if wal is not None else b""
        # The log is copied after the file: it still contains pages moved into the file meanwhile.
        for opened, suffix in ((main, ""), (wal, WAL)):
            companion(copy, suffix).unlink(missing_ok=True)
            if opened is not None:
                _copy(path, opened, companion(copy, suffix))
        journal = status_of(companion(path, JOURNAL))
        if journal is not None and journal.st_size:
            return False
        if wal is None:
            return not os.path.lexists(companion(path, WAL)) and not main.has_changed()
        same = os.pread(wal.descriptor, _WAL_HEADER_BYTES, 0) == header and wal.is_at_its_name()
        return same and main.is_at_its_name()


def _contents(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _opened(path: Path, stack: ExitStack) -> _Opened | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise _no_regular_file(path) from error
        words = error_words(error)
        raise RecordingError(path, f"{path.name}: {words}", reading_hint(words)) from error
    stack.callback(os.close, descriptor)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise _no_regular_file(path)
    return _Opened(path, descriptor, status)


def _no_regular_file(path: Path) -> RecordingError:
    return RecordingError(
        path, f"{path.name} is not a regular file", "remove it, or do not trust it"
    )


def _opened_beside(path: Path, suffix: str, owner: int, stack: ExitStack) -> _Opened | None:
    """Open a companion; return None if it is missing or empty."""
    found = _opened(companion(path, suffix), stack)
    if found is None or not found.status.st_size:
        return None
    if found.status.st_uid not in (owner, *trusted_users()):
        raise RecordingError(
            path,
            f"{found.path.name} beside it belongs to another user than the recording",
            "remove it, or copy only the recording to a folder of your own",
        )
    return found


def _check_room(path: Path, folder: Path, files: list[_Opened | None]) -> None:
    wanted = sum(file.status.st_size for file in files if file is not None)
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise _unwritable(path, folder, error_words(error)) from error
    if wanted > free:
        raise _unwritable(path, folder, f"it needs {wanted:,} bytes, and {free:,} are free")


def _unwritable(path: Path, folder: Path, words: str) -> RecordingError:
    # Named by its parent: the temporary folder itself will have been removed.
    return RecordingError(
        path, f"no private copy of it can be made in {folder.parent}: {words}", ELSEWHERE
    )


def _copy(path: Path, source: _Opened, target: Path) -> None:
    """Copy a file, up to its size when opened, preserving holes. Raises RecordingError."""
    size = source.status.st_size
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(target, flags, 0o600), "wb") as copy:
            copy.truncate(size)
            for start, end in _data_in(source.descriptor, size):
                copy.seek(start)
                while start < end:
                    piece = os.pread(source.descriptor, min(_CHUNK_BYTES, end - start), start)
                    if not piece:
                        return
                    copy.write(piece)
                    start += len(piece)
    except OSError as error:
        raise _unwritable(path, target.parent, error_words(error)) from error


def _data_in(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a file that are not holes."""
    end = 0
    while end < size:
        try:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            raise
        end = min(os.lseek(descriptor, start, os.SEEK_HOLE), size)
        yield start, end


def _merge_log(path: Path, copy: Path) -> None:
    """Merge the copy and its log into one file. Raises RecordingError and sqlite3.Error."""
    if not companion(copy, WAL).exists():
        return
    with closing(
        sqlite3.connect(f"{copy.as_uri()}?mode=rw", uri=True, isolation_level=None)
    ) as connection:
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
    if mode != "delete":
        raise RecordingError(path, "its write-ahead log cannot be read", "do not trust it")
