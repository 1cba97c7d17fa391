# SPDX-License-Identifier: Apache-2.0
"""The subjects of events: pods and containers, each with one key in the whole recording."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from nri_scope._gen.nri.api_pb2 import Container, PodSandbox
from nri_scope.recording.cache import RecentlyUsed
from nri_scope.recording.row_limits import Room
from nri_scope.recording.sqlite_text import named

_KNOWN = 4_096
# Different things under one id are a fault of the peer; this many are kept apart.
_NAMESAKES = 8


@dataclass(slots=True)
class PodRow:
    """A row of the table ``pod``."""

    key: int
    id: str
    namespace: str
    name: str
    uid: str


@dataclass(slots=True)
class ContainerRow:
    """A row of the table ``container``."""

    key: int
    id: str
    name: str
    pod: int | None


class Subjects:
    """Finds or makes the rows of pods and containers.

    A message may contain no more than an id; such a row is completed by the next event that has the
    rest. New and completed rows collect in lists. Raises NoRoom where the recording has too many of
    them, and sqlite3.Error where it has to read the file.
    """

    def __init__(self, connection: sqlite3.Connection, *, empty: bool) -> None:
        """Count the rows of the recording. ``empty``: it has no pods and containers yet."""
        self._connection = connection
        self._pods: RecentlyUsed[str, tuple[PodRow, ...]] = RecentlyUsed(_KNOWN)
        self._containers: RecentlyUsed[str, tuple[ContainerRow, ...]] = RecentlyUsed(_KNOWN)
        self._pod_room = Room.of_names(connection, "pod", ["id", "namespace", "name", "uid"])
        self._container_room = Room.of_names(connection, "container", ["id", "name"])
        self._empty = empty
        self._next_pod = 1 if empty else _next(connection, "pod")
        self._next_container = 1 if empty else _next(connection, "container")
        self.new_pods: list[PodRow] = []
        self.new_containers: list[ContainerRow] = []
        self.completed_pods: dict[int, PodRow] = {}
        self.completed_containers: dict[int, ContainerRow] = {}

    def pod(self, message: PodSandbox) -> PodRow | None:
        """Return the row of a pod; None for a message without id and name."""
        return self._pod(
            named(message.id), named(message.namespace), named(message.name), named(message.uid)
        )

    def container(self, message: Container, pod: PodRow | None) -> ContainerRow | None:
        """Return the row of a container; ``pod`` is the one that came with it, if any."""
        container_id, name = named(message.id), named(message.name)
        if not container_id and not name:
            return None
        if pod is None:
            pod = self._pod(named(message.pod_sandbox_id), "", "", "")
        pod_key = pod.key if pod else None
        known = self._containers.get(container_id)
        if known is None:
            known = self._stored_containers(container_id)
        for row in known:
            if row.name == name and row.pod == pod_key:
                return row
        for row in known:
            if row.name not in ("", name) and name:
                continue
            if row.pod is not None and pod_key is not None and row.pod != pod_key:
                continue
            if (name and not row.name) or (pod_key is not None and row.pod is None):
                self._container_room.take(0 if row.name else len(name), rows=0)
                row.name, row.pod = row.name or name, pod_key if row.pod is None else row.pod
                self.completed_containers[row.key] = row
            return row
        self._container_room.take(len(container_id) + len(name))
        row = ContainerRow(self._next_container, container_id, name, pod_key)
        self._next_container += 1
        self.new_containers.append(row)
        self._containers.put(container_id, (row, *known[: _NAMESAKES - 1]))
        return row

    def known_pod(self, pod_id: str) -> PodRow | None:
        """Return the row under this id if there is exactly one; make none."""
        known = self._pods.get(named(pod_id))
        return known[0] if known and len(known) == 1 else None

    def known_names(self, container_id: str) -> tuple[str, PodRow | None]:
        """Return the container's name and its pod if the id is unique; make no rows."""
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

    def forget(self) -> None:
        """Forget the remembered rows, as rows were removed from the file."""
        self._pods.clear()
        self._containers.clear()
        self._empty = False
        self._pod_room.recount()
        self._container_room.recount()

    def flush(self) -> None:
        """Write new and completed rows. Raises sqlite3.Error."""
        connection = self._connection
        if self.new_pods:
            connection.executemany(
                "INSERT INTO pod VALUES (?, ?, ?, ?, ?)",
                ((row.key, row.id, row.namespace, row.name, row.uid) for row in self.new_pods),
            )
            self.new_pods = []
        if self.new_containers:
            connection.executemany(
                "INSERT INTO container VALUES (?, ?, ?, ?)",
                ((row.key, row.id, row.name, row.pod) for row in self.new_containers),
            )
            self.new_containers = []
        if self.completed_pods:
            connection.executemany(
                "UPDATE pod SET namespace = ?, name = ?, uid = ? WHERE key = ?",
                (
                    (row.namespace, row.name, row.uid, row.key)
                    for row in self.completed_pods.values()
                ),
            )
            self.completed_pods = {}
        if self.completed_containers:
            connection.executemany(
                "UPDATE container SET name = ?, pod = ? WHERE key = ?",
                ((row.name, row.pod, row.key) for row in self.completed_containers.values()),
            )
            self.completed_containers = {}

    def _pod(self, pod_id: str, namespace: str, name: str, uid: str) -> PodRow | None:
        if not pod_id and not name:
            return None
        known = self._pods.get(pod_id)
        if known is None:
            known = self._stored_pods(pod_id)
        for row in known:
            if row.name == name and row.namespace == namespace and row.uid == uid:
                return row
        for row in known:
            if all(
                not told or not stored or told == stored
                for told, stored in (
                    (namespace, row.namespace),
                    (name, row.name),
                    (uid, row.uid),
                )
            ):
                completed = (row.namespace or namespace, row.name or name, row.uid or uid)
                if completed != (row.namespace, row.name, row.uid):
                    grown = _length(*completed) - _length(row.namespace, row.name, row.uid)
                    self._pod_room.take(grown, rows=0)
                    row.namespace, row.name, row.uid = completed
                    self.completed_pods[row.key] = row
                return row
        self._pod_room.take(_length(pod_id, namespace, name, uid))
        row = PodRow(self._next_pod, pod_id, namespace, name, uid)
        self._next_pod += 1
        self.new_pods.append(row)
        self._pods.put(pod_id, (row, *known[: _NAMESAKES - 1]))
        return row

    def _stored_pods(self, pod_id: str) -> tuple[PodRow, ...]:
        if self._empty and not self._pods.forgot:
            return ()
        rows = tuple(
            PodRow(*row)
            for row in self._connection.execute(
                "SELECT key, id, namespace, name, uid FROM pod WHERE id = ? "
                "ORDER BY key DESC LIMIT ?",
                (pod_id, _NAMESAKES),
            )
        )
        if rows:
            self._pods.put(pod_id, rows)
        return rows

    def _stored_containers(self, container_id: str) -> tuple[ContainerRow, ...]:
        if self._empty and not self._containers.forgot:
            return ()
        rows = tuple(
            ContainerRow(*row)
            for row in self._connection.execute(
                "SELECT key, id, name, pod FROM container WHERE id = ? ORDER BY key DESC LIMIT ?",
                (container_id, _NAMESAKES),
            )
        )
        if rows:
            self._containers.put(container_id, rows)
        return rows


def _length(*texts: str) -> int:
    return sum(map(len, texts))


def _next(connection: sqlite3.Connection, table: str) -> int:
    (newest,) = connection.execute(f"SELECT max(key) FROM {table}").fetchone()
    return (newest or 0) + 1
