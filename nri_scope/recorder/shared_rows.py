# SPDX-License-Identifier: Apache-2.0
"""Rows that several events share: contents, names, pods and containers.

A content is stored once per stretch, packed against a similar one. Names of methods, events and
services, pods and containers, the subjects of events, have one key per recording.

iSulad assigns a container's id after CreateContainer. The row of such an event has `NO_ID` with the
event's number, until the next event about the same name in the same pod.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

from nri_scope import events
from nri_scope._gen.nri.api_pb2 import Container, PodSandbox
from nri_scope.events import NO_ID
from nri_scope.nri.request_subject import name_of_container, name_of_pod
from nri_scope.recording.cache import RecentlyUsed
from nri_scope.recording.file.blobs import MAX_DEPTH, ObjectKind, Packer, StoredObject, digest
from nri_scope.recording.file.row_limits import TableLimits
from nri_scope.recording.file.schema import insert_sql
from nri_scope.recording.file.sqlite_text import named

_MAX_HASHES = 8_192
"""Number of contents cached by hash, about 200 bytes each. A content evicted from the cache is
stored again when it recurs, which costs only space.
"""
_MAX_VERSION_BYTES = 3 << 20
"""Bytes of contents cached as dictionaries: the newest versions of at least 700 containers."""
_MAX_MODELS = 128
"""Number of cached dictionaries for contents without an earlier version of their own."""
_POOR_RATIO = 0.75
"""Size with a dictionary, relative to the size without, above which no dictionary is used."""
_SHORT_BYTES = 64
"""Maximum size of a short content: a state, a pid, a few times."""


class _Base(NamedTuple):
    id: int
    content: bytes
    depth: int


class ObjectStore:
    """Store of objects that detects duplicates and selects a dictionary for each new content.

    New rows accumulate in ``rows`` until `flush`. Not thread-safe.
    """

    def __init__(self, next_id: int) -> None:
        self.next_id = next_id
        self.rows: list[StoredObject] = []
        self.stored_bytes = 0
        """Packed bytes of all new objects so far."""
        self._packer = Packer()
        self._cached: RecentlyUsed[tuple[int, bytes], int] = RecentlyUsed(_MAX_HASHES)
        self._versions: RecentlyUsed[tuple[int, str], _Base] = RecentlyUsed(_MAX_VERSION_BYTES)
        self._models: RecentlyUsed[tuple[int, str], _Base] = RecentlyUsed(_MAX_MODELS)

    def begin_stretch(self) -> None:
        """Begin a stretch; its objects never refer to objects of earlier stretches."""
        self._cached.clear()
        self._versions.clear()
        self._models.clear()

    def put(self, kind: ObjectKind, content: bytes, own: str, like: str) -> int:
        """Return the id of the object with ``content``, creating it if necessary.

        ``own`` identifies the pod, container or other source of which this is a version ("" for
        none); ``like`` identifies a group of similar contents.
        """
        # Short contents are frequent: as cache keys they replace their own hashes.
        short = len(content) <= _SHORT_BYTES
        content_hash = content if short else digest(content)
        key = (int(kind), content_hash)
        cached = self._cached.get(key)
        if cached is not None:
            return cached
        object_id = self.next_id
        self.next_id += 1
        base, data = self._pack(kind, content, own, like, object_id)
        if short:
            content_hash = digest(content)
        self.rows.append(StoredObject(object_id, key[0], content_hash, len(content), base, data))
        self.stored_bytes += len(data)
        self._cached.put(key, object_id)
        return object_id

    def flush(self, connection: sqlite3.Connection) -> None:
        """Write the new rows. Raises sqlite3.Error."""
        if self.rows:
            connection.executemany(insert_sql("object"), self.rows)
            self.rows = []

    def _pack(
        self, kind: ObjectKind, content: bytes, own: str, like: str, object_id: int
    ) -> tuple[int | None, bytes]:
        previous = self._versions.get((kind, own)) if own else None
        model = None if previous else self._model(kind, like)
        base = previous or model
        packed = self._packer.against(content, base.content, base.id) if base else None
        if packed is None or (model is not None and len(packed) > len(content) // 4):
            # The model may be too different: compare with packing without a dictionary.
            alone = self._packer.alone(content)
            if packed is None or len(packed) > _POOR_RATIO * len(alone):
                base, packed = None, alone
        depth = base.depth + 1 if base else 0
        this = _Base(object_id, content, depth)
        # All versions are packed against the first one, until the difference gets too large.
        if own and depth < MAX_DEPTH and (previous is None or len(packed) > _SHORT_BYTES):
            self._versions.put((kind, own), this, len(content))
        if depth == 0 and len(content) <= 1 << 16:
            self._models.put((kind, like), this)
            self._models.put((kind, ""), this)
        return (base.id if base else None), packed

    def _model(self, kind: ObjectKind, like: str) -> _Base | None:
        return self._models.get((kind, like)) or self._models.get((kind, ""))


def put_pod(objects: ObjectStore, pod: PodSandbox) -> int:
    """Store a pod; return its object id."""
    # Pods of one workload share a prefix: web-7d9f8b6c5-x2x7k.
    like = f"{pod.namespace}/{name_of_pod(pod).partition('-')[0]}"
    return objects.put(ObjectKind.POD, pod.SerializeToString(deterministic=True), pod.id, like)


def put_container(objects: ObjectStore, container: Container) -> int:
    """Store a container; return its object id."""
    content = container.SerializeToString(deterministic=True)
    return objects.put(ObjectKind.CONTAINER, content, container.id, name_of_container(container))


_MAX_NAMES = 4_096
"""Number of cached names; others are looked up in the file. A runtime uses about thirty."""


class NameTable:
    """The table ``name``. Methods raise sqlite3.Error and LimitReached."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._ids: dict[str, int] = dict(
            connection.execute(
                "SELECT text, id FROM name ORDER BY id LIMIT ?", (_MAX_NAMES,)
            ).fetchall()
        )
        self._limits = TableLimits.of_names(connection, "name", ["text"])

    def id(self, text: str) -> int:
        """Return the id of ``text``; write a row immediately if it is new."""
        cached = self._ids.get(text)
        if cached is not None:
            return cached
        text = named(text)
        row = self._connection.execute("SELECT id FROM name WHERE text = ?", (text,)).fetchone()
        number = int(row[0]) if row else self._insert(text)
        if len(self._ids) < _MAX_NAMES:
            self._ids[text] = number
        return number

    def _insert(self, text: str) -> int:
        self._limits.reserve(len(text))
        row = self._connection.execute("INSERT INTO name (text) VALUES (?)", (text,)).lastrowid
        assert row is not None
        return row


