# SPDX-License-Identifier: Apache-2.0
"""Copy a recording from a folder to which other users can write to a private folder for reading.

The file is opened without following links and without blocking, and is checked to be a regular file
through its descriptor. A recording that is being written is refused: its log is opened by name.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
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
)

_CHUNK_BYTES = 4 << 20


def private_copy(path: Path, folder: Path) -> Path:
    """Copy the recording ``path`` into ``folder``; return the copy. Raises RecordingError."""
    if folder_access(Path(os.path.realpath(folder))).access is FolderAccess.SHARED:
        raise _unwritable(path, folder)
    try:
        source = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise _no_regular_file(path, path) from error
        problem = error_words(error)
        raise RecordingError(path, f"{path.name}: {problem}", reading_hint(problem)) from error
    copy = folder / "recording.db"
    try:
        before = os.fstat(source)
        if not stat.S_ISREG(before.st_mode):
            raise _no_regular_file(path, path)
        _check_closed(path)
        try:
            free = shutil.disk_usage(folder).free
            if before.st_size > free:
                raise _unwritable(
                    path, folder, f": it needs {before.st_size:,} bytes, and {free:,} are free"
                )
            _copy(source, before.st_size, copy)
        except OSError as error:
            raise _unwritable(path, folder, f": {error_words(error)}") from error
        _check_closed(path)
        if _version(os.fstat(source)) != _version(before):
            raise RecordingError(path, "it was changed while it was copied", "try again")
    finally:
        os.close(source)
    return copy


def _version(status: os.stat_result) -> tuple[int, ...]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _no_regular_file(path: Path, target: Path) -> RecordingError:
    return RecordingError(
        path, f"{target.name} is not a regular file", "remove it, or do not trust it"
    )


def _check_closed(path: Path) -> None:
    """Refuse a recording with a log or journal, which a writer uses or has left behind."""
    for suffix in (WAL, JOURNAL):
        beside = companion(path, suffix)
        status = status_of(beside)
        if status is None:
            continue
        if not stat.S_ISREG(status.st_mode):
            raise _no_regular_file(path, beside)
        if status.st_size and suffix == JOURNAL:
            raise interrupted_write(path)
        if status.st_size:
            raise RecordingError(
                path,
                f"its newest events are in {beside.name}, and other users can write to its folder",
                "copy both files to a folder of your own, or end the recorder first",
            )


def _unwritable(path: Path, folder: Path, why: str = "") -> RecordingError:
    # Named by its parent: the temporary folder itself will have been removed.
    location = folder.parent if why else folder
    return RecordingError(path, f"no private copy of it can be made in {location}{why}", ELSEWHERE)


def _copy(source: int, size: int, target: Path) -> None:
    """Copy a file, up to its size when opened, preserving holes. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(target, flags, 0o600), "wb") as copy:
        copy.truncate(size)
        for start, end in _data_in(source, size):
            copy.seek(start)
            while start < end:
                piece = os.pread(source, min(_CHUNK_BYTES, end - start), start)
                if not piece:
                    return
                copy.write(piece)
                start += len(piece)


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
