# SPDX-License-Identifier: Apache-2.0
"""Create, continue, lock and close the file that a recorder writes."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from nri_scope.errors import RecordingError

from .file_errors import code_of, error_words, writing_hint
from .reserved_names import ReservedNames, check_companions
from .schema import APPLICATION_ID, TABLES, VERSION, statements, table_statements
from .schema_check import check, check_schema, has_table, missing_columns
from .trusted_location import FolderAccess, folder_access, name_of, try_lock

PAGE = 4096
"""Page size of new recordings, in bytes."""
_BUSY_TIMEOUT_MS = 20
OPENING_TIMEOUT_MS = 500
"""Maximum wait for a process that recovers the log of a killed recorder."""
_LOCK_SECONDS = 0.05
"""Maximum wait for the lock, which `FolderBudget` holds for a moment."""
_WRITE_VERSION_OFFSET = 18
"""Offset of the write version in a file's header: 2 for WAL mode, 1 for journal mode."""
_WAL_MODE, _JOURNAL_MODE = b"\2", b"\1"
# (device, inode) of the files that this process records to. They must not be opened again: when a
# process closes any descriptor of a file, POSIX drops all of its locks on that file.
_recorded_files: set[tuple[int, int]] = set()


@dataclass(slots=True)
class RecordingFile:
    """Recording opened for writing, exclusively by this process."""

    path: Path
    """Path of the file, in a folder without symbolic links."""
    connection: sqlite3.Connection
    _lock: int
    _identity: tuple[int, int]
    _wal_identity: tuple[int, int] | None
    _names: ReservedNames | None

    @classmethod
    def open(cls, path: Path, *, only_new: bool = False, is_draft: bool = False) -> Self:
        """Create the file, or continue an existing recording. Raises RecordingError.

        ``only_new``: refuse an existing file. ``is_draft``: write a new file that no process reads
        before it is closed, and that is removed after an error: without a log, and the same bytes
        for the same content. Refuses folders in which other users could replace the file or its
        companions.
        """
        with _as_recording_errors(path, is_draft=is_draft):
            path = _checked_place(path)
            try:
                lock, is_new = _create(path), True
            except FileExistsError:
                if only_new:
                    raise
                lock, is_new = _open_existing(path), False
            names: ReservedNames | None = None
            try:
                status = os.fstat(lock)
                identity = (status.st_dev, status.st_ino)
                names = _reserve(path, lock, is_new=is_new)
                connection = connect(path)
                try:
                    connection.execute(f"PRAGMA busy_timeout = {OPENING_TIMEOUT_MS}")
                    if names is None and is_new:
                        initialize(connection)
                    _avoid_journal(connection, lock)
                    if not is_new:
                        _check_continued(connection, path)
                    if is_draft:
                        _set_up_draft(connection)
                    else:
                        _set_up(connection, path)
                    if not is_new:
                        _update_schema(connection)
                    connection.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
                    if _identity_of(path) != identity:
                        raise RecordingError(path, "another file is in its place", _OTHER_NAME)
                except BaseException:
                    connection.close()
                    raise
            except BaseException:
                if is_new:
                    path.unlink(missing_ok=True)
                if names is not None:
                    names.release()
                # Closed after the connection, as this also drops SQLite's locks.
                os.close(lock)
                raise
        _recorded_files.add(identity)
        return cls(path, connection, lock, identity, _identity_of(wal_of(path)), names)

    @property
    def deleted(self) -> bool:
        """Whether `path` no longer exists."""
        return _identity_of(self.path) is None

    @property
    def replaced(self) -> bool:
        """Whether `path` is now a different file, or no longer exists."""
        try:
            status = self.path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            # Unknown, which does not matter while writes succeed.
            return False
        return (status.st_dev, status.st_ino) != self._identity

    def close(self) -> None:
        """Close the file and remove its companions, unless another process is using their names.

        Never raises.
        """
        wal = _identity_of(wal_of(self.path))
        is_wal_replaced = wal is not None and wal != self._wal_identity
        if is_wal_replaced or (self._names is not None and not self._names.lock()):
            # Another process has replaced the file with its own recording, or is opening this one.
            # As SQLite would delete the write-ahead log by name, this connection must never be
            # closed, not even when the interpreter exits.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.connection))
            return
        with suppress(sqlite3.Error):
            if self.connection.in_transaction:
                self.connection.rollback()
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            # Without a log, SQLite can also open the file in a read-only folder. The change fails
            # while another process reads the file, which is harmless.
            if self._names is None:
                self.connection.execute("PRAGMA journal_mode = OFF").fetchall()
        with suppress(sqlite3.Error):
            self.connection.close()
        if self._names is not None:
            with suppress(OSError):
                self._end_wal_mode()
            self._names.release()
        _recorded_files.discard(self._identity)
        with suppress(OSError):
            os.close(self._lock)

    def _end_wal_mode(self) -> None:
        """Set the header to rollback-journal mode, if SQLite has removed the log.

        PRAGMA journal_mode = DELETE is unsuitable: after deleting the companions, SQLite would open
        files with their names again, which other users could have created in between.
        """
        if _identity_of(wal_of(self.path)) != self._wal_identity:
            os.pwrite(self._lock, _JOURNAL_MODE * 2, _WRITE_VERSION_OFFSET)


