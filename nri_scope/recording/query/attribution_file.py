# SPDX-License-Identifier: Apache-2.0
"""A private file beside a recording: the changes and problems that only several events show.

A reader attaches it, so that filters, searches and lists use its values. It is derived from the
recording, and can be deleted at any time.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from nri_scope.events import HAPPENED, Container, OutcomeKind, Pod
from nri_scope.filter import Filter

from ..cache import RecentlyUsed
from ..file.schema import ATTRIBUTION
from ..file.temporary_files import unwritable
from ..reading.connection import Value
from ..reading.reader import Recording
from ..reading.sqlite_errors import query_numbers, query_rows
from .event_pages import sql_of
from .subject_queries import column_of, texts

MAX_BYTES = 256 << 20
"""Maximum size of all values, with `_EVENT_BYTES` for each event."""
_EVENT_BYTES = 32
_CACHED = 10_000
_TABLES = """
CREATE TABLE change (id INTEGER PRIMARY KEY, changed TEXT NOT NULL, owners TEXT NOT NULL,
    outcomes TEXT NOT NULL, targets TEXT NOT NULL, changed_by TEXT, own_by TEXT,
    requests TEXT NOT NULL, UNIQUE (requests, targets)) STRICT;
CREATE TABLE event (id INTEGER PRIMARY KEY, change INTEGER, problem TEXT NOT NULL,
    delay TEXT NOT NULL) STRICT;
CREATE TABLE progress (until INTEGER NOT NULL) STRICT;
INSERT INTO progress VALUES (0);
"""


class Request(NamedTuple):
    """A request of an event, or a change that it shows."""

    owner: str
    path: str
    kind: OutcomeKind
    container: str = ""
    """Id of the container that it is about, if that is not the event's own one; otherwise ""."""
    title: str = ""
    """``ns/pod/container`` of that other container."""


