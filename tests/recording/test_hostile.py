# SPDX-License-Identifier: Apache-2.0
"""Recordings from strangers are read, or rejected in one line; nothing else happens."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nri_scope.errors import RecordingError
from nri_scope.events import Container, Event, Gap, Note, Pod, Problem, Session, Status
from nri_scope.nri.events import METHODS
from nri_scope.nri.runtime_setup import FailurePolicy
from nri_scope.recording.file.blobs import Packer, digest
from nri_scope.recording.file.schema import EVENTS_VIEW, LOG_VIEW, OLDER_VIEWS, TABLES
from nri_scope.recording.query.container_events import effects_on
from nri_scope.recording.reading.opening import connect
from nri_scope.recording.reading.plugin_calls import MeasuredTimes, measured_times
from nri_scope.recording.reading.reader import MAX_REQUEST, Recording
from nri_scope.recording.reading.tap_tables import printed, tapped
from tests.amount import amount
from tests.in_memory import MEMORY
from tests.recording.traffic import a_synchronize, an_item, lifecycles, one_stream, record


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("original") / "r.db"
    items = one_stream("containerd-2.4-beta") + lifecycles(30)
    items += [an_item("FutureEvent", b"\xff" * 50), an_item("StateChange", b"\xff")]
    record(path, items)
    record(path, [an_item("Synchronize", a_synchronize(3))])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO gap VALUES (1, 1, 2, 3, 'a gap', NULL)")
        connection.execute("INSERT INTO note VALUES (1, NULL, 2, 'a note')")
        connection.commit()
    return path


_TYPES = {"int": (int,), "str": (str,), "bool": (bool,), "int | None": (int, type(None))}
_TYPES |= {"tuple[str, ...]": (tuple,), "Pod | None": (Pod, type(None))}
_TYPES |= {"FailurePolicy | None": (FailurePolicy, type(None))}
_TYPES |= {"Status": (Status,), "OptionalProblem": (Problem, str)}


def _well_typed(
    row_object: Session | Event | Gap | Note | Pod | Container | MeasuredTimes,
) -> None:
    for field in fields(row_object):
        assert type(getattr(row_object, field.name)) in _TYPES[str(field.type)]
    assert not isinstance(row_object, Event) or row_object.problem in ("", *Problem)


def use(path: Path, *, messages: bool = True) -> None:
    """Read the whole recording; RecordingError is the only permitted error."""
    try:
        recording = Recording.open(path)
    except RecordingError:
        return
    with recording:
        events: list[Event] = []
        sessions: list[Session] = []
        lists: list[Callable[[], list[Any]]] = [
            recording.gaps,
            recording.notes,
            recording.pods,
            recording.containers,
            lambda: measured_times(recording),
        ]
        for listing in lists:
            with suppress(RecordingError):
                for row_object in listing():
                    _well_typed(row_object)
        with suppress(RecordingError):
            sessions = recording.sessions()
        with suppress(RecordingError):
            for event in recording.events():
                _well_typed(event)
                events.append(event)
        if not messages:
            return
        with suppress(RecordingError):
            for event, _, _ in recording.exchanges():
                _well_typed(event)
        with suppress(RecordingError):
            for line in printed(recording):
                assert (type(line.at_ns), type(line.text)) == (int, str)
        with suppress(RecordingError):
            for known in tapped(recording, [event.id for event in events[:500]]):
                assert known.held_ns is None or type(known.held_ns) is int
                assert all(type(word) is str for pair in known.metadata for word in pair)
        with suppress(RecordingError):
            for container in recording.containers():
                assert all(type(n) is int for n in effects_on(recording, container) or ())
        for session in sessions:
            _well_typed(session)
            with suppress(RecordingError):
                recording.state(session.id)
        for event in events:
            with suppress(RecordingError):
                request = recording.request(event.id)
                if not event.mark:
                    METHODS[event.method].request.FromString(request)
            with suppress(RecordingError):
                recording.reply(event.id)
        # A user's own SQL may raise SQLite's errors.
        for query in (
            # A user's query has no limit of its own.
            "SELECT nri_json(id), nri_json(id, 'reply') FROM event LIMIT 500",
            "SELECT nri_object(id) FROM object LIMIT 500",
            "SELECT * FROM log LIMIT 500",
        ):
            # sqlite3 raises MemoryError for a value that is longer than the file.
            with suppress(sqlite3.Error, UnicodeError, RecordingError, MemoryError):
                for row in recording.connection.execute(query):
                    if "nri_" in query:
                        for value in row:
                            assert value is None or isinstance(json.loads(value), dict)


_damage = st.lists(
    st.one_of(
        st.tuples(st.just("flip"), st.floats(0, 1, exclude_max=True), st.integers(1, 255)),
        st.tuples(st.just("fill"), st.floats(0, 1, exclude_max=True), st.integers(0, 255)),
        st.tuples(st.just("swap"), st.floats(0, 1, exclude_max=True), st.integers(0, 255)),
        st.tuples(st.just("cut"), st.floats(0.1, 1, exclude_max=True), st.just(0)),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=amount(60, 20), deadline=None)
@given(damage=_damage)
@example(damage=[("fill", 0.804953977690627, 255)])
def test_a_damaged_file_is_read_or_rejected(
    original: Path, damage: list[tuple[str, float, int]]
) -> None:
    content = bytearray(original.read_bytes())
    for kind, where, value in damage:
        at = int(where * len(content))
        page = at // 4096 * 4096
        match kind:
            case "flip":
                content[at] ^= value
            case "fill":
                content[at : at + 64] = bytes([value]) * len(content[at : at + 64])
            case "swap":
                other = value * 4096 % len(content) // 4096 * 4096
                if page and other:
                    one, two = content[page : page + 4096], content[other : other + 4096]
                    if len(one) == len(two):
                        content[page : page + 4096], content[other : other + 4096] = two, one
            case _:
                del content[at:]
        if not content:
            break
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / "r.db"
        path.write_bytes(content)
        use(path)


_COLUMNS = [(table.name, column.name) for table in TABLES for column in table.columns]
_VALUES: list[object] = [None, -1, 1 << 62, 1.5, "text", "", b"\xff\xfe", b"", "\x00", "[1]", "{"]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a recording without NOT NULL constraints, like a manipulated file."""
    path = tmp_path_factory.mktemp("small") / "r.db"
    record(path, one_stream("containerd-1.7.24"))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("INSERT INTO gap VALUES (1, 1, 2, 3, 'a gap', NULL)")
        connection.execute("INSERT INTO note VALUES (1, NULL, 2, 'a note')")
        connection.execute("INSERT INTO effect VALUES (1, 1)")
        connection.execute("INSERT INTO tapped VALUES (1, 2, '[]')")
        connection.execute("INSERT INTO request_metadata VALUES (2, '[]')")
        connection.execute("INSERT INTO output VALUES (1, 1, 2, 'stdout', 'a line')")
        connection.execute("INSERT INTO plugin_calls VALUES (0, '10-a', 'Synchronize', 9, 1, 0, 5)")
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, 'NOT NULL', '') "
            "WHERE type = 'table' AND name != 'state'"
        )
    return path


