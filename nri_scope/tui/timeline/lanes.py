# SPDX-License-Identifier: Apache-2.0
"""Lanes of a timeline, stored compactly, and events of the visible lanes."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nri_scope.filter import Filter, TimeSpan
from nri_scope.recording.query.subject_queries import points_between
from nri_scope.recording.reading.reader import Recording
from nri_scope.text.escape import safe
from nri_scope.text.quantities import clock, duration
from nri_scope.text.short_names import short_pod

from ..actions import key_of
from ..containers.census import NEVER_ENDS, STATES, Census, Life, life_words, stages_of
from ..containers.census_board import SubjectFilter
from ..containers.outline import TreeNode
from ..containers.outline_lines import SubjectDetails
from ..text.styled_line import Span, Style, StyledLine, fitted
from .lane_drawing import (
    LINES,
    SIGNS,
    TICK,
    UNOBSERVED,
    LanePoint,
    PointKind,
    TimeWindow,
    axis,
    kind_of,
    nearest,
)

MAX_EVENTS = 2_000
"""Maximum number of events read for one lane; of a lane with more, one per column is read."""


@dataclass(frozen=True, slots=True)
class LanePoints:
    """Events of one lane in a window, in order of time."""

    points: tuple[LanePoint, ...] = ()
    complete: bool = True
    """Whether all events were read; otherwise, only the first of each column."""


def read_points(
    recording: Recording,
    lanes: Sequence[TreeNode],
    window: TimeWindow,
    width: int,
    where: Filter | None,
) -> dict[TreeNode, LanePoints]:
    """Read the events of lanes in ``window``, ``width`` columns wide. Raises RecordingError."""
    return {lane: _of_lane(recording, lane, window, width, where) for lane in lanes}


def _of_lane(
    recording: Recording, lane: TreeNode, window: TimeWindow, width: int, where: Filter | None
) -> LanePoints:
    what = (lane.pod, lane.container), (window.from_ns, window.to_ns), where
    events = points_between(recording, *what, MAX_EVENTS + 1)
    complete = len(events) <= MAX_EVENTS
    if not complete:
        events = points_between(recording, *what, width, width)
    stages = {name: max(stages_of(recording, name)) for name in {event.name for event in events}}
    points = (
        LanePoint(
            event.at_ns,
            event.event,
            kind_of(stages[event.name], event.problem, changed=event.changed),
            event.name,
        )
        for event in events
    )
    return LanePoints(tuple(sorted(points)), complete)


RULER = ("╎", Style.DIM)
"""Sign in blank cells of the cursor's column."""
CURSOR = ("▼", Style.STRONG)
"""Sign on the axis in the cursor's column."""


