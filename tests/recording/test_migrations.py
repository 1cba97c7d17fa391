# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from nri_scope.recording.migrations import CONVERTERS, upgrade, upgraded_copy
from nri_scope.recording.schema import VERSION


@pytest.fixture
def old() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE event (id INTEGER PRIMARY KEY, took_ms)")
        connection.execute("INSERT INTO event VALUES (1, 7)")
        connection.execute("PRAGMA user_version = 1")
        yield connection


def _one_to_two(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE event ADD COLUMN took_ns")
    connection.execute("UPDATE event SET took_ns = took_ms * 1000000")


def _two_to_three(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE event DROP COLUMN took_ms")


_STEPS = {1: _one_to_two, 2: _two_to_three}


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


@pytest.mark.parametrize(("to", "columns"), [(1, 2), (2, 3), (3, 2)])
def test_steps_run_in_order_up_to_the_target_version(
    old: sqlite3.Connection, to: int, columns: int
) -> None:
    upgrade(old, 1, to, _STEPS)
    assert _version(old) == to
    assert len(old.execute("SELECT * FROM event").fetchone()) == columns


def test_a_failed_step_keeps_the_version_before_it(old: sqlite3.Connection) -> None:
    def fails(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM event")
        connection.execute("SELECT nonsense")

    with pytest.raises(sqlite3.OperationalError):
        upgrade(old, 1, 3, {**_STEPS, 2: fails})
    assert _version(old) == 2
    assert old.execute("SELECT took_ns FROM event").fetchone() == (7_000_000,)


def test_a_copy_is_upgraded_and_the_original_unchanged(old: sqlite3.Connection) -> None:
    with closing(upgraded_copy(old, 1, 3, _STEPS)) as copy:
        assert copy.execute("SELECT * FROM event").fetchone() == (1, 7_000_000)
    assert old.execute("SELECT * FROM event").fetchone() == (1, 7)
    assert _version(old) == 1


def test_every_version_has_a_step_to_the_next() -> None:
    assert set(CONVERTERS) == set(range(1, VERSION))
