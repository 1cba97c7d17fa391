# SPDX-License-Identifier: Apache-2.0
"""The file that a recorder writes: created, continued, locked and closed."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import sqlite3
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from nri_scope.errors import RecordingError

from .file_errors import code_of, error_words, writing_hint
from .reserved_names import ReservedNames, check_companions
from .schema import APPLICATION_ID, TABLES, VERSION, statements, table_statements
from .schema_check import check, check_schema, has_table
from .trusted_location import JOURNAL, FolderAccess, companion, folder_access, name_of

PAGE = 4096
"""Bytes of a page in our files."""
_BUSY_MS = 20
_OPENING_MS = 500
"""Time to wait for a process that is writing a mark to the recording."""
_ASKED_SECONDS = 0.01
"""Pause between attempts to lock; a process that checks for a recorder holds the lock for less."""
_ASKED_TIMES = 5
"""Number of attempts to lock."""
MAY_HAVE_EFFECTS = """
SELECT 1 FROM event LEFT JOIN name ON name.id = event.method
WHERE changed IS NOT NULL OR text IN ('ValidateContainerAdjustment', 'UpdateContainers')
    OR (reply IS NOT NULL AND text IN ('CreateContainer', 'UpdateContainer', 'StopContainer'))
LIMIT 1
"""
"""Query that returns a row if any event may belong in the table ``effect``."""
_WRITE_VERSION = 18
"""Offset in a file's header of the flag for the write-ahead log."""
_WITH_WAL, _WITH_JOURNAL = b"\2", b"\1"
# (device, inode) of the files that this process records to. POSIX drops all of a process's locks on
# a file when the process closes any descriptor of it, so a second attempt must not even open it.
_recorded_files: set[tuple[int, int]] = set()


@dataclass(slots=True)
class RecordingFile:
    """A recording that is open for writing, by this process alone."""

    path: Path
    """Path without symbolic links above the file."""
    connection: sqlite3.Connection
    _lock: int
    _identity: tuple[int, int]
    _wal_identity: tuple[int, int] | None
    _names: ReservedNames | None

    @classmethod
    def open(cls, path: Path, *, only_new: bool = False) -> Self:
        """Create the file, or continue an existing recording. Raises RecordingError.

        Refuses places where other users could exchange the file or its companions.
        """
        with _as_recording_errors(path):
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
                    connection.execute(f"PRAGMA busy_timeout = {_OPENING_MS}")
                    if names is not None:
                        _keep_names(connection, lock)
                    elif is_new:
                        initialize(connection)
                    if not is_new:
                        _check_continued(connection, path)
                    _set_up(connection, path)
                    if not is_new:
                        _add_tables(connection)
                    connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
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
                # After the connection: closing it drops SQLite's own locks too.
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
        """Whether `path` is another file now, or no longer exists."""
        try:
            status = self.path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            # Unknown, and unimportant while writing works.
            return False
        return (status.st_dev, status.st_ino) != self._identity

    def close(self) -> None:
        """Close, and remove SQLite's companions. Never raises."""
        wal = _identity_of(wal_of(self.path))
        taken = wal is not None and wal != self._wal_identity
        if taken or (self._names is not None and not self._names.lock()):
            # Another process replaced us and writes its own recording, or is opening this one.
            # SQLite would delete the write-ahead log by its name, so this connection is never
            # closed, not even at the interpreter's end.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.connection))
            return
        with suppress(sqlite3.Error):
            if self.connection.in_transaction:
                self.connection.rollback()
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            # So that any SQLite opens it, even in a read-only folder. While a process reads the
            # file, this is refused, which does no harm.
            if self._names is None:
                self.connection.execute("PRAGMA journal_mode = DELETE").fetchall()
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

        With journal_mode = DELETE it would look for companions by name again after deleting its
        own, and other users could have placed some there.
        """
        if _identity_of(wal_of(self.path)) != self._wal_identity:
            os.pwrite(self._lock, _WITH_JOURNAL * 2, _WRITE_VERSION)


@contextmanager
def _as_recording_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        if code_of(error) == sqlite3.SQLITE_NOTADB:
            raise RecordingError(path, _TAKEN, _OTHER_NAME) from error
        raise _cannot_record(path, error) from error
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise _cannot_record(path, error) from error
        if path.parent.is_dir():
            # Such as /proc, which does not allow new files.
            problem, hint = f"no file can be made in {path.parent}", "choose another folder"
        else:
            problem, hint = f"no such folder: {path.parent}", "make it first"
        raise RecordingError(path, problem, hint) from error


def _cannot_record(path: Path, error: sqlite3.Error | OSError) -> RecordingError:
    words = error_words(error)
    return RecordingError(path, f"cannot record: {words}", writing_hint(words))


def wal_of(path: Path) -> Path:
    """Return the path of SQLite's write-ahead log of a file."""
    return path.with_name(f"{path.name}-wal")


def _identity_of(path: Path) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


_TAKEN = "the file exists and is not an nri-scope recording; nothing was written"
_OTHER_NAME = "choose another name"
BUSY = "another nri-scope is recording to it"
"""The problem in a RecordingError."""


