# SPDX-License-Identifier: Apache-2.0
"""Text and style of the tree's lines, read only for visible lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from nri_scope.events import Container, Event, Pod, Status
from nri_scope.nri.events import Stage
from nri_scope.recording.attribution_file import owners_by_key, owners_of
from nri_scope.recording.display import SHORT_ID, clock, duration, moment, response_time
from nri_scope.recording.reader import Recording
from nri_scope.recording.subject_queries import (
    containers_by_key,
    keys_by_name,
    pods_by_key,
    state_in,
)

from ..store.rows import changed_in_short
from ..text.styled_line import Span, Style, StyledLine, TableField, TableGrid
from ..widgets.table_board import in_order
from .census import STATES, Census, Life, life_words
from .outline import NO_POD, Level, Node, NodeOrder

_LISTED_STATES = {
    "CONTAINER_CREATED": "created",
    "CONTAINER_PAUSED": "paused",
    "CONTAINER_RUNNING": "running",
    "CONTAINER_STOPPED": "stopped",
}


_PAST = (STATES[Stage.LISTED], STATES[Stage.CREATING])
"""States that do not say what is true now."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Details of one line in addition to the census, not escaped."""

    pod: Pod | None = None
    container: Container | None = None
    event: Event | None = None
    owners: tuple[str, ...] = ()
    """The owners of changes of the container, or of the pod's containers, by index."""
    listed_state: str = ""
    """The container's state according to Synchronize; "" if unknown."""

    @property
    def name(self) -> str:
        """``ns/pod`` for a pod, the name for a container; the id if the name is unknown."""
        if self.container is not None:
            return self.container.name or self.container.id[:SHORT_ID]
        if self.pod is None:
            return "(unknown pod)"
        name = self.pod.name or f"pod {self.pod.id[:SHORT_ID]}"
        return f"{self.pod.namespace}/{name}" if self.pod.namespace else name

    @property
    def full_name(self) -> str:
        """``ns/pod/container``, without unknown parts."""
        if self.container is None or self.container.pod is None:
            return self.name
        return f"{Subject(pod=self.container.pod).name}/{self.name}"

    def state(self, life: Life) -> str:
        """Return the state as one word, with ``?`` if it was the state before events left out."""
        if not (life.listed or life.events or self.pod is not None):
            # Only requests name it.
            return "not seen"
        listed_state = self.listed_state if life.stage is Stage.LISTED else ""
        state = listed_state or STATES[life.stage]
        return f"{state}?" if life.is_unknown and state not in _PAST else state


def read(recording: Recording, census: Census, nodes: Sequence[Node]) -> dict[Node, Subject]:
    """Read the details of nodes. Raises RecordingError."""
    pod_keys = {node.pod for node in nodes if node.level is Level.POD} - {NO_POD}
    pods = {one.key: one for one in pods_by_key(recording, pod_keys)}
    keys = {node.container for node in nodes if node.level is Level.CONTAINER}
    containers = {one.key: one for one in containers_by_key(recording, keys)}
    found: dict[Node, Subject] = {}
    for node in nodes:
        match node.level:
            case Level.POD:
                pod = pods.get(node.pod)
                found[node] = Subject(pod=pod, owners=_owners(recording, pod))
            case Level.CONTAINER:
                container = containers.get(node.container)
                found[node] = Subject(
                    container=container,
                    owners=_owners(recording, container),
                    listed_state=_listed_state(recording, census.containers[node.container]),
                )
            case Level.EVENT:
                found[node] = Subject(event=recording.event(node.event))
    return found


@dataclass(frozen=True, slots=True)
class NamedSubjects:
    """Keys of the pods and containers that match a search."""

    pods: frozenset[int]
    containers: frozenset[int]

    def has(self, node: Node) -> bool:
        """Return whether a node is one of these pods and containers."""
        if node.event:
            return False
        return node.container in self.containers if node.container else node.pod in self.pods


def _owners(recording: Recording, about: Pod | Container | None) -> tuple[str, ...]:
    return () if about is None else owners_of(recording, about)


def _listed_state(recording: Recording, life: Life) -> str:
    if not life.listed or life.stage is not Stage.LISTED:
        return ""
    return _LISTED_STATES.get(state_in(recording, life.listed), "")


FIELDS = (
    TableField("Pod / container / event", 34, grows=True, most=70),
    TableField("State", 8),
    TableField("Age", 7, right=True),
    TableField("Events", 7, right=True),
    TableField("Errors", 6, right=True, rank=2),
    TableField("Changed by", 10, grows=True, rank=1),
)
_NAME, _STATE, _CHANGED_BY = 0, 1, 5
_STATE_ORDER = ("existed", "creating", "created", "running", "paused", "stopped", "removed")
_LISTED_MAX = 5_000
"""Maximum number of containers whose state in Synchronize is read for their order."""
_OPEN = {True: "▾ ", False: "▸ ", None: "  "}
_STATE_STYLES = {
    Stage.STARTED: Style.GOOD,
    Stage.STOPPED: Style.WARN,
    Stage.REMOVED: Style.DIM,
}


