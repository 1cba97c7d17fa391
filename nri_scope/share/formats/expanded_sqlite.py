# SPDX-License-Identifier: Apache-2.0
"""A SQLite file of plain tables with JSON columns, for Datasette, sqlite-utils and ``sqlite3``.

Queries need neither nri-scope's functions nor joins; in exchange, the file is many times as large
as the recording. It is created with sqlite-utils, whose conventions (names, keys, JSON as text)
such tools expect.
"""

from __future__ import annotations

import errno
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import IO

import sqlite_utils
from sqlite_utils.db import ForeignKey

from nri_scope.events import HAPPENED, Event, Tapped
from nri_scope.recording.file.file_errors import code_of, error_words
from nri_scope.recording.file.sqlite_text import storable
from nri_scope.recording.reading.event_messages import reply_of, request_of
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.records import event_record, rfc3339, session_record

from .exported_part import ExportedPart, folder_of, json_text

Cell = None | int | str

_NUMBERS = (
    "session nri_version_inferred registration_timeout_ms request_timeout_ms took_us deadline_ms "
    "size status_code tap_us lost"
)


def _columns(key: type, others: str) -> dict[str, type]:
    names = others.split()
    return {"id": key, **{name: int if name in _NUMBERS.split() else str for name in names}}


TABLES = {
    "sessions": _columns(
        int,
        "role plugin runtime runtime_version nri_version nri_version_inferred "
        "registration_timeout_ms request_timeout_ms started synced ended end_reason",
    ),
    "pods": _columns(str, "namespace name uid"),
    "containers": _columns(str, "name pod_id"),
    "events": _columns(
        int,
        "at session plugin event method namespace pod container pod_id container_id took_us "
        "deadline_ms size status status_code status_message mark changed owners outcomes "
        "targets request reply tap_us metadata",
    ),
    "gaps": _columns(int, "session from_time to_time reason lost left_out"),
    "notes": _columns(int, "session at text"),
    "output": _columns(int, "session at stream text"),
}
"""Columns of every table; ``id`` is the key. Those of ``events`` are named as in ``show``."""

_REFERENCES = {
    ("containers", "pod_id"): "pods",
    ("events", "session"): "sessions",
    ("events", "pod_id"): "pods",
    ("events", "container_id"): "containers",
    ("gaps", "session"): "sessions",
    ("notes", "session"): "sessions",
    ("output", "session"): "sessions",
}

VIEWS = {
    "log": "SELECT id, at, plugin, event, namespace, pod, container, took_us, status FROM events",
    "failed": "SELECT id, at, plugin, event, namespace, pod, container, status, status_message, "
    "took_us, deadline_ms FROM events WHERE status <> 'ok'",
    "plugins": "SELECT plugin, count(*) AS events, sum(status <> 'ok') AS failed, "
    "CAST(avg(took_us) AS INTEGER) AS mean_us, max(took_us) AS max_us "
    "FROM events GROUP BY plugin",
    "requests": "SELECT events.id AS id, at, plugin, event, namespace, pod, container, "
    "path.value AS path, owners, json_extract(outcomes, '$[' || path.key || ']') AS outcome, "
    "iif(outcomes <> '[]', json_extract(owners, '$[' || path.key || ']'), NULL) AS owner, "
    "json_extract(targets, '$[' || path.key || ']') AS target "
    "FROM events, json_each(events.changed) AS path",
    "changes": "SELECT * FROM requests "
    f"WHERE outcome IN ({', '.join(f'{kind!r}' for kind in sorted(map(str, HAPPENED)))})",
    "environment": "SELECT events.id AS id, at, plugin, namespace, pod, container, "
    "substr(variable.value, 1, instr(variable.value, '=') - 1) AS name, "
    "substr(variable.value, instr(variable.value, '=') + 1) AS value "
    "FROM events, json_each(events.request, '$.container.env') AS variable "
    "WHERE event = 'CreateContainer'",
}
"""Views by name; docs/formats.md describes them."""

_INDEXED = (("events", "pod_id"), ("events", "container_id"), ("events", "session"))
_BATCH_ROWS = 1_000


def write(recording: Recording, numbers: Iterable[int] | None, stream: IO[bytes]) -> int:
    """Write the events; see `formats.Write`.

    SQLite needs a seekable file, so the database is created in a temporary folder, beside
    ``stream.name`` if that is a file, and then copied to the stream.
    """
    with tempfile.TemporaryDirectory(prefix=".nri-scope-", dir=folder_of(stream)) as temporary:
        path = Path(temporary) / "expanded.db"
        try:
            count = _create(ExportedPart(recording, numbers), recording, path)
        except sqlite3.Error as error:
            # Errors of the recording itself are raised as RecordingError.
            full = code_of(error) == sqlite3.SQLITE_FULL
            number = errno.ENOSPC if full else errno.EIO
            raise OSError(number, error_words(error), str(path.parent.parent)) from error
        with path.open("rb") as made:
            shutil.copyfileobj(made, stream, 1 << 20)
    return count