class AttributionFile:
    """Writer of the file. All methods raise UsageError if it cannot be written."""

    def __init__(self, path: Path) -> None:
        """Create the file ``path``, in a private folder."""
        with _errors():
            self._connection = sqlite3.connect(path, isolation_level=None)
            self._connection.executescript(f"PRAGMA journal_mode = WAL;{_TABLES}BEGIN")
        self._known: RecentlyUsed[tuple[Request, ...], int] = RecentlyUsed(_CACHED)
        self._left = MAX_BYTES

    def add(
        self, event: int, requests: Iterable[Request], problem: str = "", delay: str = ""
    ) -> bool:
        """Add an event, or replace it: its requests, a `Problem` or "", and what delayed it, or "".

        Returns False, and adds nothing, if the file is full.
        """
        self._left -= _EVENT_BYTES + len(delay)
        if self._left < 0:
            return False
        asked = tuple(requests)
        with _errors():
            self._connection.execute(
                "INSERT OR REPLACE INTO event VALUES (?, ?, ?, ?)",
                (event, self._change(asked) if asked else None, problem, delay),
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

    def _change(self, requests: tuple[Request, ...]) -> int:
        # Most events have the same requests as others.
        change_id = self._known.get(requests)
        if change_id is None:
            values = _columns(requests)
            self._left -= sum(len(value or "") for value in values)
            self._connection.execute(
                "INSERT OR IGNORE INTO change (changed, owners, outcomes, targets, changed_by, "
                "own_by, requests) VALUES (?, ?, ?, ?, ?, ?, ?)",
                values,
            )
            ((change_id,),) = self._connection.execute(
                "SELECT id FROM change WHERE requests = ? AND targets = ?", (values[6], values[3])
            )
            self._known.put(requests, change_id)
        return change_id


def _columns(requests: Sequence[Request]) -> tuple[str | None, ...]:
    """Return the values of a row of the table "change"."""
    order = sorted(requests, key=lambda req: (req.kind not in HAPPENED, req.title, req.path))
    listed = dict.fromkeys((req.path, req.owner, req.kind, req.title) for req in order)
    paths, owners, kinds, titles = zip(*listed, strict=True)
    changes = [request for request in requests if request.kind in HAPPENED]
    own = [change for change in changes if not change.container]
    return (
        *map(json.dumps, (paths, owners, kinds, titles)),
        _owners(changes) if changes else None,
        _owners(own) if own else None,
        json.dumps([(req.owner, req.path, req.kind, req.container) for req in requests]),
    )


def _owners(requests: Iterable[Request]) -> str:
    return json.dumps([*dict.fromkeys(request.owner for request in requests)])


class OwnedPath(NamedTuple):
    """A path that a plugin changed, or asked to change."""

    path: str
    is_change: bool
    """Whether evidence shows it as changed."""
    events: int
    """Number of events that show that change or request."""
    newest: int
    """Id of the newest one."""


class OwnedPaths(NamedTuple):
    """The paths that a plugin changed or asked to change."""

    paths: tuple[OwnedPath, ...]
    """The changed paths, then others that it asked for, the most frequent first."""
    total: int
    """Number of all paths."""
    until: int
    """Id of the event up to which changes are known."""


_KINDS = ", ".join(f"'{kind}'" for kind in sorted(HAPPENED))
_OWNER, _PATH, _KIND, _TARGET = (f"json_extract(r.value, '$[{number}]')" for number in range(4))
_ABOUT = """
SELECT id, '' AS target FROM event WHERE {column} = ?
UNION ALL SELECT f.event, k.id FROM effect AS f JOIN container AS k ON k.key = f.container
WHERE k.{key} = ?
"""
"""Events that may be about a pod or container, each with the container in its `Request`."""
_OWNED = f"""
WITH some AS (
    SELECT change, target, count(*) AS count, max(a.id) AS newest
    FROM {ATTRIBUTION}.event AS a {{narrowed}} GROUP BY change, target
)
SELECT path, is_change, sum(count), max(newest), count(*) OVER () FROM (
    SELECT DISTINCT some.*, {_PATH} AS path, {_KIND} IN ({_KINDS}) AS is_change
    FROM some JOIN {ATTRIBUTION}.change AS c ON c.id = some.change JOIN json_each(c.requests) AS r
    WHERE {_OWNER} = ? AND {_TARGET} IS coalesce(some.target, {_TARGET})
) GROUP BY path, is_change ORDER BY is_change DESC, 3 DESC, 4 DESC LIMIT ?
"""


def _events_about(about: Pod | Container) -> str:
    column = column_of(about)
    return _ABOUT.format(column=column, key="pod" if column == "pod" else "key")


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
    """Return the ``most`` frequent paths changed or asked for by ``owner``, of matching events.

    Returns None without an attached file. Reads all events with changes. Raises RecordingError.
    """
    if not recording.attached:
        return None
    ((until,),) = query_numbers(recording, f"SELECT until FROM {ATTRIBUTION}.progress")
    target, condition, values = "CROSS JOIN (SELECT NULL AS target)", "", list[Value]()
    if about is not None:
        target = f"JOIN ({_events_about(about)}) AS p ON p.id = a.id"
        values += about.key, about.key
    values.append(until)
    if where is not None:
        text, of_filter = sql_of(where)
        condition = f" AND a.id IN (SELECT id FROM events WHERE {text})"
        values += of_filter
    query = _OWNED.format(narrowed=f"{target} WHERE change IS NOT NULL AND a.id <= ?{condition}")
    rows = query_rows(recording, query, *values, owner, most)
    paths = tuple(OwnedPath(path, bool(made), *counts) for path, made, *counts, _ in rows)
    return OwnedPaths(paths, rows[0][4] if rows else 0, until)


_OWNERS = 200
"""Maximum number of events of one pod or container whose owners are read."""
_OWN = """
SELECT DISTINCT e.{column}, c.own_by FROM event AS e JOIN changes AS c ON c.id = e.id
WHERE c.own_by IS NOT NULL AND {which}
"""
_OTHERS = f"""
SELECT DISTINCT k.{{key}}, json_array({_OWNER}) FROM effect AS f
JOIN container AS k ON k.key = f.container JOIN {ATTRIBUTION}.event AS a ON a.id = f.event
JOIN {ATTRIBUTION}.change AS c ON c.id = a.change JOIN json_each(c.requests) AS r
WHERE {_TARGET} = k.id AND {_KIND} IN ({_KINDS}) AND {{which}}
"""


def owners_of(recording: Recording, about: Pod | Container) -> tuple[str, ...]:
    """Return the owners of the changes of a container, or of a pod's containers, by index.

    Raises RecordingError.
    """
    column = column_of(about)
    own = f"e.id IN (SELECT id FROM event WHERE {column} = {about.key} ORDER BY id LIMIT {_OWNERS})"
    rows = query_rows(recording, _OWN.format(column=column, which=own))
    if recording.attached:
        key = "pod" if column == "pod" else "key"
        others = _OTHERS.format(key=key, which=f"k.{key} = {about.key}")
        rows = [*rows, *query_rows(recording, others)]
    encoded = {own_by for subject, own_by in rows if subject == about.key}
    return tuple(sorted({owner for own_by in encoded for owner in texts(own_by)}))


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise unwritable(error) from error
