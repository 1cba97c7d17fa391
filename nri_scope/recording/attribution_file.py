# SPDX-License-Identifier: Apache-2.0
"""A private file beside a recording: the changes and problems that only several events show.

A reader attaches it, so that filters, searches and lists use its values. It is derived from the
recording, and can be deleted at any time.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .cache import RecentlyUsed
from .temporary_files import unwritable

MAX_BYTES = 256 << 20
"""Maximum size of all values, with `_EVENT_BYTES` for each event."""
_EVENT_BYTES = 32
_CACHED = 10_000
_TABLES = """
CREATE TABLE change (id INTEGER PRIMARY KEY, changed TEXT NOT NULL, owners TEXT NOT NULL,
    UNIQUE (changed, owners)) STRICT;
CREATE TABLE event (id INTEGER PRIMARY KEY, change INTEGER, problem TEXT NOT NULL) STRICT;
CREATE TABLE progress (until INTEGER NOT NULL) STRICT;
INSERT INTO progress VALUES (0);
"""


class AttributionFile:
    """Writer of the file. All methods raise UsageError if it cannot be written."""

    def __init__(self, path: Path) -> None:
        """Create the file ``path``, in a private folder."""
        with _errors():
            self._connection = sqlite3.connect(path, isolation_level=None)
            self._connection.executescript(f"PRAGMA journal_mode = WAL;{_TABLES}BEGIN")
        self._known: RecentlyUsed[tuple[str, str], int] = RecentlyUsed(_CACHED)
        self._left = MAX_BYTES

    def add(
        self, event: int, changed: Iterable[str], owners: Iterable[str], problem: str = ""
    ) -> bool:
        """Add an event: its changed paths, their owners, and a `Problem` or "".

        Returns False, and adds nothing, if the file is full.
        """
        self._left -= _EVENT_BYTES
        if self._left < 0:
            return False
        paths = [*changed]
        with _errors():
            change = self._change((json.dumps(paths), json.dumps([*owners]))) if paths else None
            self._connection.execute(
                "INSERT OR REPLACE INTO event VALUES (?, ?, ?)", (event, change, problem)
            )
        return True

    def commit(self, until: int) -> None:
        """Make the events up to ``until`` visible to readers."""
        with _errors():
            self._connection.execute("UPDATE progress SET until = ?", (until,))
            self._connection.execute("COMMIT")
            self._connection.execute("BEGIN")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _change(self, texts: tuple[str, str]) -> int:
        # Most events have the same changes as others.
        found = self._known.get(texts)
        if found is None:
            self._left -= sum(map(len, texts))
            self._connection.execute(
                "INSERT OR IGNORE INTO change (changed, owners) VALUES (?, ?)", texts
            )
            ((found,),) = self._connection.execute(
                "SELECT id FROM change WHERE changed = ? AND owners = ?", texts
            )
            self._known.put(texts, found)
        return found


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise unwritable(error) from error
