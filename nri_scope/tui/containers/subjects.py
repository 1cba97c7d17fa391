# SPDX-License-Identifier: Apache-2.0
"""What the lines of a tree say: read for the few that are on the screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nri_scope.recorder.display import SHORT_ID
from nri_scope.recorder.model import Container, Event, Pod
from nri_scope.recorder.reader import Recording
from nri_scope.recorder.subject_queries import (
    containers_by_key,
    owners_of,
    pods_by_key,
    state_in,
)
from nri_scope.tui.containers.census import Census
from nri_scope.tui.containers.lives import Life, Stage
from nri_scope.tui.containers.outline import NO_POD, Level, Node

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
    """Return what the lines say. Raises RecordingError."""
    pod_keys = {node.pod for node in nodes if node.level is Level.POD} - {NO_POD}
    pods = {one.key: one for one in pods_by_key(recording, pod_keys)}
    keys = {node.container for node in nodes if node.level is Level.CONTAINER}
    containers = {one.key: one for one in containers_by_key(recording, keys)}
    found: dict[Node, Subject] = {}
    for node in nodes:
        match node.level:
            case Level.POD:
                found[node] = Subject(pod=pods.get(node.pod))
            case Level.CONTAINER:
                container = containers.get(node.container)
                found[node] = Subject(
                    container=container,
                    owners=owners_of(recording, node.container),
                    told=_told(recording, census.containers[node.container]),
                )
            case Level.EVENT:
                found[node] = Subject(event=recording.event(node.event))
    return found


@dataclass(frozen=True, slots=True)
class Named:
    """The keys of some pods and containers."""

    pods: frozenset[int]
    containers: frozenset[int]

    def has(self, node: Node) -> bool:
        """Return whether a line is one of them."""
        if node.event:
            return False
        return node.container in self.containers if node.container else node.pod in self.pods


def _told(recording: Recording, life: Life) -> str:
    if not life.told or life.stage is not Stage.TOLD:
        return ""
    return _TOLD.get(state_in(recording, life.told), "")
