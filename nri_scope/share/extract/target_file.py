# SPDX-License-Identifier: Apache-2.0
"""Write the file of a new recording under a temporary name; rename it when complete."""

from __future__ import annotations

import errno
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nri_scope.errors import RecordingError
from nri_scope.recording.file_errors import error_words, writing_hint
from nri_scope.recording.writable_file import initialize

_EXISTS = "the file exists; nothing was written"
_OTHER_NAME = "choose another name"
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""Errors reported by file systems without hard links."""


@contextmanager
def new_file(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield an empty recording to fill, which is moved to ``path`` when the block ends.

    Existing files are never replaced. Raises RecordingError, also for sqlite3 errors of the block;
    after any exception, no file is left behind.
    """
    with _as_recording_errors(path):
        _check_unused(path)
        temporary = path.with_name(f".nri-scope-{secrets.token_hex(8)}.part")
        # Create the file first to set its mode, which SQLite preserves.
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            connection = _connect(temporary)
            try:
                initialize(connection)
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            finally:
                connection.close()
            os.fsync(descriptor)
            _move(temporary, path)
        finally:
            os.close(descriptor)
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def _check_unused(path: Path) -> None:
    if os.path.lexists(path):
        raise RecordingError(path, _EXISTS, _OTHER_NAME)
    for suffix in ("-wal", "-journal"):
        # A leftover of a deleted or moved database. SQLite would apply it to the new file.
        left = path.with_name(f"{path.name}{suffix}")
        if os.path.lexists(left):
            problem = f"{left.name} of another database exists; nothing was written"
            raise RecordingError(path, problem, f"{_OTHER_NAME}, or delete {left.name}")


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None
    )
    # An incomplete file is deleted, so neither a journal nor intermediate syncs are needed.
    connection.execute("PRAGMA journal_mode = OFF").fetchall()
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
    connection.execute("PRAGMA trusted_schema = OFF")
    # Overwrite unused bytes: they would differ between runs, or contain data from memory.
    connection.execute("PRAGMA secure_delete = ON").fetchall()
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def _move(temporary: Path, path: Path) -> None:
    try:
        # Unlike a rename, this does not replace a file that was created meanwhile.
        os.link(temporary, path, follow_symlinks=False)
    except FileExistsError as error:
        raise RecordingError(path, _EXISTS, _OTHER_NAME) from error
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(path):
            raise RecordingError(path, _EXISTS, _OTHER_NAME) from error
        temporary.rename(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # Some file systems neither support nor need the sync of a folder.
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
            raise RecordingError(
                path, f"no such folder: {path.parent}", "create it first"
            ) from error
        words = error_words(error)
        raise RecordingError(path, f"cannot be written: {words}", writing_hint(words)) from error
