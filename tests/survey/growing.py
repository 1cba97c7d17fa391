# SPDX-License-Identifier: Apache-2.0
"""A copy of a recording that grows in steps, as if a recorder were writing it."""

from __future__ import annotations

import shutil
import sqlite3
import zipfile
from pathlib import Path
from random import Random
from typing import Any


class GrowingCopy:
    """A recording in WAL mode whose events, sessions and gaps are added in steps."""

    def __init__(self, source: Path, path: Path, random: Random) -> None:
        self.path = path
        self._random = random
        if zipfile.is_zipfile(source):
            with zipfile.ZipFile(source) as bundle:
                path.write_bytes(bundle.read("recording.nriscope.db"))
        else:
            shutil.copyfile(source, path)
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        tables = [
            name
            for (name,) in self._connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table'"
            )
        ]
        self._rows = {
            name: self._read(name)
            for name in ("session", "event", "gap", "state", "effect", "tapped")
            if name in tables
        }
        for session in self._rows["session"]:
            own = [one["id"] for one in self._rows["event"] if one["session"] == session["id"]]
            # The recorder writes the beginning, or is delayed until the first event.
            session["begin"] = random.choice((session["first_event"], min(own, default=0)))
        self._ids = dict(self._connection.execute("SELECT key, id FROM container"))
        self.last = self._rows["event"][-1]["id"]
        """Number of the last event."""
        names = {row["id"]: row["text"] for row in self._read("name")}
        self._without_id: dict[int, tuple[int, int]] = {}
        """First event of each container of iSulad, and the first one after its creation."""
        if any(one["runtime_name"] == "isulad" for one in self._rows["session"]):
            for key in self._ids:
                mine = [one for one in self._rows["event"] if one["container"] == key]
                later = (one["id"] for one in mine if names[one["event"]] != "CreateContainer")
                if mine and names[mine[0]["event"]] == "CreateContainer":
                    self._without_id[key] = mine[0]["id"], next(later, self.last + 1)
        self.grow(0)

    def _read(self, table: str) -> list[dict[str, Any]]:
        cursor = self._connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2")
        names = [each[0] for each in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def grow(self, until: int) -> None:
        """Add the events up to ``until``, and what was recorded before the next one."""
        put = self._connection.execute
        put("BEGIN IMMEDIATE")
        newest_ns = 0
        for table, rows in self._rows.items():
            put(f"DELETE FROM {table}")
            for row in rows:
                shown = row
                if table == "session":
                    # The recorder writes beginning and end between two events.
                    if row["begin"] > until + self._random.choice((0, 1)):
                        continue
                    end = row["last_event"]
                    is_open = end is None or end > until - self._random.choice((0, 1))
                    if is_open and until < self.last:
                        shown = {**row, "ended_ns": None, "end_reason": "", "last_event": None}
                elif table == "gap":
                    if row["to_ns"] > newest_ns and until < self.last:
                        continue
                elif row["id" if table == "event" else "event"] > until:
                    continue
                if table == "event":
                    newest_ns = max(newest_ns, row["at_ns"])
                shown = {name: value for name, value in shown.items() if name != "begin"}
                names, marks = ", ".join(shown), ", ".join("?" * len(shown))
                put(f"INSERT INTO {table} ({names}) VALUES ({marks})", [*shown.values()])
        for key, (first, later) in self._without_id.items():
            known = self._ids[key] if later <= until else f"no-id-{first}"
            put("UPDATE container SET id = ? WHERE key = ?", (known, key))
        put("COMMIT")

    def remove(self, before: int) -> None:
        """Remove the events before an event, as a ring does."""
        self._rows["event"] = [one for one in self._rows["event"] if one["id"] >= before]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
