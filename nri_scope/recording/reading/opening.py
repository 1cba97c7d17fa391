# SPDX-License-Identifier: Apache-2.0
"""Open an untrusted recording for reading."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from nri_scope import filter as filters
from nri_scope.errors import RecordingError

from ..file.blobs import MAX_CONTENT
from ..file.file_errors import TOO_LARGE, code_of, error_words, is_damage, reading_hint
from ..file.row_limits import check_names
from ..file.schema import (
    ATTRIBUTED_VIEWS,
    ATTRIBUTION,
    CHANGES_VIEW,
    EVENTS_VIEW,
    LOG_VIEW,
    TABLES,
    table_sql,
)
from ..file.schema_check import (
    GIVE_A_RECORDING,
    MAKE_A_RECORDING,
    SCENARIO_SUFFIXES,
    check,
    check_schema,
    has_table,
    missing_columns,
    repair_hint,
)
from ..file.temporary_files import ELSEWHERE
from ..file.trusted_location import (
    JOURNAL,
    WAL,
    FolderAccess,
    companion,
    folder_access,
    interrupted_write,
    opening_by_name,
    status_of,
)
from ..file.writable_file import is_recorded_by_this_process

_BUSY_TIMEOUT_MS = 2_000
_CACHED_STATEMENTS = 32
"""Number of prepared queries that a connection keeps. One takes up to 50 KiB if it lists events."""
# Larger than any stored value, as queries may concatenate values.
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 4 * MAX_CONTENT,
    # Queries must not write any file or read another one.
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
}
_VIEWS = {"events": EVENTS_VIEW, "changes": CHANGES_VIEW}
_CHECKED_NAMES: set[tuple[int, ...]] = set()
"""Fingerprints of files whose names were checked."""


def is_settled(path: Path) -> bool:
    """Return whether the file is complete by itself, as no process is writing to it.

    While a process has the file open for writing, there is a log or journal beside it. ``path``
    must not be a symbolic link, since the log is beside the link's target.
    """
    # Called for every query. Strings are five times as fast as Path objects here.
    name = str(path)
    return not (os.path.lexists(f"{name}-wal") or os.path.lexists(f"{name}-journal"))


def fingerprint(path: Path) -> tuple[int, ...] | None:
    """Return a value that changes with the content of a settled file; None if not settled."""
    if not is_settled(path):
        return None
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class OpenedFile(NamedTuple):
    """Read-only connection to a checked recording."""

    connection: sqlite3.Connection
    version: int
    """Version of the recording format."""
    is_copy: bool
    """Whether it reads a private copy, which does not follow changes of the file."""


def connect(path: Path, *, known_fingerprint: tuple[int, ...] | None) -> OpenedFile:
    """Open a recording, or the recording in a bundle, for reading.

    ``path`` must not be a symbolic link. ``known_fingerprint``: `fingerprint` of before. The
    connection has the temporary views "events" (`EVENTS_VIEW`) and "log", which hide objects of the
    file with the same names. If other users could replace the file or its companions, a private
    copy is opened instead. Raises RecordingError.
    """
    identity = _check_file(path)
    try:
        # This process is recording to the file, so it already protects the companions.
        if is_recorded_by_this_process(identity):
            return OpenedFile(*_connected(path, path, known_fingerprint), is_copy=False)
        with opening_by_name(path, immutable=known_fingerprint is not None) as by_name:
            if by_name:
                return OpenedFile(*_connected(path, path, known_fingerprint), is_copy=False)
        return OpenedFile(*_copied(path), is_copy=True)
    except OSError as error:
        raise _unreadable(path, error) from error


def _copied(path: Path) -> tuple[sqlite3.Connection, int]:
    """Open a private copy of ``path``."""
    with _removed_folder(path, "no private copy of it can be made") as folder:
        return _connected(private_copy(path, folder), path, ())


@contextmanager
def _removed_folder(path: Path, problem: str) -> Iterator[Path]:
    """Create a temporary folder, which is removed once SQLite has its file open.

    Translates OSError to RecordingError.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="nri-scope-") as folder:
            yield Path(folder)
    except OSError as error:
        raise RecordingError(path, f"{problem}: {error_words(error)}", ELSEWHERE) from error


def _connected(
    file: Path, path: Path, known_fingerprint: tuple[int, ...] | None
) -> tuple[sqlite3.Connection, int]:
    """Open the recording in ``file``; errors name ``path``.

    ``known_fingerprint``: the file's fingerprint; () for a settled file without one.
    """
    connection: sqlite3.Connection | None = None
    try:
        connection = _open(file, settled=known_fingerprint is not None)
        try:
            version = check(connection, path)
        except sqlite3.DatabaseError as error:
            if code_of(error) != sqlite3.SQLITE_NOTADB or not _is_zip(file):
                raise
            connection.close()
            connection, version = _unpacked(file)
        check_schema(connection, path)
        # Commands open a recording several times, and may have to check hundreds of thousands of
        # names.
        if known_fingerprint not in _CHECKED_NAMES:
            check_names(connection, path)
            if known_fingerprint:
                _CHECKED_NAMES.add(known_fingerprint)
        _prepare(connection)
    except (sqlite3.Error, RecordingError, UnicodeError, MemoryError) as error:
        if connection is not None:
            connection.close()
        if isinstance(error, RecordingError):
            raise
        raise to_recording_error(path, error) from error
    return connection, version


def _unpacked(path: Path) -> tuple[sqlite3.Connection, int]:
    """Open the recording in the bundle ``path``."""
    # Imported here because bundles are rarely opened.
    from ..bundle.unpack import unpack

    with _removed_folder(path, "it cannot be unpacked") as folder:
        connection = _open(unpack(path, folder), settled=True)
        try:
            # `check` reads the file, so SQLite has it open before the folder is removed.
            return connection, check(connection, path)
        except BaseException:
            connection.close()
            raise