class TimelineLanes:
    """The pods and containers of a timeline, in order, with start and end times."""

    def __init__(self, newest: int = 0) -> None:
        """Create no lanes yet. ``newest``: the largest key of a pod or container."""
        code = "I" if newest < 1 << 32 else "q"
        self.pods = array(code)
        self.containers = array(code)
        """Keys of containers; 0 for a pod's own lane."""
        self.first_ns = array("q")
        """Start times; 0 if unknown."""
        self.end_ns = array("q")
        """End times; `NEVER_ENDS` if not observed."""
        self.matched = True
        """False if the filter matched no event of any lane."""

    @classmethod
    def of(cls, census: Census, chosen: SubjectFilter) -> TimelineLanes:
        """Create a lane for each pod and container of ``census`` that passes ``chosen``; for all if
        its filter matched none.
        """
        lanes = cls(max(census.pods.newest, census.containers.newest))
        lanes._add(census, chosen)
        if not len(lanes) and chosen.where is not None:
            lanes.matched = False
            lanes._add(census, SubjectFilter(about=chosen.about))
        return lanes

    def _add(self, census: Census, chosen: SubjectFilter) -> None:
        for pod, container in chosen.subjects(census):
            self.pods.append(pod)
            self.containers.append(container)
            lives, key = (census.containers, container) if container else (census.pods, pod)
            first, end = lives.span(key)
            self.first_ns.append(first)
            self.end_ns.append(end)

    def __len__(self) -> int:
        return len(self.pods)

    def __iter__(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield pod, container, start and end of each lane, for `lanes_within`."""
        return zip(self.pods, self.containers, self.first_ns, self.end_ns, strict=True)

    def node(self, number: int) -> TreeNode:
        """Return the pod or container of the lane at an index."""
        return TreeNode(self.pods[number], self.containers[number])

    def number_of(self, node: TreeNode) -> int | None:
        """Return the index of a pod's or container's lane; None if it has none."""
        for number, (pod, container) in enumerate(zip(self.pods, self.containers, strict=True)):
            if pod == node.pod and container == node.container:
                return number
        return None

    def ends(self, until_ns: int) -> TimeSpan | None:
        """Return the first start and the last end; None without known starts."""
        first = min(filter(None, self.first_ns), default=0)
        if not first:
            return None
        last = max(
            end if end != NEVER_ENDS else until_ns
            for end, began in zip(self.end_ns, self.first_ns, strict=True)
            if began
        )
        return TimeSpan(first, max(first, last))


def label(node: TreeNode, subject: SubjectDetails, width: int) -> Span:
    """Return the name of a lane, fitted to ``width`` columns."""
    indent = "  " if node.container else ""
    name = short_pod(safe(subject.name[: 4 * width]), width - len(indent))
    style = Style.PLAIN if node.container else Style.STRONG
    return Span(fitted(indent + name, width), style)


def ruled(cells: list[Span], column: int) -> list[Span]:
    """Draw the ruler at ``column`` if its cell is blank."""
    if 0 <= column < len(cells) and not cells[column].text.strip():
        cells[column] = Span(*RULER)
    return cells


def axis_line(window: TimeWindow, width: int, column: int, margin: int) -> StyledLine:
    """Return the axis, indented by ``margin`` columns, with a sign at the cursor's ``column``."""
    text = axis(window, width, column)
    if not 0 <= column < width:
        return (Span(" " * margin + text),)
    return (
        Span(_span_words(window, margin), Style.DIM),
        Span(text[:column]),
        Span(*CURSOR),
        Span(text[column + 1 :]),
    )


def _span_words(window: TimeWindow, margin: int) -> str:
    """Return the length of the shown time, in ``margin`` columns."""
    span = duration(window.span)
    words = f"{span} shown "
    return (words if len(words) <= margin else f"{span} ")[:margin].rjust(margin)


def point_line(points: LanePoints, point: LanePoint, window: TimeWindow, width: int) -> StyledLine:
    """Describe ``point``, with the number of other events in its column."""
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
        parts.append(Span("  and many more in this column: zoom in to see them", Style.WARN))
    elif others:
        parts.append(Span(f"  and {others:,} more in this column", Style.DIM))
    return tuple(parts)


def no_event_words(
    kind: str, *, matched: bool, is_filtered: bool, has_lives: bool, is_whole: bool
) -> str:
    """Say that the cursor's lane has no event in the window, and how to see others.

    ``kind``: pod or container.
    """
    if not matched:
        matching = "matches the filter" if is_filtered else "is marked"
        return (
            f"no event of a pod or container {matching}; {key_of('clear_filter')} shows all events"
        )
    words = f"no event of this {kind}{'' if is_whole else ' in this window'}"
    if not has_lives:
        words = "no pod or container in this window"
    if not is_whole:
        words += f"; {key_of('zoom_all')} shows the whole time range"
    return words


def life_line(subject: SubjectDetails, life: Life, until_ns: int) -> StyledLine:
    """Describe a pod's or container's lifetime."""
    return Span(subject.full_name, Style.STRONG), Span(f"  {life_words(life, until_ns)}")


def legend() -> tuple[StyledLine, StyledLine]:
    """Return the legend: a line for events, and one for states and other signs."""
    events = [(SIGNS[kind], kind.name.lower()) for kind in PointKind if kind]
    states: dict[tuple[str, Style], list[str]] = {}
    for stage, drawn in LINES.items():
        states.setdefault(drawn, []).append(STATES[stage])
    others = [(drawn, "/".join(words)) for drawn, words in states.items() if drawn[0].strip()]
    return (
        _legend_line("events", [*events, (SIGNS[PointKind.OTHER], "other")]),
        _legend_line(
            "states",
            [*others, (UNOBSERVED, "gap"), (CURSOR, ""), (RULER, "cursor"), (TICK, "time")],
        ),
    )


def _legend_line(title: str, signs: Sequence[tuple[tuple[str, Style], str]]) -> StyledLine:
    parts = [Span(f"{title}: ", Style.DIM)]
    for (sign, style), word in signs:
        parts += [Span(sign, style), Span(f"{word} " if word else "", Style.DIM)]
    return tuple(parts)


def near(points: LanePoints | None, at_ns: int, event: int) -> LanePoint | None:
    """Return the point of ``event`` if ``points`` has it, else the nearest to ``at_ns``."""
    if points is None:
        return None
    for point in points.points if event else ():
        if point.event == event:
            return point
    return nearest(points.points, at_ns)