@contextmanager
def _as_recording_errors(path: Path, *, is_draft: bool) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        if is_draft:
            problem = error_words(error)
            hint = writing_hint(problem)
            raise RecordingError(path, f"cannot be written: {problem}", hint) from error
        raise _recording_error(path, error) from error


def _recording_error(path: Path, error: sqlite3.Error | OSError) -> RecordingError:
    if isinstance(error, sqlite3.Error):
        if code_of(error) == sqlite3.SQLITE_NOTADB:
            return RecordingError(path, _NOT_A_RECORDING, _OTHER_NAME)
        return _cannot_record(path, error)
    if error.errno != errno.ENOENT:
        return _cannot_record(path, error)
    if path.parent.is_dir():
        # For example /proc, in which no files can be created.
        problem, hint = f"cannot create a file in {path.parent}", "choose another folder"
    else:
        problem, hint = f"no such folder: {path.parent}", "create it first"
    return RecordingError(path, problem, hint)


def _cannot_record(path: Path, error: sqlite3.Error | OSError) -> RecordingError:
    problem = error_words(error)
    return RecordingError(path, f"cannot record: {problem}", writing_hint(problem))


def wal_of(path: Path) -> Path:
    """Return the path of a file's write-ahead log."""
    return path.with_name(f"{path.name}-wal")


def wal_status(wal: Path) -> tuple[int, int]:
    """Return the bytes of a write-ahead log, and the time of its last change in ns; 0, 0 if there
    is none.
    """
    try:
        status = wal.lstat()
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns


def _identity_of(path: Path) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


_NOT_A_RECORDING = "the file exists and is not an nri-scope recording; nothing was written"
_OTHER_NAME = "choose another name"
BUSY = "another nri-scope is recording to it"
"""Problem in the RecordingError for a file with another recorder."""


def _checked_place(path: Path) -> Path:
    """Return ``path`` with the symbolic links in its folder resolved.

    Raises RecordingError if other users can replace files in the folder, and OSError.
    """
    target = Path(os.path.realpath(path.parent)) / path.name
    folder = folder_access(target.parent)
    if folder.access is FolderAccess.SHARED:
        raise RecordingError(
            path,
            f"cannot record: {folder.problem}, so the recording could be read or replaced",
            "choose a folder of your own",
        )
    return target


def _reserve(path: Path, lock: int, *, is_new: bool) -> ReservedNames | None:
    """Ensure that SQLite finds only this user's files beside the recording. Raises RecordingError
    and OSError.

    If other users can add files to the folder, reserve the names of all companions. A new file is
    then made a recording before SQLite opens it, because SQLite deletes the journal of an empty
    file. Returns None if no names are reserved.
    """
    if folder_access(path.parent).access is FolderAccess.PRIVATE:
        check_companions(path, is_new=is_new)
        return None
    names = ReservedNames.create(path, is_new=is_new)
    if is_new:
        try:
            os.pwrite(lock, _empty_recording(path.parent), 0)
        except BaseException:
            names.remove()
            raise
    return names


