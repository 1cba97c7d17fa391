# SPDX-License-Identifier: Apache-2.0
"""The lanes of a timeline in little memory, and the events of the few that are on the screen."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from nri_scope.filter import Filter
from nri_scope.recording.display import clock, duration
from nri_scope.recording.reader import Recording
from nri_scope.recording.subject_queries import points_between
from nri_scope.text.escape import safe

from ..containers.census import FOR_EVER, STAGES, Census, EventSpan, Life, Stage, life_words
from ..containers.census_board import SubjectFilter
from ..containers.outline import Node
from ..containers.outline_lines import Subject
from ..text.styled_line import Span, Style, StyledLine, fitted
from .lane_drawing import (
    LINES,
    SIGNS,
    UNOBSERVED,
    LanePoint,
    PointKind,
    TimeWindow,
    axis,
    kind_of,
    nearest,
)

MOST = 2_000
"""Events of one lane that are read; of more, one for each column."""


@dataclass(frozen=True, slots=True)
class LanePoints:
    """The events of one lane in a window, in order of time."""

    points: tuple[LanePoint, ...] = ()
    complete: bool = True
    """False where there are so many that of each column only the first event was read."""


def read_points(
    recording: Recording,
    census: Census,
    lanes: Sequence[Node],
    window: TimeWindow,
    width: int,
    where: Filter | None,
) -> dict[Node, LanePoints]:
    """Return the events in ``window``, which is ``width`` columns wide. Raises RecordingError."""
    span = census.between(window.from_ns, window.to_ns - 1)
    return {lane: _of_lane(recording, census, lane, window, span, width, where) for lane in lanes}


def _of_lane(
    recording: Recording,
    census: Census,
    lane: Node,
    window: TimeWindow,
    span: EventSpan,
    width: int,
    where: Filter | None,
) -> LanePoints:
    found = _between(recording, lane, window, span, where, MOST + 1)
    if len(found) <= MOST:
        return LanePoints(tuple(sorted(found)))
    first: list[LanePoint] = []
    for column in range(width):
        part = TimeWindow(window.start(column, width), window.start(column + 1, width))
        there = census.between(part.from_ns, part.to_ns - 1)
        first += _between(recording, lane, part, there, where, 1)
    return LanePoints(tuple(sorted(first)), complete=False)


def _between(
    recording: Recording,
    lane: Node,
    window: TimeWindow,
    span: EventSpan,
    where: Filter | None,
    most: int,
) -> list[LanePoint]:
    found = points_between(
        recording, (lane.pod, lane.container), (window.from_ns, window.to_ns), span, where, most
    )
    return [
        LanePoint(
            one.at_ns,
            one.event,
            kind_of(STAGES.get(one.name, (None,))[0], ok=one.ok, changed=one.changed),
            one.name,
        )
        for one in found
    ]


RULER = ("╎", Style.DIM)
"""At the cursor's moment, where nothing else is."""


@dataclass(slots=True)
class Lanes:
    """The visible pods and containers, in order, with the times of their beginnings and ends."""

    pods: array[int] = field(default_factory=lambda: array("q"))
    containers: array[int] = field(default_factory=lambda: array("q"))
    """0 for a pod's own lane."""
    first_ns: array[int] = field(default_factory=lambda: array("q"))
    """0 where it is not known."""
    end_ns: array[int] = field(default_factory=lambda: array("q"))
    """`FOR_EVER` for what was not seen to end."""

    @classmethod
    def of(cls, census: Census, chosen: SubjectFilter) -> Lanes:
        """Choose those of a census that are to be seen."""
        lanes = cls()
        for pod, container in chosen.subjects(census):
            lanes.pods.append(pod)
            lanes.containers.append(container)
            lives, key = (census.containers, container) if container else (census.pods, pod)
            first, end = lives.span(key)
            lanes.first_ns.append(first)
            lanes.end_ns.append(end)
        return lanes

    def __len__(self) -> int:
        return len(self.pods)

    def __iter__(self) -> Iterator[tuple[int, int, int, int]]:
        """Iterate as `lanes_within` takes them."""
        return zip(self.pods, self.containers, self.first_ns, self.end_ns, strict=True)

    def node(self, number: int) -> Node:
        """Return the lane of this number."""
        return Node(self.pods[number], self.containers[number])

    def number_of(self, node: Node) -> int | None:
        """Return the lane of a pod or container; None: it has none."""
        for number, (pod, container) in enumerate(zip(self.pods, self.containers, strict=True)):
            if pod == node.pod and container == node.container:
                return number
        return None

    def whole(self, until_ns: int) -> TimeWindow | None:
        """Return the time from the first beginning to the last end; None where nothing began."""
        first = min(filter(None, self.first_ns), default=0)
        if not first:
            return None
        last = max(
            end if end != FOR_EVER else until_ns
            for end, began in zip(self.end_ns, self.first_ns, strict=True)
            if began
        )
        return TimeWindow.around(first, max(first, last))