@pytest.mark.beyond_core
@pytest.mark.parametrize(("table", "column"), _COLUMNS)
def test_a_column_may_hold_anything(small: Path, tmp_path: Path, table: str, column: str) -> None:
    path = Path(shutil.copy(small, tmp_path / "r.db"))
    keys_of = {"state": "position", "effect": "event", "plugin_calls": "plugin"}
    key = keys_of.get(table, "rowid")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        keys = [row[0] for row in connection.execute(f"SELECT {key} FROM {table}")]
    # Each row gets another value; too few rows get the values one after another.
    rounds = 1 if len(keys) >= len(_VALUES) else len(_VALUES)
    for number in range(rounds):
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            for place, row in enumerate(keys):
                # Keys must be unique, and row ids must be numbers.
                with suppress(sqlite3.IntegrityError, sqlite3.DataError):
                    connection.execute(
                        f"UPDATE {table} SET {column} = ? WHERE {key} = ?",
                        (_VALUES[(place + number) % len(_VALUES)], row),
                    )
        use(path, messages=rounds == 1)


class TestTraps:
    @pytest.fixture
    def path(self, original: Path, tmp_path: Path) -> Path:
        return Path(shutil.copy(original, tmp_path / "r.db"))

    def _prepare(self, path: Path, *statements: str) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)

    @pytest.mark.parametrize(
        "statements",
        [
            ["CREATE TRIGGER t AFTER INSERT ON event BEGIN DELETE FROM event; END"],
            ["CREATE VIEW v AS SELECT 1"],
            ["CREATE VIRTUAL TABLE v USING fts5(a)"],
            ["ALTER TABLE gap RENAME TO other", "CREATE VIEW gap AS SELECT * FROM other"],
            ["DROP TABLE gap", "CREATE VIRTUAL TABLE gap USING fts5(id, session, from_ns, to_ns)"],
            [
                "DROP TABLE gap",
                "CREATE TABLE gap (id INTEGER PRIMARY KEY, session, from_ns, to_ns, lost, "
                "reason TEXT AS (hex(zeroblob(100000000))))",
            ],
            ["DROP TABLE gap", "CREATE TABLE gap (id INTEGER PRIMARY KEY)"],
        ],
    )
    def test_in_the_schema_are_rejected(self, path: Path, statements: list[str]) -> None:
        self._prepare(path, *statements)
        with pytest.raises(RecordingError):
            Recording.open(path)

    @pytest.mark.parametrize(
        "statements",
        [
            ["CREATE VIEW log AS SELECT 'trap' AS event"],
            ["CREATE VIEW Log AS SELECT 'trap' AS event"],
            ["CREATE TABLE log (event)"],
            ["CREATE TABLE other (event)", "CREATE INDEX log ON other(event)"],
            [f"CREATE VIEW log AS {LOG_VIEW} WHERE e.id > 3"],
            [f"CREATE VIEW log AS {LOG_VIEW.replace('p.namespace AS', 'p.name AS')}"],
            [f"CREATE VIEW events AS {EVENTS_VIEW}"],
        ],
    )
    def test_under_the_name_of_our_view_are_rejected(
        self, path: Path, statements: list[str]
    ) -> None:
        self._prepare(path, "DROP VIEW log", *statements)
        with pytest.raises(RecordingError, match="which no recording has; do not trust it"):
            Recording.open(path)

    @pytest.mark.parametrize(
        "sql", [LOG_VIEW, *OLDER_VIEWS["log"], LOG_VIEW.replace("\n", "\r\n    ")]
    )
    def test_exclude_current_and_older_versions_of_our_view(self, path: Path, sql: str) -> None:
        self._prepare(path, "DROP VIEW log", f"CREATE VIEW log AS\n{sql}")
        with Recording.open(path) as recording:
            rows = recording.connection.execute("SELECT event FROM log LIMIT 1").fetchall()
        assert rows == [("Configure",)]

    @pytest.mark.parametrize("table", ["session", "gap", "note"])
    def test_of_too_many_rows_are_rejected_before_they_are_read(
        self, path: Path, table: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def listed(recording: Recording) -> object:
            lists = {"gap": recording.gaps, "note": recording.notes}
            return lists.get(table, recording.sessions)()

        # More gaps than sessions, because sessions are read together with gaps.
        insert_gap = "INSERT INTO gap (from_ns, to_ns, reason) VALUES (1, 2, 'one more')"
        self._prepare(path, *[insert_gap] * 5)
        with Recording.open(path) as recording:
            (rows,) = recording.rows(f"SELECT count(*) FROM {table}")[0]
            assert isinstance(rows, int)
            monkeypatch.setattr("nri_scope.recording.file.row_limits.MAX_ROWS", rows)
            assert listed(recording)
        with Recording.open(path) as recording:
            monkeypatch.setattr("nri_scope.recording.file.row_limits.MAX_ROWS", rows - 1)
            with pytest.raises(RecordingError, match=f"more than {rows - 1} {table}s, and no reco"):
                listed(recording)

    def test_cannot_call_functions(self, tmp_path: Path) -> None:
        # In addition to the check of the schema.
        record(path := tmp_path / "r.nriscope.db", lifecycles(1))
        with closing(connect(path, known_fingerprint=()).connection) as connection:
            assert connection.execute("PRAGMA trusted_schema").fetchone() == (0,)
            with pytest.raises(sqlite3.OperationalError, match="readonly"):
                connection.execute("DELETE FROM event")

    def test_too_many_tables_are_rejected(self, path: Path) -> None:
        self._prepare(path, "BEGIN", *(f"CREATE TABLE t{n} (x)" for n in range(1000)), "COMMIT")
        with pytest.raises(RecordingError, match="too many"):
            Recording.open(path)

    @pytest.mark.filterwarnings("ignore::nri_scope.errors.RecordingCut")
    def test_a_request_that_exceeds_the_size_limit_is_not_assembled(self, path: Path) -> None:
        content = bytes(1 << 20)
        rows = MAX_REQUEST // len(content) + 1
        with closing(sqlite3.connect(path)) as connection:
            (event,) = connection.execute("SELECT event FROM state LIMIT 1").fetchone()
            connection.execute(
                "INSERT INTO object VALUES (999999, 1, ?, ?, NULL, ?)",
                (digest(content), len(content), Packer().alone(content)),
            )
            connection.executemany(
                "INSERT INTO state SELECT session, event, ?, NULL, NULL, 999999 FROM state "
                "WHERE event = ? LIMIT 1",
                [(position, event) for position in range(1000, 1000 + rows)],
            )
            connection.commit()
        with Recording.open(path) as recording:
            with pytest.raises(RecordingError, match="too large"):
                recording.request(event)

    def test_deeply_nested_json_is_rejected(self, path: Path) -> None:
        self._prepare(path, f"UPDATE event SET changed = '{'[' * 50_000}' WHERE id = 5")
        with Recording.open(path) as recording:
            with pytest.raises(RecordingError, match="event 5"):
                list(recording.events())

    def _make_endless(self, path: Path, table: str) -> None:
        """Point all children of a B-tree's root to the first child."""
        with closing(sqlite3.connect(path)) as connection:
            root, leaf = (
                row[0]
                for row in connection.execute(
                    "SELECT pageno FROM dbstat WHERE name = ? ORDER BY path LIMIT 2", (table,)
                )
            )
        content = bytearray(path.read_bytes())
        start = (root - 1) * 4096
        cells = int.from_bytes(content[start + 3 : start + 5], "big")
        for number in range(cells):
            pointer = start + 12 + 2 * number
            cell = start + int.from_bytes(content[pointer : pointer + 2], "big")
            content[cell : cell + 4] = leaf.to_bytes(4, "big")
        path.write_bytes(content)

    def test_a_cyclic_event_tree_is_rejected(self, path: Path) -> None:
        self._make_endless(path, "event")
        with Recording.open(path) as recording:
            with pytest.raises(RecordingError, match=r"damaged from event .*; `sqlite3"):
                list(recording.events())

    def test_a_cyclic_state_tree_is_rejected(self, tmp_path: Path) -> None:
        path = tmp_path / "r.db"
        record(path, [an_item("Synchronize", a_synchronize(300))])
        self._make_endless(path, "state")
        with Recording.open(path) as recording:
            with pytest.raises(RecordingError, match="damaged"):
                recording.state(1)

    def test_an_endless_query_is_stopped(self, path: Path) -> None:
        with Recording.open(path) as recording:
            endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
            with pytest.raises(RecordingError, match="would never end"):
                recording._all(tuple, f"{endless} SELECT i FROM n WHERE i < 0")
            # Only that query is stopped.
            assert recording.event(1) is not None

    def test_a_wrong_index_does_no_harm(self, path: Path) -> None:
        self._prepare(
            path,
            "PRAGMA writable_schema = ON",
            "UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master "
            "WHERE name = 'event_by_container') WHERE name = 'event_by_pod'",
        )
        use(path)
