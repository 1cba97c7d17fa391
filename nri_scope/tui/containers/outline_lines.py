# SPDX-License-Identifier: Apache-2.0
"""Text and style of the tree's lines, read only for visible lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nri_scope.events import Container, Event, Pod, Status
from nri_scope.nri.events import EventStage
from nri_scope.nri.identity import index_of
from nri_scope.recording.query.attribution_file import owners_of
from nri_scope.recording.query.subject_queries import (
    containers_by_key,
    events_of_containers,
    pods_by_key,
    slowest_event,
    state_in,
)
from nri_scope.recording.reading.reader import Recording
from nri_scope.text.escape import safe
from nri_scope.text.quantities import SHORT_ID, clock, duration, moment, response_time
from nri_scope.text.short_names import short_pod

from ..store.recording_overview import Analysis
from ..store.rows import changed_in_short
from ..text.styled_line import Span, Style, StyledLine, TableField, TableGrid
from .census import STATES, Census, Life, life_words
from .outline import NO_POD, Depth, TreeNode

_LISTED_STATES = {
    "CONTAINER_CREATED": "created",
    "CONTAINER_PAUSED": "paused",
    "CONTAINER_RUNNING": "running",
    "CONTAINER_STOPPED": "stopped",
}


_PAST = (STATES[EventStage.LISTED], STATES[EventStage.CREATING])
"""States that do not say what is true now."""


@dataclass(frozen=True, slots=True)
class SubjectDetails:
    """Details of one line in addition to the census, not escaped."""

    pod: Pod | None = None
    container: Container | None = None
    event: Event | None = None
    owners: tuple[str, ...] = ()
    """The owners of changes of the container, or of the pod's containers, by index."""
    slowest: Event | None = None
    """The container's event that took a plugin longest; None if no plugin's time was observed."""
    findings: tuple[str, ...] = ()
    """Titles of the findings that the container's events show."""
    listed_state: str = ""
    """The container's state according to Synchronize; "" if unknown."""

    @property
    def name(self) -> str:
        """``ns/pod`` for a pod, the name for a container; the id if the name is unknown."""
        if self.container is not None:
            return self.container.name or self.container.id[:SHORT_ID]
        if self.pod is None:
            return "(no known pod)"
        name = self.pod.name or f"pod {self.pod.id[:SHORT_ID]}"
        return f"{self.pod.namespace}/{name}" if self.pod.namespace else name

    @property
    def full_name(self) -> str:
        """``ns/pod/container``, without unknown parts."""
        if self.container is None or self.container.is_alone:
            return self.name
        return f"{SubjectDetails(pod=self.container.pod).name}/{self.name}"

    def state(self, life: Life) -> str:
        """Return the state as one word, with ``?`` if it was the state before events left out."""
        if not (life.listed or life.events or self.pod is not None):
            # Only requests name it.
            return "not seen"
        listed_state = self.listed_state if life.stage is EventStage.LISTED else ""
        state = listed_state or STATES[life.stage]
        return f"{state}?" if life.is_unknown and state not in _PAST else state


def read(
    recording: Recording,
    census: Census,
    nodes: Sequence[TreeNode],
    analysis: Analysis | None = None,
) -> dict[TreeNode, SubjectDetails]:
    """Read the details of nodes. Raises RecordingError.

    ``analysis``: what a survey has found; None to read only names, owners and states.
    """
    pod_keys = {node.pod for node in nodes if node.level is Depth.POD} - {NO_POD}
    pods = {pod.key: pod for pod in pods_by_key(recording, pod_keys)}
    keys = {node.container for node in nodes if node.level is Depth.CONTAINER}
    containers = {container.key: container for container in containers_by_key(recording, keys)}
    shown: Mapping[int, Sequence[int]] = {}
    if analysis is not None:
        events = {event for finding in analysis.findings for event in finding.events}
        shown = events_of_containers(recording, keys, events)
    details: dict[TreeNode, SubjectDetails] = {}
    for node in nodes:
        match node.level:
            case Depth.POD:
                pod = pods.get(node.pod)
                details[node] = SubjectDetails(pod=pod, owners=_owners(recording, pod))
            case Depth.CONTAINER:
                container, key = containers.get(node.container), node.container
                details[node] = SubjectDetails(
                    container=container,
                    owners=_owners(recording, container),
                    listed_state=_listed_state(recording, census.containers[key]),
                    slowest=slowest_event(recording, key) if analysis is not None else None,
                    findings=analysis.titles(*shown.get(key, ())) if analysis is not None else (),
                )
            case Depth.EVENT:
                details[node] = SubjectDetails(event=recording.event(node.event))
    return details


