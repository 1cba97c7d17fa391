# SPDX-License-Identifier: Apache-2.0
"""Tap data and plugin output in bounded and in older recordings."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from nri_scope.capture.sink import Begin
from nri_scope.events import Printed
from nri_scope.recorder.ring import MIN_SIZE, Ring
from nri_scope.recorder.writer import Recorder
from tests.recorder.ring_recording import Written, noisy
from tests.recording.traffic import NOW, a_start, an_item, record

METADATA = (("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),)


def rows(path: Path, query: str) -> list[tuple[int, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


@pytest.mark.parametrize(("held_ns", "table"), [(1, "tapped"), (None, "request_metadata")])
def test_tap_data_and_output_are_removed_with_their_events(
    tmp_path: Path, held_ns: int | None, table: str
) -> None:
    written = Written(tmp_path / "r.db", Ring(MIN_SIZE, None))
    written.write(Begin(1, a_start()))
    for number in range(120):
        items = [item._replace(held_ns=held_ns, metadata=METADATA) for item in noisy(number)]
        written.write(Printed(0, 1, items[0].wall_ns, "stderr", f"line {number}"))
        written.send(items)
    written.close()
    assert written.writing.removed > 0
    written.check()
    events = rows(written.path, "SELECT id FROM event ORDER BY id")
    assert rows(written.path, f"SELECT event FROM {table} ORDER BY event") == events
    (oldest,) = rows(written.path, "SELECT min(at_ns) FROM event")
    assert rows(written.path, "SELECT min(at_ns) FROM output") >= [oldest]
    (count,) = rows(written.path, "SELECT count(*) FROM output")[0]
    assert 0 < count < 120


def test_a_plugin_with_much_output_and_few_events_does_not_fill_the_disk(
    tmp_path: Path,
) -> None:
    written = Written(tmp_path / "r.db", Ring(MIN_SIZE, None))
    written.write(Begin(1, a_start()))
    for number in range(400):
        at_ns = NOW + number * 10**9
        written.send([an_item(wall_ns=at_ns)])
        written.write(*(Printed(0, 1, at_ns + 1, "stdout", "x" * 1000) for _ in range(10)))
    written.close()
    # The plugin printed four times as much.
    assert written.largest <= MIN_SIZE
    assert 0 < rows(written.path, "SELECT count(*) FROM output")[0][0] < 1000


def test_a_file_without_tap_tables_gets_them_when_continued(tmp_path: Path) -> None:
    path = tmp_path / "old.nriscope.db"
    record(path, [an_item()])
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "DROP TABLE tapped; DROP TABLE output; DROP TABLE request_metadata"
        )
    recorder = Recorder.open(path)
    session = recorder.begin_session(a_start())
    recorder.capture(session, an_item()._replace(held_ns=7))
    recorder.capture(session, an_item()._replace(metadata=METADATA))
    recorder.printed(session, NOW, "stderr", "a line")
    recorder.close()
    assert rows(path, "SELECT event, held_ns FROM tapped") == [(2, 7)]
    assert rows(path, "SELECT event FROM request_metadata") == [(3,)]
    assert rows(path, "SELECT count(*) FROM output") == [(1,)]