def node_order(
    recording: Recording, census: Census, field: int, *, ascending: bool, now_ns: int
) -> NodeOrder:
    """Return the order of all pods and containers by one of `FIELDS`; unknown values come last.

    Takes some µs for each. Raises RecordingError.
    """
    if field == _NAME:
        by_name = keys_by_name(recording)
        return NodeOrder(*(keys if ascending else keys[::-1] for keys in by_name))
    pods, containers = census.pods, census.containers
    owners_of_pods, owners = dict[int, tuple[str, ...]](), dict[int, tuple[str, ...]]()
    states = dict[int, str]()
    if field == _CHANGED_BY:
        owners_of_pods, owners = (owners_by_key(recording, one) for one in ("pod", "container"))
    elif field == _STATE:
        listed = (life for life in containers if life.listed and life.stage is Stage.LISTED)
        states = {
            life.listed: _listed_state(recording, life) for life in islice(listed, _LISTED_MAX)
        }
    of_pods = (
        _sort_value(field, life, now_ns, "", owners_of_pods.get(key, ()))
        for key, life in zip(pods.keys, pods, strict=True)
    )
    of_containers = (
        _sort_value(field, life, now_ns, states.get(life.listed, ""), owners.get(key, ()))
        for key, life in zip(containers.keys, containers, strict=True)
    )
    return NodeOrder(
        in_order(zip(pods.keys, of_pods, strict=True), ascending=ascending),
        in_order(zip(containers.keys, of_containers, strict=True), ascending=ascending),
    )


def _sort_value(
    field: int, life: Life, now_ns: int, listed_state: str, owners: tuple[str, ...]
) -> Any:
    """Return a comparable value of a field; None if it is unknown, or no change is known."""
    match field:
        case 1:
            return _STATE_ORDER.index(listed_state or STATES[life.stage])
        case 2:
            return life.age_ns(now_ns) if life.first_ns else None
        case 3:
            return life.events
        case 4:
            return life.problems
    return owners or None


def life_of(census: Census, node: Node) -> Life:
    """Return the life of a pod or container; an empty one for `NO_POD`."""
    return census.containers[node.container] if node.container else census.pods[node.pod]


def node_line(
    node: Node,
    subject: Subject,
    life: Life,
    opened: bool | None,
    grid: TableGrid,
    now_ns: int,
) -> StyledLine:
    """Return a line of the tree. ``opened``: whether it is unfolded; None if it cannot be."""
    if node.level is Level.EVENT:
        return _event_line(subject.event, grid)
    if node.pod == NO_POD and node.level is Level.POD:
        # A heading for the containers whose pod is unknown.
        return grid.line([Span(f"{_OPEN[opened]}{subject.name}"), *[Span("")] * 5])
    indent = "  " * node.level
    style = Style.STRONG if node.level is Level.POD else Style.PLAIN
    return grid.line(
        (
            Span(f"{indent}{_OPEN[opened]}{subject.name}", style),
            Span(subject.state(life), _STATE_STYLES.get(life.stage, Style.PLAIN)),
            Span(_age(life, now_ns)),
            Span(f"{life.events:,}"),
            Span(f"{life.problems:,}", Style.BAD if life.problems else Style.PLAIN),
            Span(f"Δ {', '.join(subject.owners)}" if subject.owners else "", Style.NOTE),
        )
    )


def node_words(node: Node, subject: Subject, life: Life, now_ns: int) -> StyledLine:
    """Return details that do not fit into the line."""
    event = subject.event
    if event is not None:
        return (Span(f"event {event.id} at {moment(event.at_ns)}, reply of {event.plugin}"),)
    parts = [Span(subject.full_name, Style.STRONG)]
    if phases := life_words(life, now_ns):
        parts.append(Span(f"  {phases}"))
    return tuple(parts)


def _event_line(event: Event | None, grid: TableGrid) -> StyledLine:
    if event is None:
        return grid.line([Span("  (removed from the recording)", Style.DIM), *[Span("")] * 5])
    ok = event.status == Status.OK
    return grid.line(
        (
            Span(f"  {clock(event.at_ns)} {event.event}"),
            Span(event.status, Style.PLAIN if ok else Style.BAD),
            Span(response_time(event.took_ns)),
            Span(""),
            Span(""),
            Span(changed_in_short(event), Style.NOTE),
        )
    )


def _age(life: Life, now_ns: int) -> str:
    """Format the age, with ``>`` if its creation, or the time until now, was not observed."""
    if not life.first_ns:
        return ""
    age = duration(life.age_ns(now_ns))
    return age if life.began_ns and not life.is_unknown else f">{age}"
