# SPDX-License-Identifier: Apache-2.0
"""A private file beside a recording: the changes and problems that only several events show.

A reader attaches it, so that filters, searches and lists use its values. It is derived from the
recording, and can be deleted at any time.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from nri_scope.events import Container, Pod
from nri_scope.filter import Filter

from .cache import RecentlyUsed
from .event_pages import sql_of
from .reader import Recording, Value
from .schema import ATTRIBUTION
from .sqlite_errors import query_numbers, query_rows
from .subject_queries import column_of
from .temporary_files import unwritable

MAX_BYTES = 256 << 20
"""Maximum size of all values, with `_EVENT_BYTES` for each event."""
_EVENT_BYTES = 32
_CACHED = 10_000
_TABLES = """
CREATE TABLE change (id INTEGER PRIMARY KEY, changed TEXT NOT NULL, owners TEXT NOT NULL,
    owned TEXT NOT NULL, UNIQUE (changed, owners, owned)) STRICT;
CREATE TABLE event (id INTEGER PRIMARY KEY, change INTEGER, problem TEXT NOT NULL,
    delay TEXT NOT NULL) STRICT;
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
        self._known: RecentlyUsed[tuple[str, str, str], int] = RecentlyUsed(_CACHED)
        self._left = MAX_BYTES

    def add(
        self,
        event: int,
        changed: Mapping[str, Iterable[str]],
        problem: str = "",
        delay: str = "",
    ) -> bool:
        """Add an event: its changed paths by owner, a `Problem` or "", and what delayed it, or "".

        Returns False, and adds nothing, if the file is full.
        """
        self._left -= _EVENT_BYTES + len(delay)
        if self._left < 0:
            return False
        owned = {owner: [*paths] for owner, paths in changed.items()}
        paths = sorted({path for some in owned.values() for path in some})
        # Most changes of one event have the same owner.
        texts = json.dumps(paths), json.dumps([*owned]), json.dumps(owned) if len(owned) > 1 else ""
        with _errors():
            change = self._change(texts) if paths else None
            self._connection.execute(
                "INSERT OR REPLACE INTO event VALUES (?, ?, ?, ?)",
                (event, change, problem, delay),
            )
        return True

    def commit(self, until: int) -> None:
        """Make the events up to ``until`` visible to readers."""
        with _errors():
            self._connection.execute("UPDATE progress SET until = ?", (until,))
            self._connection.execute("COMMIT")
            self._connection.execute("BEGIN")

    def remove(self, before: int) -> None:
        """Remove the events before one, which the recording has no longer."""
        with _errors():
            self._connection.execute("DELETE FROM event WHERE id < ?", (before,))

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _change(self, texts: tuple[str, str, str]) -> int:
        # Most events have the same changes as others.
        found = self._known.get(texts)
        if found is None:
            self._left -= sum(map(len, texts))
            self._connection.execute(
                "INSERT OR IGNORE INTO change (changed, owners, owned) VALUES (?, ?, ?)", texts
            )
            ((found,),) = self._connection.execute(
                "SELECT id FROM change WHERE changed = ? AND owners = ? AND owned = ?", texts
            )
            self._known.put(texts, found)
        return found


class OwnedPath(NamedTuple):
    """A path that a plugin changed."""

    path: str
    events: int
    """Number of events that show the change."""
    newest: int
    """Id of the newest one."""


class OwnedPaths(NamedTuple):
    """The paths that a plugin changed."""

    paths: tuple[OwnedPath, ...]
    """The paths that were changed most often."""
    total: int
    """Number of all paths."""
    until: int
    """Id of the event up to which changes are known."""


_OWNED = f"""
WITH some AS (
    SELECT change, count(*) AS count, max(id) AS newest FROM {ATTRIBUTION}.event AS a
    WHERE change IS NOT NULL AND id <= ?{{narrowed}} GROUP BY change
)
SELECT path.value, sum(some.count), max(some.newest), count(*) OVER () FROM some
JOIN {ATTRIBUTION}.change AS c ON c.id = some.change
JOIN json_each(iif(c.owned <> '', c.owned,
    json_object(json_extract(c.owners, '$[0]'), json(c.changed)))) AS owner
JOIN json_each(owner.value) AS path
WHERE owner.key = ? GROUP BY path.value ORDER BY 2 DESC, 3 DESC LIMIT ?
"""


def delay_of(recording: Recording, event: int) -> str:
    """Return what delayed an event before it was sent, or "". Raises RecordingError."""
    if not recording.attached:
        return ""
    rows = query_rows(recording, f"SELECT delay FROM {ATTRIBUTION}.event WHERE id = ?", event)
    return rows[0][0] if rows else ""


def paths_changed_by(
    recording: Recording,
    owner: str,
    most: int,
    where: Filter | None = None,
    about: Pod | Container | None = None,
) -> OwnedPaths | None:
    """Return the ``most`` frequent paths changed by ``owner``, of events that match.

    Returns None without an attached file. Reads all events with changes. Raises RecordingError.
    """
    if not recording.attached:
        return None
    ((until,),) = query_numbers(recording, f"SELECT until FROM {ATTRIBUTION}.progress")
    narrowed, values = "", list[Value]()
    if about is not None:
        narrowed += f" AND id IN (SELECT id FROM event WHERE {column_of(about)} = ?)"
        values.append(about.key)
    if where is not None:
        text, of_filter = sql_of(where)
        narrowed += f" AND id IN (SELECT id FROM events WHERE {text})"
        values += of_filter
    query = _OWNED.format(narrowed=narrowed)
    rows = query_rows(recording, query, until, *values, owner, most)
    paths = tuple(OwnedPath(*row[:3]) for row in rows)
    return OwnedPaths(paths, rows[0][3] if rows else 0, until)


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise unwritable(error) from error
