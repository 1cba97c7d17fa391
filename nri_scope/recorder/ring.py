# SPDX-License-Identifier: Apache-2.0
"""Limit a recording: remove its oldest stretches by size or age.

Events of two stretches never share an object, so a stretch is removed by deleting a range of events
and a range of objects. The removal is divided into small steps, and events are written in between.
`FolderBudget` limits the size of all recordings in a folder, by removing the oldest finished ones.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from nri_scope.errors import UsageError
from nri_scope.events import FILTERED, RING_REMOVED
from nri_scope.recording.file.blobs import ContentError, ObjectKind, fetch, load
from nri_scope.recording.file.file_errors import error_words
from nri_scope.recording.file.heartbeat import heartbeat_of
from nri_scope.recording.file.schema import APPLICATION_ID
from nri_scope.recording.file.sqlite_text import number_list
from nri_scope.recording.file.trusted_location import COMPANIONS, companion, try_lock
from nri_scope.recording.file.writable_file import wal_of, wal_status

from .encode import Encoder

MIN_SIZE = 1 << 20
"""Smallest allowed size limit, in bytes."""

_STRETCHES = 16
"""Number of stretches into which the size or age limit is divided."""
_MAX_STRETCH_BYTES = 16 << 20
_MIN_STRETCH_BYTES = 32 << 10
# Number of rows or pages per step.
_EVENTS = 256
_ROWS = 512
_STATES = 64
_PAGES = 64
_USED_BY_CONTAINER = "SELECT 1 FROM container WHERE container.pod = pod.key"
_USED_BY_EFFECT = "SELECT 1 FROM effect WHERE effect.container = container.key"
_ALL_EVENTS = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Ring:
    """Size and age limits of a recording."""

    max_size: int | None
    """Maximum number of bytes of the file and its write-ahead log."""
    max_age: float | None
    """Maximum age of events in seconds."""

    def __post_init__(self) -> None:
        """Raise UsageError for limits that cannot be kept."""
        if self.max_size is not None and self.max_size < MIN_SIZE:
            raise UsageError(f"a recording of at most {self.max_size} bytes is too small", "use 1M")
        if self.max_age is not None and self.max_age <= 0:
            raise UsageError("the maximum age of a recording must be positive")

    @property
    def log_bytes(self) -> int:
        """Size limit of the write-ahead log in bytes, which ``max_size`` includes."""
        if self.max_size is None:
            return 64 << 20
        return max(512 << 10, min(8 << 20, self.max_size // 4))

    @property
    def _file_bytes(self) -> int:
        assert self.max_size is not None
        return self.max_size - self.log_bytes

    @property
    def stretch_bytes(self) -> int:
        """Size of a stretch, in bytes."""
        if self.max_size is None:
            return _MAX_STRETCH_BYTES
        return max(_MIN_STRETCH_BYTES, min(_MAX_STRETCH_BYTES, self._file_bytes // _STRETCHES))

    @property
    def stretch_seconds(self) -> float | None:
        """Maximum duration of a stretch, in seconds; None: unlimited."""
        return None if self.max_age is None else max(0.5, self.max_age / _STRETCHES)

    def is_too_large(self, connection: sqlite3.Connection) -> bool:
        """Return whether the size limit requires removing a stretch. Raises sqlite3.Error."""
        if self.max_size is None:
            return False
        page, pages, free = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_size", "page_count", "freelist_count")
        )
        # One stretch below the limit, as the file may grow during the removal.
        return bool((pages - free) * page > self._file_bytes // _STRETCHES * (_STRETCHES - 1))

    def is_too_old(self, connection: sqlite3.Connection, now_ns: int) -> bool:
        """Return whether all events of the oldest stretch are too old. Raises sqlite3.Error."""
        if self.max_age is None:
            return False
        stretch = oldest_stretch(connection)
        newest = connection.execute(
            "SELECT at_ns FROM event WHERE id < ? ORDER BY id DESC LIMIT 1",
            (_ALL_EVENTS if stretch is None else stretch[1],),
        ).fetchone()
        if newest is None:
            return stretch is not None
        return bool(newest[0] < now_ns - int(self.max_age * 1e9))


def oldest_stretch(connection: sqlite3.Connection) -> tuple[int, int, int] | None:
    """Return the oldest stretch: its id, and the ids of the first event and object after it.

    None if it is the current stretch. Raises sqlite3.Error.
    """
    rows = connection.execute(
        "SELECT id, first_event, first_object FROM stretch ORDER BY id LIMIT 2"
    ).fetchall()
    return (rows[0][0], rows[1][1], rows[1][2]) if len(rows) == 2 else None


def remove_oldest_stretch(
    connection: sqlite3.Connection, encoder: Encoder, open_sessions: Collection[int]
) -> Iterator[int]:
    """Remove the oldest stretch, unless it is the only one.

    Each step takes a few milliseconds and yields the number of removed events. The recording is
    consistent after every step; if the caller stops, another call can complete the removal. Raises
    sqlite3.Error, possibly with an open transaction.
    """
    stretch = oldest_stretch(connection)
    if stretch is None:
        return
    number, end_event, end_object = stretch
    yield from _move_states(connection, encoder, end_event, end_object, open_sessions)
    pods: set[int] = set()
    containers: set[int] = set()
    yield from _delete_effects(connection, end_event, containers)
    # Before their events, for the same reason as effects (see `_delete_effects`).
    for table in "mark", "tapped", "request_metadata":
        yield from _delete_below(connection, table, end_event)
    yield from _delete_events(connection, end_event, pods, containers)
    for table in "outcome", "left_out":
        yield from _delete_below(connection, table, end_event)
    connection.execute("BEGIN IMMEDIATE")
    _delete_sessions(connection, end_event, open_sessions, pods, containers)
    connection.execute("COMMIT")
    yield 0
    yield from _delete_below(connection, "object", end_object, "id")
    yield from _delete_subjects(connection, encoder, "container", containers)
    yield from _delete_subjects(connection, encoder, "pod", pods)
    yield _step(connection, "DELETE FROM stretch WHERE id = ?", number)
    yield from shrink(connection)


def shrink(connection: sqlite3.Connection) -> Iterator[int]:
    """Release free pages in steps; the next checkpoint truncates the file.

    Raises sqlite3.Error.
    """
    before = 0
    while True:
        (free,) = connection.execute("PRAGMA freelist_count").fetchone()
        if free in (0, before):
            return
        before = free
        connection.execute(f"PRAGMA incremental_vacuum({_PAGES})").fetchall()
        yield 0


def _step(connection: sqlite3.Connection, statement: str, *values: int) -> int:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(statement, values)
    connection.execute("COMMIT")
    return 0


def _move_states(
    connection: sqlite3.Connection,
    encoder: Encoder,
    end_event: int,
    end_object: int,
    open_sessions: Collection[int],
) -> Iterator[int]:
    """Copy the Synchronize objects of remaining sessions to the current stretch."""
    while True:
        rows = connection.execute(
            "SELECT t.session, t.event, t.position, t.object, o.kind, p.id, p.namespace, "
            "p.name, c.id, c.name FROM state AS t JOIN object AS o ON o.id = t.object "
            "JOIN session AS s ON s.id = t.session LEFT JOIN pod AS p ON p.key = t.pod "
            "LEFT JOIN container AS c ON c.key = t.container "
            f"WHERE t.object < ? AND (s.last_event >= ? OR s.id IN {number_list(open_sessions)}) "
            "LIMIT ?",
            (end_object, end_event, _STATES),
        ).fetchall()
        if not rows:
            return
        connection.execute("BEGIN IMMEDIATE")
        for session, event, position, old, kind, pod_id, ns, pod, container_id, name in rows:
            try:
                _, content = load(old, partial(fetch, connection))
            except ContentError:
                # Damaged on disk: keep the row, without content.
                content = b""
            is_pod = kind == ObjectKind.POD
            own = (pod_id if is_pod else container_id) or ""
            like = f"{ns or ''}/{(pod or '').partition('-')[0]}" if is_pod else name or ""
            new = encoder.objects.put(ObjectKind(kind), content, own, like)
            connection.execute(
                "UPDATE state SET object = ? WHERE session = ? AND event = ? AND position = ?",
                (new, session, event, position),
            )
        encoder.flush()
        connection.execute("COMMIT")
        yield 0


def _delete_effects(
    connection: sqlite3.Connection, end_event: int, containers: set[int]
) -> Iterator[int]:
    """Delete effects. Must precede their events: an interruption must not leave effects without an
    event.
    """
    while True:
        rows = connection.execute(
            "SELECT event, container FROM effect WHERE event < ? ORDER BY event, container LIMIT ?",
            (end_event, _EVENTS),
        ).fetchall()
        if not rows:
            return
        containers.update(row[1] for row in rows)
        yield _step(
            connection,
            "DELETE FROM effect WHERE event < ? OR (event = ? AND container <= ?)",
            rows[-1][0],
            *rows[-1],
        )


def _delete_below(
    connection: sqlite3.Connection, table: str, end: int, key: str = "event"
) -> Iterator[int]:
    """Delete the rows of a table whose ``key`` is below ``end``."""
    some = f"SELECT {key} FROM {table} WHERE {key} < ? ORDER BY {key} LIMIT {_ROWS}"
    while True:
        (last,) = connection.execute(f"SELECT max({key}) FROM ({some})", (end,)).fetchone()
        if last is None:
            return
        yield _step(connection, f"DELETE FROM {table} WHERE {key} <= ?", last)


def _delete_events(
    connection: sqlite3.Connection, end_event: int, pods: set[int], containers: set[int]
) -> Iterator[int]:
    while True:
        rows = connection.execute(
            "SELECT id, at_ns, pod, container FROM event WHERE id < ? ORDER BY id LIMIT ?",
            (end_event, _EVENTS),
        ).fetchall()
        if not rows:
            return
        pods.update(row[2] for row in rows if row[2] is not None)
        containers.update(row[3] for row in rows if row[3] is not None)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM event WHERE id <= ?", (rows[-1][0],))
        _extend_gap(connection, min(row[1] for row in rows), max(row[1] for row in rows), len(rows))
        connection.execute("COMMIT")
        yield len(rows)


def _extend_gap(connection: sqlite3.Connection, from_ns: int, to_ns: int, lost: int) -> None:
    extended = connection.execute(
        "UPDATE gap SET from_ns = min(from_ns, ?), to_ns = max(to_ns, ?), lost = lost + ? "
        "WHERE reason = ?",
        (from_ns, to_ns, lost, RING_REMOVED),
    )
    if not extended.rowcount:
        connection.execute(
            "INSERT INTO gap (from_ns, to_ns, reason, lost) VALUES (?, ?, ?, ?)",
            (from_ns, to_ns, RING_REMOVED, lost),
        )


def _delete_sessions(
    connection: sqlite3.Connection,
    end_event: int,
    open_sessions: Collection[int],
    pods: set[int],
    containers: set[int],
) -> None:
    gone = [
        row[0]
        for row in connection.execute(
            "SELECT id FROM session WHERE last_event < ? "
            f"AND id NOT IN {number_list(open_sessions)}",
            (end_event,),
        )
    ]
    for pod, container in connection.execute(
        f"SELECT pod, container FROM state WHERE session IN {number_list(gone)}"
    ):
        pods.update([pod] if pod is not None else [])
        containers.update([container] if container is not None else [])
    connection.execute(f"DELETE FROM state WHERE session IN {number_list(gone)}")
    # By the time of the oldest remaining event: a plugin may print many lines between events.
    connection.execute(
        f"DELETE FROM output WHERE session IN {number_list(gone)} OR at_ns < "
        "(SELECT at_ns FROM event WHERE id >= ? ORDER BY id LIMIT 1)",
        (end_event,),
    )
    connection.execute(f"DELETE FROM session WHERE id IN {number_list(gone)}")
    # Also delete gaps and notes from before the end of the removed interval.
    removed = connection.execute(
        "SELECT to_ns FROM gap WHERE reason = ?", (RING_REMOVED,)
    ).fetchone()
    if removed is not None:
        connection.execute(
            "DELETE FROM gap WHERE to_ns < ? AND reason != ?", (removed[0], RING_REMOVED)
        )
        # A filter goes on after the note about it.
        connection.execute(
            "DELETE FROM note WHERE at_ns < ? AND NOT (text GLOB ? AND session IN "
            "(SELECT id FROM session))",
            (removed[0], f"{FILTERED}*"),
        )


def _delete_subjects(
    connection: sqlite3.Connection, encoder: Encoder, table: str, keys: set[int]
) -> Iterator[int]:
    """Delete the pods or containers with these keys that are no longer referenced."""
    left = sorted(keys)
    used = _USED_BY_CONTAINER if table == "pod" else _USED_BY_EFFECT
    while left:
        some, left = left[:_EVENTS], left[_EVENTS:]
        connection.execute(
            f"DELETE FROM {table} WHERE key IN {number_list(some)} "
            f"AND NOT EXISTS (SELECT 1 FROM event WHERE event.{table} = {table}.key) "
            f"AND key NOT IN (SELECT {table} FROM state WHERE {table} IS NOT NULL) "
            f"AND NOT EXISTS ({used})"
        )
        # After every step: a new row must not refer to a cached row that was deleted.
        encoder.subjects.invalidate()
        yield 0


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
