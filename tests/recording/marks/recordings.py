# SPDX-License-Identifier: Apache-2.0
"""Sample recording without a mark table, and functions that read and change its copies."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from nri_scope.events import Event, Mark
from nri_scope.recording.marks.table import marks_in
from nri_scope.recording.reader import Recording

SAMPLE = Path(__file__).parents[3] / "recordings" / "containerd-2.1.nriscope.db"


def a_copy(folder: Path) -> Path:
    return Path(shutil.copy(SAMPLE, folder / "r.nriscope.db"))


def events_of(path: Path = SAMPLE) -> list[Event]:
    with Recording.open(path) as recording:
        return list(recording.events())


def a_mark(number: int, comment: str = "", made_ns: int = 1, *, gone: bool = False) -> Mark:
    """Return a mark of an event of the sample."""
    at_ns = next(event.at_ns for event in events_of() if event.id == number)
    return Mark(number, at_ns, comment, made_ns, gone)


def inside(path: Path) -> list[Mark]:
    with Recording.open(path) as recording:
        return marks_in(recording)


def alter(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)
