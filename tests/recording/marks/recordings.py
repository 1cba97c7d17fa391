# SPDX-License-Identifier: Apache-2.0
"""Sample recording without a mark table, and functions that read and change its copies."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from nri_scope.events import Event, UserMark
from nri_scope.recording.file.schema import TABLES, table_sql
from nri_scope.recording.marks.sidecar import marks_in
from nri_scope.recording.reading.reader import Recording

SAMPLE = Path(__file__).parents[3] / "recordings" / "containerd-2.1.nriscope.db"


def a_copy(folder: Path) -> Path:
    return Path(shutil.copy(SAMPLE, folder / "r.nriscope.db"))


def events_of(path: Path = SAMPLE) -> list[Event]:
    with Recording.open(path) as recording:
        return list(recording.events())


def a_mark(number: int, comment: str = "", made_ns: int = 1, *, gone: bool = False) -> UserMark:
    """Return a mark of an event of the sample."""
    at_ns = next(event.at_ns for event in events_of() if event.id == number)
    return UserMark(number, at_ns, comment, made_ns, gone)


def inside(path: Path) -> list[UserMark]:
    with Recording.open(path) as recording:
        return marks_in(recording)


def put(path: Path, marks: Iterable[UserMark]) -> None:
    """Store marks in the recording, as in a part or a bundle."""
    (table,) = (table_sql(table) for table in TABLES if table.name == "mark")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(table.replace("TABLE", "TABLE IF NOT EXISTS", 1))
        connection.executemany(
            "INSERT INTO mark (event, made_ns, comment) VALUES (?, ?, ?)",
            [(mark.event, mark.made_ns, mark.comment) for mark in marks],
        )


def alter(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)