def _avoid_journal(connection: sqlite3.Connection, lock: int) -> None:
    # For a change to WAL mode SQLite writes a journal and deletes it, or an existing log. Without
    # one the change is safe, too: it concerns the file's first sector only. So killed recorders
    # leave no journals, and reserved names stay.
    if os.pread(lock, 1, _WRITE_VERSION_OFFSET) != _WAL_MODE:
        connection.execute("PRAGMA journal_mode = OFF").fetchall()


def _empty_recording(folder: Path) -> bytes:
    with tempfile.TemporaryDirectory(prefix=".nri-scope-", dir=folder) as private:
        path = Path(private) / "recording.db"
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with closing(connect(path)) as connection:
            initialize(connection)
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
        return path.read_bytes()


def _create(path: Path) -> int:
    # O_EXCL also prevents following a symbolic link.
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return lock


def _open_existing(path: Path) -> int:
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        raise RecordingError(path, "it is a symbolic link", "name the file itself")
    if stat.S_ISDIR(status.st_mode):
        raise RecordingError(path, "it is a folder", "name a file in it")
    if not stat.S_ISREG(status.st_mode):
        raise RecordingError(path, "it is not a regular file", _OTHER_NAME)
    if status.st_uid != os.geteuid():
        raise RecordingError(
            path,
            f"it belongs to another user ({name_of(status.st_uid)}), who could read the recording",
            _OTHER_NAME,
        )
    if status.st_size == 0:
        raise RecordingError(path, "the file exists and is empty; nothing was written", _OTHER_NAME)
    busy = RecordingError(path, BUSY, _OTHER_NAME)
    if (status.st_dev, status.st_ino) in _recorded_files:
        raise busy
    lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not try_lock(lock, _LOCK_SECONDS):
        os.close(lock)
        raise busy
    # If the file was made readable for others, that was meant for its previous content.
    with suppress(OSError):
        os.fchmod(lock, 0o600)
    return lock


def is_recorded_by_this_process(identity: tuple[int, int]) -> bool:
    """Return whether this process records to the file with this device and inode number."""
    return identity in _recorded_files


def connect(path: Path) -> sqlite3.Connection:
    """Return a connection for writing, for one thread at a time. Raises sqlite3.Error."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        isolation_level=None,
        # Created by the thread that opens the recorder, and used by the writer thread.
        check_same_thread=False,
        cached_statements=64,
    )
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def initialize(connection: sqlite3.Connection) -> None:
    """Create the tables of a recording in an empty file. Raises sqlite3.Error."""
    connection.execute(f"PRAGMA page_size = {PAGE}")
    # Pages that the ring frees are returned to the file system.
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    # In one transaction, before the write-ahead log exists: if this process is killed, the file is
    # either empty or a recording.
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    for statement in statements():
        connection.execute(statement)
    connection.execute("COMMIT")


def _check_continued(connection: sqlite3.Connection, path: Path) -> None:
    try:
        check(connection, path)
        check_schema(connection, path)
    except RecordingError as error:
        hint = error.hint or _OTHER_NAME
        raise RecordingError(path, f"{error.problem}; nothing was written", hint) from error


def _update_schema(connection: sqlite3.Connection) -> None:
    """Add tables and columns that an older file lacks."""
    connection.execute("BEGIN IMMEDIATE")
    for table in TABLES:
        if not has_table(connection, table.name):
            for statement in table_statements(table):
                connection.execute(statement)
        else:
            for added in missing_columns(connection, table):
                connection.execute(f"ALTER TABLE {table.name} ADD COLUMN {added.name} {added.type}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def _set_up_draft(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = OFF").fetchall()
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
    # Overwrite unused bytes: they would differ between runs, or contain data from memory.
    connection.execute("PRAGMA secure_delete = ON").fetchall()
    connection.execute("PRAGMA temp_store = MEMORY")


def _set_up(connection: sqlite3.Connection, path: Path) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise RecordingError(
            path,
            "its file system does not support SQLite's write-ahead log",
            "use a local disk",
        )
    # The first write creates the log.
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("COMMIT")
    # Commits survive a crash of this process; a power failure may lose the last seconds.
    connection.execute("PRAGMA synchronous = NORMAL")
    # Overwrites removed data where that needs no extra I/O, as a recording is confidential.
    connection.execute("PRAGMA secure_delete = FAST")
    connection.execute("PRAGMA cell_size_check = ON")