def _create(excerpt: ExportedPart, recording: Recording, path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        # If writing fails, the file is discarded.
        connection.execute("PRAGMA journal_mode = OFF").fetchall()
        connection.execute("PRAGMA synchronous = OFF")
        # Plugins of sqlite-utils are third-party code.
        database = sqlite_utils.Database(connection, execute_plugins=False)
        for table, columns in TABLES.items():
            database.table(table).create(
                columns,
                pk="id",
                foreign_keys=[
                    ForeignKey(table, column, other, "id")
                    for (from_table, column), other in _REFERENCES.items()
                    if from_table == table
                ],
            )
        events = _Events(excerpt)
        _insert(database, "events", events.rows())
        _insert(database, "sessions", map(_cells, map(session_record, recording.sessions())))
        _insert(database, "pods", _pods(recording, events.pods))
        _insert(database, "containers", _containers(recording, events.containers))
        _insert(database, "gaps", _gaps(excerpt))
        _insert(database, "notes", _notes(recording))
        _insert(database, "output", _output(excerpt, events.sessions))
        for table, column in _INDEXED:
            database.table(table).create_index([column])
        for view, sql in VIEWS.items():
            database.create_view(view, sql)
        connection.commit()
        return events.count


def _insert(database: sqlite_utils.Database, table: str, rows: Iterator[dict[str, Cell]]) -> None:
    # A forged recording may contain an id twice.
    database.table(table).insert_all(rows, pk="id", batch_size=_BATCH_ROWS, ignore=True)


class _Events:
    """Rows of ``events``, and the ids of sessions, pods and containers in the rows read so far."""

    def __init__(self, excerpt: ExportedPart) -> None:
        self._excerpt = excerpt
        self.count = 0
        self.sessions: set[int] = set()
        self.pods: set[str] = set()
        self.containers: set[str] = set()

    def rows(self) -> Iterator[dict[str, Cell]]:
        taps = self._excerpt.taps()
        for event, request, reply in self._excerpt.exchanges():
            self.count += 1
            self.sessions.add(event.session)
            self.pods.add(event.pod_id)
            self.containers.add(event.container_id)
            yield _event(event, request, reply, taps.of(event.id))


def _event(event: Event, request: bytes, reply: bytes, tap: Tapped | None) -> dict[str, Cell]:
    return {
        **_cells(event_record(event)),
        "pod_id": _text(event.pod_id) or None,
        "container_id": _text(event.container_id) or None,
        "status_code": event.status_code,
        "status_message": _text(event.status_message),
        "mark": _text(event.mark),
        "changed": json_text(list(event.changed)),
        "owners": json_text(list(event.owners)),
        "outcomes": json_text(list(event.outcomes)),
        "targets": json_text(list(event.targets)),
        "request": json_text(request_of(event, request)),
        "reply": json_text(reply_of(event, reply)),
        "tap_us": None if tap is None or tap.held_ns is None else tap.held_ns // 1000,
        "metadata": None if tap is None else json_text([list(pair) for pair in tap.metadata]),
    }


def _pods(recording: Recording, included: set[str]) -> Iterator[dict[str, Cell]]:
    for pod in recording.pods():
        if pod.id in included:
            names = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
            yield _cells({"id": pod.id, **names})


def _containers(recording: Recording, included: set[str]) -> Iterator[dict[str, Cell]]:
    for container in recording.containers():
        if container.id in included:
            pod_id = container.pod.id if container.pod else None
            yield _cells({"id": container.id, "name": container.name, "pod_id": pod_id})


def _gaps(excerpt: ExportedPart) -> Iterator[dict[str, Cell]]:
    for gap in excerpt.gaps():
        times = {"from_time": rfc3339(gap.from_ns), "to_time": rfc3339(gap.to_ns)}
        others = {"session": gap.session, "reason": gap.reason}
        yield _cells({"id": gap.id, **times, **others, "left_out": 0, **gap.losses})


def _notes(recording: Recording) -> Iterator[dict[str, Cell]]:
    for note in recording.notes():
        others = {"session": note.session, "at": rfc3339(note.at_ns), "text": note.text}
        yield _cells({"id": note.id, **others})


def _output(excerpt: ExportedPart, included: set[int]) -> Iterator[dict[str, Cell]]:
    for line in excerpt.printed(included):
        others = {"session": line.session, "at": rfc3339(line.at_ns), "stream": line.stream}
        yield _cells({"id": line.id, **others, "text": line.text})


def _cells(record: Mapping[str, object]) -> dict[str, Cell]:
    return {key: _cell(value) for key, value in record.items()}


def _cell(value: object) -> Cell:
    if isinstance(value, int):
        return int(value)
    return _text(value) if isinstance(value, str) else None


def _text(text: str) -> str:
    # SQLite's own functions and its shell treat a NUL as the end of a text.
    return storable(text).replace("\0", "\\x00")
