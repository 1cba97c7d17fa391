# SPDX-License-Identifier: Apache-2.0
"""What the lines of a tree say: read for the few that are on the screen."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nri_scope.recorder.display import SHORT_ID
from nri_scope.recorder.model import Container, Event, Pod
from nri_scope.recorder.reader import Recording
from nri_scope.recorder.rows import CONTAINER_COLUMNS, container_of, pod_of
from nri_scope.recorder.sound import sound
from nri_scope.tui.model.census import NO_POD, Census
from nri_scope.tui.model.lives import Life, Stage
from nri_scope.tui.model.tree import Level, Node

_OWNERS = 200
"""Events of one container that are asked who changed something."""
_TOLD = {
    "CONTAINER_CREATED": "created",
    "CONTAINER_PAUSED": "paused",
    "CONTAINER_RUNNING": "running",
    "CONTAINER_STOPPED": "stopped",
}
STATES = {
    Stage.TOLD: "existed",
    Stage.CREATING: "creating",
    Stage.CREATED: "created",
    Stage.STARTED: "running",
    Stage.STOPPED: "stopped",
    Stage.REMOVED: "removed",
}
"""What people call the stages."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is known of one line, beside what the census knows. Not escaped yet."""

    pod: Pod | None = None
    container: Container | None = None
    event: Event | None = None
    owners: tuple[str, ...] = ()
    """Who changed the container, ``NN-name``, in call order."""
    told: str = ""
    """The container's state, as Synchronize told it."""

    @property
    def name(self) -> str:
        """Of a pod ``ns/pod``, of a container its name; an id in the place of an unknown one."""
        if self.container is not None:
            return self.container.name or self.container.id[:SHORT_ID]
        if self.pod is None:
            return "(pod not known)"
        name = self.pod.name or f"pod {self.pod.id[:SHORT_ID]}"
        return f"{self.pod.namespace}/{name}" if self.pod.namespace else name

    @property
    def full_name(self) -> str:
        """``ns/pod/container``, as far as it is known."""
        if self.container is None or self.container.pod is None:
            return self.name
        return f"{Subject(pod=self.container.pod).name}/{self.name}"

    def state(self, life: Life) -> str:
        """In a word."""
        told = self.told if life.stage is Stage.TOLD else ""
        return told or STATES[life.stage]


def read(recording: Recording, census: Census, nodes: Sequence[Node]) -> dict[Node, Subject]:
    """What the lines say. Raises RecordingError."""
    pods = _pods(recording, {node.pod for node in nodes if node.level is Level.POD})
    keys = {node.container for node in nodes if node.level is Level.CONTAINER}
    containers = _containers(recording, keys)
    found: dict[Node, Subject] = {}
    for node in nodes:
        match node.level:
            case Level.POD:
                found[node] = Subject(pod=pods.get(node.pod))
            case Level.CONTAINER:
                container = containers.get(node.container)
                found[node] = Subject(
                    container=container,
                    owners=_owners(recording, node.container),
                    told=_told(recording, census.containers[node.container]),
                )
            case Level.EVENT:
                found[node] = Subject(event=recording.event(node.event))
    return found


@dataclass(frozen=True, slots=True)
class Named:
    """The pods and containers, by key, whose name or id has some text."""

    pods: frozenset[int]
    containers: frozenset[int]

    def has(self, node: Node) -> bool:
        """Whether a line is one of them."""
        if node.event:
            return False
        return node.container in self.containers if node.container else node.pod in self.pods


def named(recording: Recording, text: str) -> Named:
    """Those with ``text`` in their names or ids, ASCII in upper or lower case.

    Raises RecordingError.
    """
    with sound(recording):
        pods, containers = (
            frozenset(
                key
                for (key,) in recording.connection.execute(
                    f"SELECT key FROM {table} WHERE instr(lower({name}), lower(?)) "
                    "OR instr(id, lower(?))",
                    (text, text),
                )
            )
            for table, name in (("pod", "namespace || '/' || name"), ("container", "name"))
        )
    return Named(pods, containers)


def _pods(recording: Recording, keys: Iterable[int]) -> dict[int, Pod]:
    with sound(recording):
        rows = recording.connection.execute(
            f"SELECT key, id, namespace, name, uid FROM pod WHERE key IN ({_list(keys)})"
        )
        return {pod.key: pod for pod in map(pod_of, rows)}


def _containers(recording: Recording, keys: Iterable[int]) -> dict[int, Container]:
    with sound(recording):
        rows = recording.connection.execute(
            f"SELECT {CONTAINER_COLUMNS} FROM container AS c LEFT JOIN pod AS p ON p.key = c.pod "
            f"WHERE c.key IN ({_list(keys)})"
        )
        return {container.key: container for container in map(container_of, rows)}


def _list(keys: Iterable[int]) -> str:
    return ", ".join(str(int(key)) for key in keys if key != NO_POD)


def _owners(recording: Recording, container: int) -> tuple[str, ...]:
    found: set[str] = set()
    with sound(recording):
        rows = recording.connection.execute(
            "SELECT DISTINCT owners FROM (SELECT owners FROM event WHERE container = ? "
            "ORDER BY id LIMIT ?) WHERE owners IS NOT NULL",
            (container, _OWNERS),
        )
        for (encoded,) in rows:
            found.update(texts(encoded))
    return tuple(sorted(found))


def texts(encoded: object) -> list[str]:
    """The texts in a JSON array; nothing where it is none."""
    try:
        read = json.loads(encoded) if isinstance(encoded, str) else None
    except (ValueError, RecursionError):
        return []
    return [text for text in read if isinstance(text, str)] if isinstance(read, list) else []


def _told(recording: Recording, life: Life) -> str:
    if not life.told or life.stage is not Stage.TOLD:
        return ""
    with sound(recording):
        (encoded,) = recording.connection.execute("SELECT nri_object(?)", (life.told,)).fetchone()
    try:
        read = json.loads(encoded) if isinstance(encoded, str) else None
    except (ValueError, RecursionError):
        return ""
    state = read.get("state") if isinstance(read, dict) else None
    return _TOLD.get(state, "") if isinstance(state, str) else ""