def label(node: Node, subject: Subject, width: int) -> Span:
    """Return what a lane is called, in exactly so many columns."""
    text = f"  {subject.name}" if node.container else subject.name
    style = Style.PLAIN if node.container else Style.STRONG
    return Span(fitted(safe(text[: 4 * width]), width), style)


def ruled(cells: list[Span], column: int) -> list[Span]:
    """Draw the ruler where cells have room for it."""
    if 0 <= column < len(cells) and not cells[column].text.strip():
        cells[column] = Span(*RULER)
    return cells


def axis_line(window: TimeWindow, width: int, column: int, margin: int) -> StyledLine:
    """Return the axis, ``margin`` columns from the left, with the cursor's column."""
    text = axis(window, width)
    if not 0 <= column < width:
        return (Span(" " * margin + text),)
    return (
        Span(f"{duration(window.span)} "[:margin].rjust(margin), Style.DIM),
        Span(text[:column]),
        Span("▼", Style.STRONG),
        Span(text[column + 1 :]),
    )


def point_line(
    points: LanePoints, point: LanePoint | None, window: TimeWindow, width: int
) -> StyledLine:
    """Return the event that the cursor is nearest to, and what shares its cell."""
    if point is None:
        return (Span("no event of it in this window", Style.DIM),)
    sign, style = SIGNS[point.kind]
    column = window.column(point.at_ns, width)
    others = sum(window.column(other.at_ns, width) == column for other in points.points) - 1
    parts = [
        Span(f"{sign} ", style),
        Span(f"{clock(point.at_ns)} "),
        Span(point.name[:64], Style.STRONG),
        Span(f"  event {point.event}"),
    ]
    if not points.complete:
        parts.append(Span("  with many more: zoom in to see each", Style.WARN))
    elif others:
        parts.append(Span(f"  and {others:,} more in this column", Style.DIM))
    return tuple(parts)


def life_line(subject: Subject, life: Life, until_ns: int) -> StyledLine:
    """Return the lane's life in words."""
    return Span(subject.full_name, Style.STRONG), Span(f"  {life_words(life, until_ns)}")


def legend() -> StyledLine:
    """Return what signs and lines mean."""
    meant = (
        (*SIGNS[PointKind.CREATED], "created"),
        (*SIGNS[PointKind.STARTED], "started"),
        (*SIGNS[PointKind.STOPPED], "stopped"),
        (*SIGNS[PointKind.REMOVED], "removed"),
        (*SIGNS[PointKind.CHANGED], "changed"),
        (*SIGNS[PointKind.PROBLEM], "not ok"),
        (*LINES[Stage.STARTED], "running"),
        (*UNOBSERVED, "gap"),
    )
    parts: list[Span] = []
    for sign, style, word in meant:
        parts += [Span(sign, style), Span(f" {word} ", Style.DIM)]
    return tuple(parts)


def near(points: LanePoints | None, at_ns: int, event: int) -> LanePoint | None:
    """Return the event of this number, if it is there; else the one nearest to a moment."""
    if points is None:
        return None
    for point in points.points if event else ():
        if point.event == event:
            return point
    return nearest(points.points, at_ns)