def _check_file(path: Path) -> tuple[int, int]:
    """Return the device and inode number of a readable, regular file. Raises RecordingError."""
    # The file is not opened: if this process records to it, closing a descriptor would drop
    # SQLite's locks.
    try:
        status = path.stat()
    except FileNotFoundError as error:
        raise RecordingError(path, "no such file", GIVE_A_RECORDING) from error
    except OSError as error:
        raise _unreadable(path, error) from error
    if stat.S_ISDIR(status.st_mode):
        raise RecordingError(path, "a folder, not a recording", GIVE_A_RECORDING)
    if not stat.S_ISREG(status.st_mode):
        raise RecordingError(path, "not a regular file", GIVE_A_RECORDING)
    if status.st_size == 0:
        raise RecordingError(path, "empty, not a recording", GIVE_A_RECORDING)
    if not os.access(path, os.R_OK, effective_ids=True):
        raise _unreadable(path, PermissionError(errno.EACCES, ""))
    return status.st_dev, status.st_ino


def _open(path: Path, *, settled: bool) -> sqlite3.Connection:
    # A settled file is opened as immutable, which also works in a read-only folder and creates no
    # companions.
    mode = "mode=ro&immutable=1" if settled else "mode=ro"
    connection = sqlite3.connect(
        f"{path.as_uri()}?{mode}",
        uri=True,
        isolation_level=None,
        cached_statements=_CACHED_STATEMENTS,
    )
    try:
        for limit, value in _LIMITS.items():
            connection.setlimit(limit, value)
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("PRAGMA mmap_size = 0").fetchall()
        connection.execute("PRAGMA temp_store = MEMORY")
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    for table in TABLES:
        # Added later: queries find the table empty, and the columns with their defaults.
        if not has_table(connection, table.name):
            connection.execute(table_sql(table).replace("TABLE", "TEMP TABLE", 1))
        elif missing := missing_columns(connection, table):
            values = "".join(
                f", {column.type.partition(' DEFAULT ')[2] or 'NULL'} AS {column.name}"
                for column in missing
            )
            query = f"SELECT *{values} FROM main.{table.name}"
            connection.execute(f"CREATE TEMP VIEW {table.name} AS {query}")
    _create_views(connection, _VIEWS)
    connection.execute(f"CREATE TEMP VIEW log AS {LOG_VIEW}")
    connection.execute("PRAGMA query_only = ON")
    filters.register(connection)


def _create_views(connection: sqlite3.Connection, views: Mapping[str, str]) -> None:
    for name, query in views.items():
        connection.execute(f"DROP VIEW IF EXISTS temp.{name}")
        connection.execute(f"CREATE TEMP VIEW {name} AS {query}")


def attach(connection: sqlite3.Connection, path: Path) -> None:
    """Let the views "events" and "changes" include the values of an `attribution_file`.

    A file attached before is replaced. Raises sqlite3.Error.
    """
    connection.execute("PRAGMA query_only = OFF")
    _create_views(connection, _VIEWS)
    if ATTRIBUTION in {row[1] for row in connection.execute("PRAGMA database_list")}:
        connection.execute(f"DETACH {ATTRIBUTION}")
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 1)
    try:
        connection.execute(f"ATTACH ? AS {ATTRIBUTION}", (f"{path.as_uri()}?mode=ro",))
        _create_views(connection, ATTRIBUTED_VIEWS)
    finally:
        # Queries must not attach files.
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.execute("PRAGMA query_only = ON")


def to_recording_error(
    path: Path, error: sqlite3.Error | UnicodeError | MemoryError
) -> RecordingError:
    """Return the RecordingError for an error of sqlite3."""
    if isinstance(error, MemoryError):
        # SQLite reports so a value that is longer than its file.
        return RecordingError(path, TOO_LARGE, repair_hint(path))
    if isinstance(error, UnicodeError):
        # The text of the error would quote content of the file.
        return RecordingError(path, "damaged: text in it is not UTF-8", repair_hint(path))
    code = code_of(error)
    if code == sqlite3.SQLITE_NOTADB:
        hint = MAKE_A_RECORDING if path.suffix.lower() in SCENARIO_SUFFIXES else GIVE_A_RECORDING
        return RecordingError(path, "not an nri-scope recording", hint)
    if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_ROLLBACK:
        return interrupted_write(path)
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY) and not is_settled(path):
        return RecordingError(
            path,
            f"the newest events are in {path.name}-wal, which cannot be read in this folder",
            "copy both files to a folder that you can write to",
        )
    if is_damage(error):
        return RecordingError(path, "damaged, or cut short", repair_hint(path))
    return _unreadable(path, error)


def _unreadable(path: Path, error: sqlite3.Error | OSError) -> RecordingError:
    problem = error_words(error)
    return RecordingError(path, problem, reading_hint(problem))


def _is_zip(path: Path) -> bool:
    # SQLite found no database, so no recorder uses the file, and opening it cannot drop locks.
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return os.pread(opened, 4, 0) == b"PK\x03\x04"
        finally:
            os.close(opened)
    except OSError:
        return False


# -- private copies -------------------------------------------------------------------------------

_CHUNK_BYTES = 4 << 20


def private_copy(path: Path, folder: Path) -> Path:
    """Copy a recording from a folder to which other users can write to a private folder.

    The file is opened without following links and without blocking, and is checked to be a regular
    file through its descriptor. A recording that is being written is refused: its log is opened by
    name. Returns the copy. Raises RecordingError.
    """
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