def _checked_place(path: Path) -> Path:
    """Return the path without symbolic links above the file.

    Raises RecordingError if other users can replace files, and OSError.
    """
    place = Path(os.path.realpath(path.parent)) / path.name
    found = folder_access(place.parent)
    if found.access is FolderAccess.SHARED:
        raise RecordingError(
            path,
            f"cannot record: {found.problem}, so what is recorded could be read or exchanged",
            "choose a folder of your own",
        )
    return place


def check_journal(path: Path) -> None:
    """Check that no interrupted write would be undone by reading a recording that is continued.

    Raises RecordingError and OSError.
    """
    path = path.resolve()
    _wait_for_mark(path)
    if os.path.lexists(companion(path, JOURNAL)):
        check_companions(path, is_new=False)


def _wait_for_mark(path: Path) -> None:
    # Another process may be writing a mark to it.
    until = time.monotonic() + _OPENING_MS / 1000
    while os.path.lexists(companion(path, JOURNAL)) and time.monotonic() < until:
        time.sleep(_ASKED_SECONDS)


def _reserve(path: Path, lock: int, *, is_new: bool) -> ReservedNames | None:
    """Make sure that SQLite finds only our own files beside the recording. Raises RecordingError
    and OSError.

    If others could add files later, all names are reserved, and a new file is made a recording
    before SQLite opens it: SQLite deletes the journal of an empty file.
    """
    if not is_new:
        _wait_for_mark(path)
    if folder_access(path.parent).access is FolderAccess.PRIVATE:
        check_companions(path, is_new=is_new)
        return None
    names = ReservedNames.take(path, is_new=is_new)
    if is_new:
        try:
            os.pwrite(lock, _empty_recording(path.parent), 0)
        except BaseException:
            names.remove()
            raise
    return names


def _keep_names(connection: sqlite3.Connection, lock: int) -> None:
    # Changing to the write-ahead log means deleting a journal, or the log if there is one.
    if os.pread(lock, 1, _WRITE_VERSION) != _WITH_WAL:
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
    # O_EXCL does not follow symbolic links either.
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
            f"it belongs to another user ({name_of(status.st_uid)}), who could read what is "
            "recorded",
            _OTHER_NAME,
        )
    if status.st_size == 0:
        raise RecordingError(path, "the file exists and is empty; nothing was written", _OTHER_NAME)
    busy = RecordingError(path, BUSY, _OTHER_NAME)
    if (status.st_dev, status.st_ino) in _recorded_files:
        raise busy
    lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not _is_locked_for_us(lock):
        os.close(lock)
        raise busy
    # A mode that was widened since was meant for the previous content.
    with suppress(OSError):
        os.fchmod(lock, 0o600)
    return lock


def _is_locked_for_us(lock: int) -> bool:
    for more in reversed(range(_ASKED_TIMES)):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if more:
                time.sleep(_ASKED_SECONDS)
        else:
            return True
    return False


def is_recorded_by_this_process(identity: tuple[int, int]) -> bool:
    """Return whether this process records to a file, by its device and number."""
    return identity in _recorded_files


def connect(path: Path) -> sqlite3.Connection:
    """Connect for writing, for any one thread at a time. Raises sqlite3.Error."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        isolation_level=None,
        # Created by the thread that opens the recorder, used only by the writer's.
        check_same_thread=False,
        cached_statements=64,
    )
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def initialize(connection: sqlite3.Connection) -> None:
    """Turn an empty file into a recording. Raises sqlite3.Error."""
    connection.execute(f"PRAGMA page_size = {PAGE}")
    # Pages that the ring frees are returned to the file system.
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    # All at once, and before the write-ahead log exists: if we are killed at any moment, the file
    # itself is either empty or a recording.
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    for statement in statements():
        connection.execute(statement)
    connection.execute("COMMIT")


def _check_continued(connection: sqlite3.Connection, path: Path) -> None:
    try:
        version = check(connection, path)
        if version < VERSION:
            raise RecordingError(
                path, f"it is a recording of the older version {version}", _OTHER_NAME
            )
        check_schema(connection, path)
    except RecordingError as error:
        hint = error.hint or _OTHER_NAME
        raise RecordingError(path, f"{error.problem}; nothing was written", hint) from error


def _add_tables(connection: sqlite3.Connection) -> None:
    """Add missing tables to an older file of this version, if no earlier event needed them.

    Existing events are not in ``effect``; so it is added only if none of them can have an effect,
    which holds for all events that a logger recorded without --validate.
    """
    missing = set()
    if not has_table(connection, "tapped"):
        missing.add("tapped")
    if not has_table(connection, "output"):
        missing.add("output")
    if not has_table(connection, "effect") and not connection.execute(MAY_HAVE_EFFECTS).fetchone():
        missing.add("effect")
    if not missing:
        return
    connection.execute("BEGIN IMMEDIATE")
    for table in TABLES:
        if table.name in missing:
            for statement in table_statements(table):
                connection.execute(statement)
    connection.execute("COMMIT")


def _set_up(connection: sqlite3.Connection, path: Path) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise RecordingError(
            path,
            "its file system cannot hold a recording that is being written",
            "use a local disk",
        )
    # The log itself is created by the first write.
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("COMMIT")
    # Survives a crash of this process at any moment; a power cut may lose the last seconds.
    connection.execute("PRAGMA synchronous = NORMAL")
    # Overwrites removed data if that costs nothing extra; a recording is secret.
    connection.execute("PRAGMA secure_delete = FAST")
    connection.execute("PRAGMA cell_size_check = ON")