@dataclass(frozen=True, slots=True)
class NamedSubjects:
    """Keys of the pods and containers that match a search."""

    pods: frozenset[int]
    containers: frozenset[int]

    def has(self, node: TreeNode) -> bool:
        """Return whether a node is one of these pods and containers."""
        if node.event:
            return False
        return node.container in self.containers if node.container else node.pod in self.pods


def _owners(recording: Recording, about: Pod | Container | None) -> tuple[str, ...]:
    return () if about is None else owners_of(recording, about)


def _listed_state(recording: Recording, life: Life) -> str:
    if not life.listed or life.stage is not EventStage.LISTED:
        return ""
    return _LISTED_STATES.get(state_in(recording, life.listed), "")


_NAME_MAX = 600
"""Maximum number of characters of a name that are shown."""
FIELDS = (
    TableField("Pod / container / event", 34, grows=True, most=56),
    TableField("State", 8),
    TableField("Age", 7, right=True, rank=3),
    TableField("Events", 6, right=True, rank=2),
    TableField("Errors", 6, right=True, rank=1),
    TableField("!", 2, right=True),
    TableField("Slowest", 9, rank=1),
    TableField("Changed by", 10, grows=True),
)
_NAMED_OWNERS = 24
"""Minimum columns of a field that names owners."""
_OPEN = {True: "▾ ", False: "▸ ", None: "  "}
_STATE_STYLES = {
    EventStage.STARTED: Style.GOOD,
    EventStage.STOPPED: Style.WARN,
    EventStage.REMOVED: Style.DIM,
}


def life_of(census: Census, node: TreeNode) -> Life:
    """Return the life of a pod or container; an empty one for `NO_POD`."""
    return census.containers[node.container] if node.container else census.pods[node.pod]


def node_line(
    node: TreeNode,
    subject: SubjectDetails,
    life: Life,
    opened: bool | None,
    grid: TableGrid,
    now_ns: int,
) -> StyledLine:
    """Return a line of the tree. ``opened``: whether it is unfolded; None if it cannot be."""
    if node.level is Depth.EVENT:
        return _event_line(subject.event, grid)
    if node.pod == NO_POD and node.level is Depth.POD:
        # A heading for the containers whose pod is unknown.
        return grid.line_of(Span(f"{_OPEN[opened]}{subject.name}"))
    before = "  " * node.level + _OPEN[opened]
    name = short_pod(safe(subject.name[:_NAME_MAX]), grid.widths[0] - len(before))
    style = Style.STRONG if node.level is Depth.POD else Style.PLAIN
    return grid.line(
        (
            Span(f"{before}{name}", style),
            Span(subject.state(life), _STATE_STYLES.get(life.stage, Style.PLAIN)),
            Span(_age(life, now_ns)),
            Span(f"{life.events:,}"),
            Span(f"{life.problems:,}", Style.BAD if life.problems else Style.PLAIN),
            Span(f"{len(subject.findings)}" if subject.findings else "", Style.BAD),
            Span(_slowest(subject.slowest)),
            Span(_owners_in(subject.owners, grid.widths[-1]), Style.NOTE),
        )
    )


def node_words(subject: SubjectDetails, life: Life, now_ns: int) -> StyledLine:
    """Return details that do not fit into the line."""
    event = subject.event
    if event is not None:
        return (Span(f"event {event.id} at {moment(event.at_ns)}, reply of {event.plugin}"),)
    parts = [Span(subject.full_name, Style.STRONG)]
    if phases := life_words(life, now_ns):
        parts.append(Span(f"  {phases}"))
    return tuple(parts)


def _slowest(event: Event | None) -> str:
    return "" if event is None else f"{duration(event.took_ns)} {index_of(event.plugin)}"


def _owners_in(owners: Sequence[str], width: int) -> str:
    """Return the owners, in a narrow field their indices."""
    names = " ".join(map(index_of, owners)) if width < _NAMED_OWNERS else ", ".join(owners)
    return f"Δ {names}" if owners else ""


def _event_line(event: Event | None, grid: TableGrid) -> StyledLine:
    if event is None:
        return grid.line_of(Span("  (removed from the recording)", Style.DIM))
    ok = event.status == Status.OK
    return grid.line(
        (
            Span(f"  {clock(event.at_ns)} {event.event}"),
            Span(event.status, Style.PLAIN if ok else Style.BAD),
            *(Span(""),) * 4,
            Span(response_time(event.took_ns)),
            Span(changed_in_short(event), Style.NOTE),
        )
    )


def _age(life: Life, now_ns: int) -> str:
    """Format the age, with ``>`` if its creation, or the time until now, was not observed."""
    if not life.first_ns:
        return ""
    age = duration(life.age_ns(now_ns))
    return age if life.began_ns and not life.is_unknown else f">{age}"
