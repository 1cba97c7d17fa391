# SPDX-License-Identifier: Apache-2.0
"""The file of a new recording, written under a temporary name and renamed when complete."""

from __future__ import annotations

import errno
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nri_scope.errors import RecordingError
from nri_scope.recording.file_errors import error_words, way_to_write
from nri_scope.recording.writable_file import lay_out

_TAKEN = "the file exists; nothing was written"
_OTHER_NAME = "choose another name"
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""Errors reported by file systems without hard links."""


@contextmanager
def new_file(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield an empty recording to fill, which only appears at ``path`` when the block ends.

    Existing files are never replaced. Raises RecordingError, also for sqlite3 errors of the block;
    after any exception, no file is left behind.
    """
    with _as_recording_errors(path):
        _check_place(path)
        temporary = path.with_name(f".nri-scope-{secrets.token_hex(8)}.part")
        # Created here to set the mode, which SQLite then preserves.
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            connection = _connect(temporary)
            try:
                lay_out(connection)
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            finally:
                connection.close()
            os.fsync(descriptor)
            _put(temporary, path)
        finally:
            os.close(descriptor)
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def _check_place(path: Path) -> None:
    if os.path.lexists(path):
        raise RecordingError(path, _TAKEN, _OTHER_NAME)
    for suffix in ("-wal", "-journal"):
        # A leftover of a deleted or moved file. SQLite would use it for the new file.
        left = path.with_name(f"{path.name}{suffix}")
        if os.path.lexists(left):
            problem = f"{left.name} of another file is beside it; nothing was written"
            raise RecordingError(path, problem, f"{_OTHER_NAME}, or delete that")


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None
    )
    # An incomplete file is deleted, so there is no need for a journal, or to sync before the end.
    connection.execute("PRAGMA journal_mode = OFF").fetchall()
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
    connection.execute("PRAGMA trusted_schema = OFF")
    # Keep accidental content out of the file: bytes that differ between runs, or data from this
    # process's memory.
    connection.execute("PRAGMA secure_delete = ON").fetchall()
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def _put(temporary: Path, path: Path) -> None:
    try:
        # Like a rename, but does not replace a file created meanwhile.
        os.link(temporary, path, follow_symlinks=False)
    except FileExistsError as error:
        raise RecordingError(path, _TAKEN, _OTHER_NAME) from error
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(path):
            raise RecordingError(path, _TAKEN, _OTHER_NAME) from error
        temporary.rename(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # Some file systems neither support nor need it.
        with suppress(OSError):
            os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def _as_recording_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        if isinstance(error, FileNotFoundError) and not path.parent.is_dir():
            raise RecordingError(path, f"no such folder: {path.parent}", "make it first") from error
        words = error_words(error)
        raise RecordingError(path, f"cannot be written: {words}", way_to_write(words)) from error