MAX_CACHED = 4_096
"""Number of ids whose rows are cached."""
_MAX_SAME_ID = 8
"""Number of rows with the same id that are kept distinct. Only a faulty peer reuses ids."""
MAX_WITHOUT_ID = 256
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

    def __init__(self, connection: sqlite3.Connection, table: str, make: type[_Row]) -> None:
        columns = [column.name for column in fields(make)]
        self._connection = connection
        self._table = table
        self._make = make
        self._values = attrgetter(*columns)
        self._changes = attrgetter(*columns[1:], "key")
        self._select = (
            f"SELECT {', '.join(columns)} FROM {table} WHERE id = ? ORDER BY key DESC LIMIT ?"
        )
        self._insert = insert_sql(table)
        changes = ", ".join(f"{column} = ?" for column in columns[1:])
        self._update = f"UPDATE {table} SET {changes} WHERE key = ?"
        self._limits = TableLimits.of_names(
            connection, table, [column.name for column in fields(make) if column.type == "str"]
        )
        self._cached: RecentlyUsed[str, tuple[_Row, ...]] = RecentlyUsed(MAX_CACHED)
        (newest,) = connection.execute(f"SELECT max(key) FROM {table}").fetchone()
        self._next = (newest or 0) + 1
        self._new: list[_Row] = []
        self._completed: dict[int, _Row] = {}

    def cached(self, row_id: str) -> tuple[_Row, ...]:
        """Return the cached rows with an id; never reads the file."""
        return self._cached.get(row_id) or ()

    def with_id(self, row_id: str) -> tuple[_Row, ...]:
        """Return the rows with an id, newest first."""
        cached = self._cached.get(row_id)
        if cached is not None:
            return cached
        stored = self._connection.execute(self._select, (row_id, _MAX_SAME_ID))
        rows = tuple(self._make(*row) for row in stored)
        if rows:
            self._cached.put(row_id, rows)
        return rows

    def add(
        self, others: tuple[_Row, ...], row_id: str, *values: Any, key: int | None = None
    ) -> _Row:
        """Create a row; ``others`` are the existing rows with the same id, ``key`` as below."""
        row = self.add_unlisted(row_id, *values, key=key)
        self._cached.put(row_id, (row, *others[: _MAX_SAME_ID - 1]))
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
        self._cached.put(row_id, (row,))

    def has(self, row: _Row) -> bool:
        """Return whether the row is in the file, or will be."""
        if any(row is new for new in self._new):
            return True
        query = f"SELECT 1 FROM {self._table} WHERE key = ?"
        return self._connection.execute(query, (row.key,)).fetchone() is not None

    def complete(self, row: _Row, grown: int) -> None:
        """Mark a row for an update that adds ``grown`` characters. Raises LimitReached."""
        self._limits.reserve(grown, rows=0)
        self._completed[row.key] = row

    def invalidate(self) -> None:
        """Clear the cache after rows were removed from the file."""
        self._cached.clear()
        self._limits.recount()

    def flush(self) -> None:
        """Write new and completed rows. Raises sqlite3.Error."""
        if self._new:
            self._connection.executemany(self._insert, map(self._values, self._new))
            self._new = []
        if self._completed:
            self._connection.executemany(self._update, map(self._changes, self._completed.values()))
            self._completed = {}


