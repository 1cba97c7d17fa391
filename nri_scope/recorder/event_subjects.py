# SPDX-License-Identifier: Apache-2.0
"""Rows of pods and containers, the subjects of events; each has one key per recording.

iSulad assigns a container's id after CreateContainer. The row of such an event has `NO_ID` with the
event's number, until the next event about the same name in the same pod.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Generic, TypeVar

from nri_scope import events
from nri_scope._gen.nri.api_pb2 import Container, PodSandbox
from nri_scope.events import NO_ID
from nri_scope.nri.request_subject import name_of_container, name_of_pod
from nri_scope.recording.cache import RecentlyUsed
from nri_scope.recording.row_limits import TableLimits
from nri_scope.recording.sqlite_text import named

_MAX_CACHED = 4_096
"""Number of ids whose rows are cached."""
_MAX_SAME_ID = 8
"""Number of rows with the same id that are kept distinct. Only a faulty peer reuses ids."""
_MAX_WITHOUT_ID = 256
"""Number of creations without id that wait for it. iSulad assigns it some milliseconds later."""


@dataclass(slots=True)
class PodRow:
    """Row of the table ``pod``."""

    key: int
    id: str
    namespace: str
    name: str
    uid: str


@dataclass(slots=True)
class ContainerRow:
    """Row of the table ``container``."""

    key: int
    id: str
    name: str
    pod: int | None


_Row = TypeVar("_Row", bound=PodRow | ContainerRow)


class _Rows(Generic[_Row]):
    """Rows of one table: a cache of recently used rows, and a buffer of unwritten ones."""

    def __init__(
        self, connection: sqlite3.Connection, table: str, make: type[_Row], *, empty: bool
    ) -> None:
        columns = [column.name for column in fields(make)]
        self._connection = connection
        self._table = table
        self._make = make
        self._values = attrgetter(*columns)
        self._changes = attrgetter(*columns[1:], "key")
        self._select = (
            f"SELECT {', '.join(columns)} FROM {table} WHERE id = ? ORDER BY key DESC LIMIT ?"
        )
        self._insert = f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})"
        changes = ", ".join(f"{column} = ?" for column in columns[1:])
        self._update = f"UPDATE {table} SET {changes} WHERE key = ?"
        self._limits = TableLimits.of_names(
            connection, table, [column.name for column in fields(make) if column.type == "str"]
        )
        self._known: RecentlyUsed[str, tuple[_Row, ...]] = RecentlyUsed(_MAX_CACHED)
        self._empty = empty
        self._next = 1 if empty else _next_key(connection, table)
        self._new: list[_Row] = []
        self._completed: dict[int, _Row] = {}

    def known(self, row_id: str) -> tuple[_Row, ...]:
        """Return the cached rows with an id; never reads the file."""
        return self._known.get(row_id) or ()

    def with_id(self, row_id: str) -> tuple[_Row, ...]:
        """Return the rows with an id, newest first."""
        known = self._known.get(row_id)
        if known is not None:
            return known
        if self._empty and not self._known.has_evicted:
            return ()
        found = self._connection.execute(self._select, (row_id, _MAX_SAME_ID))
        rows = tuple(self._make(*row) for row in found)
        if rows:
            self._known.put(row_id, rows)
        return rows

    def add(
        self, others: tuple[_Row, ...], row_id: str, *values: Any, key: int | None = None
    ) -> _Row:
        """Create a row; ``others`` are the existing rows with the same id, ``key`` as below."""
        row = self.add_unlisted(row_id, *values, key=key)
        self._known.put(row_id, (row, *others[: _MAX_SAME_ID - 1]))
        return row

    def add_unlisted(self, row_id: str, *values: Any, key: int | None = None) -> _Row:
        """Create a row that `with_id` does not find. ``key``: None for the next one."""
        self._limits.reserve(_length(row_id, *values))
        row = self._make(self._next if key is None else key, row_id, *values)
        self._next = max(self._next, row.key + 1)
        self._new.append(row)
        return row

    def identify(self, row: _Row, row_id: str) -> None:
        """Replace the id of a row. Raises LimitReached."""
        self.complete(row, max(0, _length(row_id) - _length(row.id)))
        row.id = row_id
        self._known.put(row_id, (row,))

    def has(self, row: _Row) -> bool:
        """Return whether the row is in the file, or will be."""
        if any(row is one for one in self._new):
            return True
        query = f"SELECT 1 FROM {self._table} WHERE key = ?"
        return self._connection.execute(query, (row.key,)).fetchone() is not None

    def complete(self, row: _Row, grown: int) -> None:
        """Mark a row for an update that adds ``grown`` characters. Raises LimitReached."""
        self._limits.reserve(grown, rows=0)
        self._completed[row.key] = row

    def invalidate(self) -> None:
        """Clear the cache after rows were removed from the file."""
        self._known.clear()
        self._empty = False
        self._limits.recount()

    def flush(self) -> None:
        """Write new and completed rows. Raises sqlite3.Error."""
        if self._new:
            self._connection.executemany(self._insert, map(self._values, self._new))
            self._new = []
        if self._completed:
            self._connection.executemany(self._update, map(self._changes, self._completed.values()))
            self._completed = {}


class Subjects:
    """Tables of pods and containers.

    A message may contain only an id; the next event with the other fields completes its row.
    `flush` writes new and completed rows. Raises LimitReached if the table is full, and
    sqlite3.Error if reading the file fails.
    """

    def __init__(self, connection: sqlite3.Connection, *, empty: bool) -> None:
        """Prepare both tables. ``empty``: whether the recording has no pods and containers."""
        self._connection = connection
        self._pods = _Rows(connection, "pod", PodRow, empty=empty)
        self._containers = _Rows(connection, "container", ContainerRow, empty=empty)
        self._without_id: dict[tuple[int | None, str], tuple[ContainerRow, set[int]]] = {}
        """Containers whose id is still unknown, by pod and name, each with the sessions that
        received CreateContainer."""

    def pod(self, message: PodSandbox) -> PodRow | None:
        """Return the row of a pod, creating it if necessary; None for a message without id and
        name.
        """
        return self._pod(
            named(message.id),
            named(message.namespace),
            named(name_of_pod(message)),
            named(message.uid),
        )

    def container(
        self, message: Container, pod: PodRow | None, created: tuple[int, int] | None = None
    ) -> ContainerRow | None:
        """Return the row of a container, creating it if necessary; None without id and name.

        ``pod``: the pod in the same message, if any. ``created``: for CreateContainer, the session
        that received it, and the event's number.
        """
        container_id, name = named(message.id), named(name_of_container(message))
        if not container_id and not name:
            return None
        if pod is None:
            pod = self._pod(named(message.pod_sandbox_id), "", "", "")
        pod_key = pod.key if pod else None
        if not container_id and created is not None:
            return self._begin_without_id(pod_key, name, *created)
        known = self._containers.with_id(container_id)
        if not known and container_id and (pod_key, name) in self._without_id:
            row, _ = self._without_id[pod_key, name]
            self._containers.identify(row, container_id)
            del self._without_id[pod_key, name]
            return row
        for row in known:
            if row.name == name and row.pod == pod_key:
                return row
        for row in known:
            if row.name not in ("", name) and name:
                continue
            if row.pod is not None and pod_key is not None and row.pod != pod_key:
                continue
            if (name and not row.name) or (pod_key is not None and row.pod is None):
                self._containers.complete(row, 0 if row.name else len(name))
                row.name, row.pod = row.name or name, pod_key if row.pod is None else row.pod
            return row
        return self._containers.add(known, container_id, name, pod_key)

    def add(self, subject: events.Pod | events.Container) -> None:
        """Create the row of a subject of another recording, with its key. A pod comes first."""
        row_id, name = named(subject.id), named(subject.name)
        if isinstance(subject, events.Pod):
            others = self._pods.with_id(row_id)
            values = named(subject.namespace), name, named(subject.uid)
            self._pods.add(others, row_id, *values, key=subject.key)
        else:
            pod = None if subject.pod is None else subject.pod.key
            known = self._containers.with_id(row_id)
            self._containers.add(known, row_id, name, pod, key=subject.key)

    def forget_creations(self, session: int | None) -> None:
        """Keep the containers without id of a session that lost events or ended apart from later
        ones. None: of all sessions.
        """
        for key, (_, sessions) in list(self._without_id.items()):
            sessions.discard(-1 if session is None else session)
            if session is None or not sessions:
                del self._without_id[key]

    def known_pod(self, pod_id: str) -> PodRow | None:
        """Return the cached row with this id if there is exactly one; create no row."""
        known = self._pods.known(named(pod_id))
        return known[0] if len(known) == 1 else None

    def known_names(self, container_id: str) -> tuple[str, PodRow | None]:
        """Return a container's name and pod if its id is unique, else ("", None); create no row."""
        self.flush()
        found = self._connection.execute(
            "SELECT c.name, p.key, p.id, p.namespace, p.name, p.uid FROM container AS c "
            "LEFT JOIN pod AS p ON p.key = c.pod WHERE c.id = ? LIMIT 2",
            (named(container_id),),
        ).fetchall()
        if len(found) != 1:
            return "", None
        name, *pod = found[0]
        return name, PodRow(*pod) if pod[0] is not None else None

    def invalidate(self) -> None:
        """Clear the caches after rows were removed from the file."""
        self._pods.invalidate()
        self._containers.invalidate()
        self._without_id = {
            key: found for key, found in self._without_id.items() if self._containers.has(found[0])
        }

    def flush(self) -> None:
        """Write new and completed rows. Raises sqlite3.Error."""
        self._pods.flush()
        self._containers.flush()

    def _begin_without_id(
        self, pod: int | None, name: str, session: int, event: int
    ) -> ContainerRow:
        """Return the row of a container that gets its id later.

        A runtime calls each connection once per creation, so a second call is another creation.
        """
        found = self._without_id.get((pod, name))
        if found is not None and session not in found[1]:
            found[1].add(session)
            return found[0]
        row = self._containers.add_unlisted(f"{NO_ID}{event}", name, pod)
        self._without_id.pop((pod, name), None)
        self._without_id[pod, name] = row, {session}
        if len(self._without_id) > _MAX_WITHOUT_ID:
            del self._without_id[next(iter(self._without_id))]
        return row

    def _pod(self, pod_id: str, namespace: str, name: str, uid: str) -> PodRow | None:
        if not pod_id and not name:
            return None
        known = self._pods.with_id(pod_id)
        for row in known:
            if row.name == name and row.namespace == namespace and row.uid == uid:
                return row
        for row in known:
            if all(
                not given or not stored or given == stored
                for given, stored in (
                    (namespace, row.namespace),
                    (name, row.name),
                    (uid, row.uid),
                )
            ):
                completed = (row.namespace or namespace, row.name or name, row.uid or uid)
                if completed != (row.namespace, row.name, row.uid):
                    grown = _length(*completed) - _length(row.namespace, row.name, row.uid)
                    self._pods.complete(row, grown)
                    row.namespace, row.name, row.uid = completed
                return row
        return self._pods.add(known, pod_id, namespace, name, uid)


def _length(*values: str | int | None) -> int:
    return sum(len(value) for value in values if isinstance(value, str))


def _next_key(connection: sqlite3.Connection, table: str) -> int:
    (newest,) = connection.execute(f"SELECT max(key) FROM {table}").fetchone()
    return (newest or 0) + 1
