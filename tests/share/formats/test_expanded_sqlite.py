# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlite_utils

from nri_scope.recording.reading.reader import Recording
from nri_scope.share.formats import expanded_sqlite
from nri_scope.share.formats.expanded_sqlite import TABLES, VIEWS
from tests.share.formats.recordings import (
    CONTAINER,
    HOSTILE,
    POD,
    SAMPLES,
    exported,
    hostile,
    varied,
)


@contextmanager
def _opened(
    path: Path, numbers: list[int] | None = None, *, outcomes: bool = True
) -> Iterator[sqlite3.Connection]:
    expanded = path.with_suffix(".expanded.db")
    expanded.write_bytes(exported(path, "sqlite-expanded", numbers, outcomes=outcomes))
    with closing(sqlite3.connect(expanded)) as connection:
        connection.row_factory = sqlite3.Row
        yield connection


def _rows(connection: sqlite3.Connection, sql: str) -> list[dict[str, Any]]:
    return [dict(row) for row in connection.execute(sql)]


def _ids(connection: sqlite3.Connection, table: str) -> list[Any]:
    return [row["id"] for row in connection.execute(f"SELECT id FROM {table}")]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_columns_equal_the_functions_of_the_recording(sample: Path, tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    path.write_bytes(sample.read_bytes())
    with _opened(path) as connection, Recording.open(path) as recording:
        expected = recording.connection.execute(
            "SELECT id, at, event, coalesce(pod, ''), nri_json(id), nri_json(id, 'reply') FROM log"
        ).fetchall()
        rows = connection.execute("SELECT id, at, event, pod, request, reply FROM events")
        assert [tuple(row) for row in rows] == expected


def test_tables_are_complete_with_valid_foreign_keys(tmp_path: Path) -> None:
    with _opened(varied(tmp_path / "r.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert len(_ids(connection, "events")) == 24
        assert _ids(connection, "sessions") == [1, 2, 3]
        assert _ids(connection, "pods") == [POD]
        assert _rows(connection, "SELECT * FROM containers") == [
            {"id": CONTAINER, "name": "app-0", "pod_id": POD}
        ]
        gaps = _rows(connection, "SELECT session, lost FROM gaps")
        assert gaps == [{"session": 2, "lost": 7}, {"session": None, "lost": None}]
        assert _rows(connection, "SELECT text FROM notes") == [{"text": "look here"}]


def test_a_part_contains_its_pods_and_all_sessions_and_gaps(tmp_path: Path) -> None:
    with _opened(varied(tmp_path / "r.db"), [23]) as connection:
        assert _ids(connection, "events") == [23]
        # What was observed tells what it means that there are no other events.
        assert _ids(connection, "sessions") == [1, 2, 3]
        assert len(_ids(connection, "gaps")) == 4
        assert _rows(connection, "SELECT sum(left_out) AS n FROM gaps") == [{"n": 23}]
        assert _ids(connection, "pods") == _ids(connection, "containers") == []


def test_views_list_failures_plugins_requests_and_variables(tmp_path: Path) -> None:
    path = varied(tmp_path / "r.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE event SET changed = ?, owners = ? WHERE id = 4", (
            '["/process/env/A", "/mounts/~1b"]', '["10-first"]'
        ))  # fmt: skip
        connection.commit()
    with _opened(path, outcomes=False) as connection:
        (failed,) = _rows(connection, "SELECT id, status, status_message FROM failed")
        assert failed == {"id": 10, "status": "timeout", "status_message": "too late"}
        plugins = _rows(connection, "SELECT plugin, events, failed, max_us FROM plugins")
        assert plugins == [
            {"plugin": "10-first", "events": 12, "failed": 0, "max_us": 33},
            {"plugin": "90-second", "events": 11, "failed": 1, "max_us": 33},
            {"plugin": "cri", "events": 1, "failed": 0, "max_us": 33},
        ]
        assert _rows(connection, "SELECT * FROM changes") == []
        requests = _rows(connection, "SELECT id, path, owners FROM requests")
        assert requests == [
            {"id": 4, "path": path, "owners": '["10-first"]'}
            for path in ("/process/env/A", "/mounts/~1b")
        ]
        (variable,) = _rows(
            connection, "SELECT * FROM environment WHERE id = 3 AND name LIKE '%_07'"
        )
        assert (variable["name"], variable["value"]) == ("VARIABLE_07", "value-07-of-web-1")
        assert len(_rows(connection, "SELECT * FROM log")) == 24


def test_sqlite_utils_finds_keys_and_views(tmp_path: Path) -> None:
    with _opened(varied(tmp_path / "r.db")) as connection:
        database = sqlite_utils.Database(connection)
        assert set(database.table_names()) == set(TABLES)
        assert set(database.view_names()) == set(VIEWS)
        keys = {(key.column, key.other_table) for key in database.table("events").foreign_keys}
        assert keys == {("session", "sessions"), ("pod_id", "pods"), ("container_id", "containers")}
        assert database.table("events").pks == ["id"]


def test_the_application_id_is_not_that_of_a_recording(tmp_path: Path) -> None:
    with _opened(varied(tmp_path / "r.db")) as connection:
        assert connection.execute("PRAGMA application_id").fetchone()[0] == 0


def test_json_of_a_hostile_recording_is_valid_in_sqlite(tmp_path: Path) -> None:
    with _opened(hostile(tmp_path / "r.db"), outcomes=False) as connection:
        bad = "NOT json_valid(request) OR NOT json_valid(reply) OR NOT json_valid(changed)"
        assert _rows(connection, f"SELECT id FROM events WHERE {bad}") == []
        for view in VIEWS:
            connection.execute(f"SELECT * FROM {view}").fetchall()
        assert len(_ids(connection, "events")) == 2 * len(HOSTILE) + 7
        # Without NUL, at which the shell and functions of SQLite would end the text.
        assert _rows(connection, "SELECT DISTINCT pod FROM events WHERE pod_id LIKE '0%'") == [
            {"pod": "a\\x00b"}
        ]
        columns = ("namespace", "pod", "container", "pod_id", "event", "status_message")
        for column in columns:
            assert _rows(connection, f"SELECT id FROM events WHERE instr({column}, char(0))") == []
        first = _rows(connection, "SELECT changed, request FROM events WHERE id = 1")[0]
        assert json.loads(first["changed"]) == ["/process/env/\\ud800\0", "\x1b[2J"]
        assert json.loads(first["request"])["pod"]["name"] == "a\0b"


def test_a_full_disk_raises_the_systems_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_disk(*_: object) -> int:
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.execute("PRAGMA max_page_count = 1")
            connection.execute("CREATE TABLE t (x)")
        return 0

    monkeypatch.setattr(expanded_sqlite, "ExportedPart", fill_disk)
    with pytest.raises(OSError, match="the disk is full") as caught:
        exported(SAMPLES[0], "sqlite-expanded")
    assert caught.value.errno == errno.ENOSPC