class SubjectTables:
    """Tables of pods and containers.

    A message may contain only an id; the next event with the other fields completes its row.
    `flush` writes new and completed rows. Raises LimitReached if the table is full, and
    sqlite3.Error if reading the file fails.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._pods = _Rows(connection, "pod", PodRow)
        self._containers = _Rows(connection, "container", ContainerRow)
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
        same_id = self._containers.with_id(container_id)
        if not same_id and container_id and (pod_key, name) in self._without_id:
            identified, _ = self._without_id[pod_key, name]
            self._containers.identify(identified, container_id)
            del self._without_id[pod_key, name]
            return identified
        row = _exact_match(same_id, name, pod_key) or _compatible(same_id, name, pod_key)
        if row is None:
            return self._containers.add(same_id, container_id, name, pod_key)
        if (name and not row.name) or (pod_key is not None and row.pod is None):
            self._containers.complete(row, 0 if row.name else len(name))
            row.name, row.pod = row.name or name, pod_key if row.pod is None else row.pod
        return row

    def add(self, subject: events.Pod | events.Container) -> None:
        """Create the row of a subject of another recording, with its key. A pod comes first."""
        row_id, name = named(subject.id), named(subject.name)
        if isinstance(subject, events.Pod):
            others = self._pods.with_id(row_id)
            values = named(subject.namespace), name, named(subject.uid)
            self._pods.add(others, row_id, *values, key=subject.key)
        else:
            pod = None if subject.pod is None else subject.pod.key
            same_id = self._containers.with_id(row_id)
            self._containers.add(same_id, row_id, name, pod, key=subject.key)

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
        cached = self._pods.cached(named(pod_id))
        return cached[0] if len(cached) == 1 else None

    def known_names(self, container_id: str) -> tuple[str, PodRow | None]:
        """Return a container's name and pod if its id is unique, else ("", None); create no row."""
        self.flush()
        rows = self._connection.execute(
            "SELECT c.name, p.key, p.id, p.namespace, p.name, p.uid FROM container AS c "
            "LEFT JOIN pod AS p ON p.key = c.pod WHERE c.id = ? LIMIT 2",
            (named(container_id),),
        ).fetchall()
        if len(rows) != 1:
            return "", None
        name, *pod = rows[0]
        return name, PodRow(*pod) if pod[0] is not None else None

    def invalidate(self) -> None:
        """Clear the caches after rows were removed from the file."""
        self._pods.invalidate()
        self._containers.invalidate()
        self._without_id = {
            key: entry for key, entry in self._without_id.items() if self._containers.has(entry[0])
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
        waiting = self._without_id.get((pod, name))
        if waiting is not None and session not in waiting[1]:
            waiting[1].add(session)
            return waiting[0]
        row = self._containers.add_unlisted(f"{NO_ID}{event}", name, pod)
        self._without_id.pop((pod, name), None)
        self._without_id[pod, name] = row, {session}
        if len(self._without_id) > MAX_WITHOUT_ID:
            del self._without_id[next(iter(self._without_id))]
        return row

    def _pod(self, pod_id: str, namespace: str, name: str, uid: str) -> PodRow | None:
        if not pod_id and not name:
            return None
        same_id = self._pods.with_id(pod_id)
        for row in same_id:
            if row.name == name and row.namespace == namespace and row.uid == uid:
                return row
        for row in same_id:
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
        return self._pods.add(same_id, pod_id, namespace, name, uid)


def _length(*values: str | int | None) -> int:
    return sum(len(value) for value in values if isinstance(value, str))


def _exact_match(rows: tuple[ContainerRow, ...], name: str, pod: int | None) -> ContainerRow | None:
    for row in rows:
        if row.name == name and row.pod == pod:
            return row
    return None


def _compatible(rows: tuple[ContainerRow, ...], name: str, pod: int | None) -> ContainerRow | None:
    """Return the first row whose name and pod do not contradict those of a message."""
    for row in rows:
        has_other_name = name and row.name not in ("", name)
        if not has_other_name and (pod is None or row.pod in (None, pod)):
            return row
    return None
