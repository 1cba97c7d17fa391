# SPDX-License-Identifier: Apache-2.0
"""Remove events from a recording as the ring does."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from nri_scope.events import RING_REMOVED


def overrun(path: Path, most: int) -> set[int]:
    """Remove the oldest events; return their times."""
    with closing(sqlite3.connect(path)) as connection, connection:
        rows = connection.execute("SELECT id, at_ns FROM event ORDER BY id").fetchall()
        gone = rows[: min(most, len(rows) - 1)]
        if not gone:
            return set()
        times = [at_ns for _, at_ns in gone]
        connection.execute("DELETE FROM event WHERE id <= ?", (gone[-1][0],))
        changed = connection.execute(
            "UPDATE gap SET to_ns = ?, lost = lost + ? WHERE reason = ?",
            (times[-1], len(gone), RING_REMOVED),
        )
        if not changed.rowcount:
            connection.execute(
                "INSERT INTO gap (from_ns, to_ns, reason, lost) VALUES (?, ?, ?, ?)",
                (times[0], times[-1], RING_REMOVED, len(gone)),
            )
    return set(times)
