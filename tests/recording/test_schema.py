# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields

import pytest

from nri_scope.events import Event
from nri_scope.recording.file.schema import EVENTS_VIEW, TABLES, VERSION, statements


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in statements():
            connection.execute(statement)
        yield connection


def test_the_events_view_has_the_fields_of_event_in_order(
    connection: sqlite3.Connection,
) -> None:
    cursor = connection.execute(EVENTS_VIEW)
    assert [column[0] for column in cursor.description] == [field.name for field in fields(Event)]


def test_the_newest_column_or_the_first_ones_have_the_version() -> None:
    assert max(column.since for table in TABLES for column in table.columns) == VERSION


def test_every_reference_targets_an_existing_column(connection: sqlite3.Connection) -> None:
    keys = {table.name: {column.name for column in table.columns} for table in TABLES}
    references = [
        (table.name, *row[2:5])
        for table in TABLES
        for row in connection.execute(f"PRAGMA foreign_key_list({table.name})")
    ]
    assert len(references) > 15
    for _, target, _, to in references:
        assert to in keys[target]


def test_the_schema_contains_its_comments(connection: sqlite3.Connection) -> None:
    (sql,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'event'").fetchone()
    for table in TABLES:
        if table.name == "event":
            assert table.comment in sql
            assert all(column.comment in sql for column in table.columns)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM event WHERE id > 5 ORDER BY id LIMIT 10",
        "SELECT * FROM event WHERE pod = 1 ORDER BY id",
        "SELECT * FROM event WHERE container = 1 AND id > 5 ORDER BY id",
        "SELECT * FROM pod WHERE id = 'x'",
        "SELECT * FROM pod WHERE id >= 'x' AND id < 'y'",
        "SELECT * FROM container WHERE pod = 1",
        "SELECT * FROM state WHERE session = 1 AND event = 2 ORDER BY position",
        "SELECT event FROM effect WHERE container = 1 ORDER BY event",
        "SELECT container FROM effect WHERE event < 5 ORDER BY event, container",
    ],
)
def test_frequent_queries_need_no_scan(connection: sqlite3.Connection, query: str) -> None:
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}")]
    assert plan
    assert all(step.startswith("SEARCH") for step in plan), plan
