# SPDX-License-Identifier: Apache-2.0
"""A user's SQL can only read a recording."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_scope.errors import RecordingError, UsageError
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.user_sql import Cell, run
from tests.recording.recordings import record

_REFUSED = "this SQL would do more than read; recordings are read-only here: use SELECT"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("query") / "x.nriscope.db")


@pytest.fixture
def recording(path: Path) -> Iterator[Recording]:
    with Recording.open(path) as recording:
        yield recording


def rows(recording: Recording, sql: str) -> list[tuple[Cell, ...]]:
    return list(run(recording.connection, recording.path, sql).rows)


def test_returns_columns_and_rows(recording: Recording) -> None:
    result = run(recording.connection, recording.path, "SELECT id, event AS e FROM log LIMIT 2")
    assert result.columns == ("id", "e")
    assert list(result.rows) == [(1, "Synchronize"), (2, "RunPodSandbox")]


def test_messages_are_json_and_regexp_works(recording: Recording) -> None:
    ((name,),) = rows(
        recording,
        "SELECT DISTINCT json_extract(nri_json(id), '$.pod.name') FROM log WHERE pod REGEXP '^we'",
    )
    assert name == "web"


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("DELETE FROM event", _REFUSED),
        (
            "INSERT INTO note VALUES (1, 1, 1, 'x')",
            "would do more than read; recordings are read-only",
        ),
        ("UPDATE event SET took_ns = 0", _REFUSED),
        ("DROP TABLE event", _REFUSED),
        ("CREATE TABLE x (a)", _REFUSED),
        ("CREATE TEMP TABLE x (a)", _REFUSED),
        ("ALTER TABLE event RENAME TO x", _REFUSED),
        ("REINDEX", _REFUSED),
        ("ATTACH '/dev/null' AS x", _REFUSED),
        ("VACUUM INTO '/dev/null'", _REFUSED),
        (" -- x\n/* y */ vacuum", _REFUSED),
        ("PRAGMA query_only = OFF", _REFUSED),
        ("PRAGMA user_version", _REFUSED),
        (
            "SELECT * FROM pragma_table_info('log')",
            "would do more than read; recordings are read-only",
        ),
        ("BEGIN", _REFUSED),
        ("SELECT load_extension('x')", _REFUSED),
        ("", "returns no rows"),
        (" -- nothing", "returns no rows"),
        ("SELEC 1", 'near "SELEC": syntax error'),
        ("SELECT * FROM nope", "no such table: nope; SELECT sql FROM sqlite_master shows"),
        ("SELECT nope FROM log", "no such column: nope; SELECT sql FROM sqlite_master shows"),
        ("SELECT 'a' REGEXP '('", "raised exception; write nri_json(id, 'reply'), nri_object("),
        ("SELECT 1; SELECT 2", "one statement at a time"),
        ("SELECT 1\0", "null"),
        ("SELECT '\udcff'", "SQL: the query is not UTF-8 text"),
        ("SELECT nope(1)", "no such function: nope; there are SQLite's own functions, nri_json()"),
        ("SELECT nri_json(5, 'bogus')", "write nri_json(id, 'reply')"),
        ("SELECT nri_json('x')", "write nri_json(id, 'reply')"),
        ("SELECT nri_object('x')", "nri_object(pod_object)"),
        ("SELECT randomblob(1000000000)", "too big"),
    ],
)
def test_other_statements_are_rejected_in_one_line(
    recording: Recording, sql: str, problem: str
) -> None:
    before = recording.path.read_bytes()
    with pytest.raises(UsageError) as caught:
        rows(recording, sql)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)
    assert recording.path.read_bytes() == before


def test_table_definitions_can_be_queried(recording: Recording) -> None:
    assert "took_ns" in [row[1] for row in rows(recording, "PRAGMA table_info(event)")]
    assert "event" in [row[1] for row in rows(recording, "PRAGMA table_list")]


def test_errors_in_later_rows_are_reported(recording: Recording) -> None:
    result = run(
        recording.connection,
        recording.path,
        "WITH n(x) AS (SELECT 300 UNION ALL SELECT x - 1 FROM n WHERE x > 0) "
        "SELECT CASE x WHEN 1 THEN json('{') ELSE x END FROM n",
    )
    with pytest.raises(UsageError, match="malformed JSON"):
        list(result.rows)


def test_an_interrupt_ends_an_endless_query(recording: Recording) -> None:
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        rows(
            recording,
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n",
        )
    timer.join()


def test_a_damaged_file_is_reported_as_damaged(path: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.nriscope.db"
    content = bytearray(path.read_bytes())
    # The first page holds the schema, which is checked when the file is opened.
    content[8192:] = b"\xff" * (len(content) - 8192)
    broken.write_bytes(content)
    connection = sqlite3.connect(broken)
    with pytest.raises(RecordingError, match="damaged"):
        list(run(connection, broken, "SELECT * FROM event, object").rows)
    connection.close()
