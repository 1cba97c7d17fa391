# SPDX-License-Identifier: Apache-2.0
"""Drawing of lanes in a window of time, as pure functions.

A time window is divided into equal columns. A lane is the life of one pod or container: its state
is drawn as a line, its events as signs on the line.
"""

from __future__ import annotations

import time
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

from nri_scope.events import Problem
from nri_scope.nri.events import EventStage

from ..containers.census import Life, phases
from ..text.styled_line import Span, Style, StyledLine

MIN_SPAN = 10_000
"""Minimum length of a window, in ns. Exceeds the number of columns, so that each column has its own
time."""
_MARGIN = 50
"""Divisor of the whole time that gives the margin at both ends."""

# -- the axis -----------------------------------------------------------------------------------

_SECOND = 10**9
_DAY = 86_400 * _SECOND
_STEPS = (
    *(part * 10**power for power in range(9) for part in (1, 2, 5)),
    *(part * _SECOND for part in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800)),
    *(part * 3600 * _SECOND for part in (1, 2, 3, 6, 12)),
    *(part * _DAY for part in (1, 2, 7, 14, 28, 91, 182, 365, 3_650, 36_500)),
)


TICK = ("╵", Style.PLAIN)
"""Sign of a labelled time on the axis."""


class AxisTick(NamedTuple):
    """A labelled column of the axis."""

    column: int
    label: str


def ticks(window: TimeWindow, width: int) -> tuple[AxisTick, ...]:
    """Return ticks at round local times, as dense as their labels allow."""
    # Use the UTC offset at the start of the window, ignoring changes to or from summer time.
    zone = time.localtime(window.from_ns // _SECOND).tm_gmtoff * _SECOND
    for step in _STEPS:
        if step * width < window.span * 4:
            continue
        candidates: list[AxisTick] = []
        at = -(-(window.from_ns + zone) // step) * step - zone
        while at < window.to_ns:
            candidates.append(AxisTick(window.column(at, width), _label(at, step)))
            at += step
        is_legible = all(a.column + len(a.label) + 1 < b.column for a, b in pairwise(candidates))
        if is_legible:
            return tuple(tick for tick in candidates if tick.column + len(tick.label) < width)
    return ()


def _label(at_ns: int, step: int) -> str:
    seconds, rest = divmod(at_ns, _SECOND)
    local = time.localtime(seconds)
    if step >= _DAY:
        return time.strftime("%Y-%m-%d", local)
    if step >= 60 * _SECOND:
        return time.strftime("%H:%M", local)
    text = time.strftime("%H:%M:%S", local)
    digits = 0
    while digits < 9 and step % 10 ** (9 - digits):
        digits += 1
    return f"{text}.{rest:09d}"[: len(text) + 1 + digits] if digits else text


def axis(window: TimeWindow, width: int, cursor: int = -1) -> str:
    """Return the ticks as one line: ``╵`` at the column, followed by the label.

    ``cursor``: column of the cursor, whose sign must not stand inside a label.
    """
    line = [" "] * width
    for column, label in ticks(window, width):
        text = TICK[0] if column < cursor <= column + len(label) else f"{TICK[0]}{label}"
        line[column : column + len(text)] = text
    return "".join(line[:width])


# -- lanes --------------------------------------------------------------------------------------


class PointKind(IntEnum):
    """The kind of a point. If several share a cell, the one with the highest value is drawn."""

    OTHER = 0
    CREATED = 1
    STARTED = 2
    STOPPED = 3
    REMOVED = 4
    CHANGED = 5
    """An event that changed its container, as evidence shows."""
    SLOW = 6
    FAILED = 7
    """An event with this `Problem`."""


SIGNS: dict[PointKind, tuple[str, Style]] = {
    PointKind.OTHER: ("•", Style.PLAIN),
    PointKind.CHANGED: ("◆", Style.NOTE),
    PointKind.CREATED: ("+", Style.GOOD),
    PointKind.STARTED: ("►", Style.GOOD),
    PointKind.STOPPED: ("■", Style.WARN),
    PointKind.REMOVED: ("×", Style.DIM),
    PointKind.SLOW: ("~", Style.WARN),
    PointKind.FAILED: ("!", Style.BAD),
}
"""Signs of points, distinguishable without colours."""
LINES: dict[EventStage, tuple[str, Style]] = {
    EventStage.LISTED: ("─", Style.DIM),
    EventStage.CREATING: ("─", Style.DIM),
    EventStage.CREATED: ("─", Style.DIM),
    EventStage.STARTED: ("━", Style.GOOD),
    EventStage.STOPPED: ("┈", Style.DIM),
    EventStage.REMOVED: (" ", Style.PLAIN),
}
"""Line characters of states."""
UNOBSERVED = ("░", Style.WARN)
"""Sign of unobserved time, regardless of the state."""


class LanePoint(NamedTuple):
    """An event in a lane."""

    at_ns: int
    event: int
    kind: PointKind
    name: str = ""
    """Name of the event."""


def kind_of(stage: EventStage, problem: str, *, changed: bool) -> PointKind:
    """Return the kind of an event; ``stage``: the stage it leads to, if any."""
    if problem:
        return PointKind.FAILED if problem == Problem.FAILED else PointKind.SLOW
    if changed:
        return PointKind.CHANGED
    # The sign does not show whether a creation succeeded.
    return PointKind[max(stage, EventStage.CREATED).name] if stage else PointKind.OTHER


class TimeInterval(NamedTuple):
    """Interval from ``from_ns`` to ``to_ns`` (exclusive)."""

    from_ns: int
    to_ns: int


def lane_cells(
    life: Life,
    points: Iterable[LanePoint],
    window: TimeWindow,
    width: int,
    *,
    until_ns: int,
    blind: Sequence[TimeInterval] = (),
) -> list[Span]:
    """Return the ``width`` cells of a lane. Cells with several events are drawn bold, but problems
    keep their colour.
    """
    blank = Span(" ")
    cells = [blank] * width
    for stage, from_ns, to_ns in phases(life, until_ns):
        if stage is not EventStage.REMOVED:
            _fill(cells, window, from_ns, to_ns, Span(*LINES[stage]))
    end_ns = min(life.end_ns, until_ns)
    if life.is_unknown:
        blind = (*blind, TimeInterval(life.known_until_ns(until_ns), until_ns))
    for from_ns, to_ns in blind:
        begin, end = max(from_ns, life.first_ns or from_ns), min(to_ns, end_ns)
        if begin < end:
            _fill(cells, window, begin, end, Span(*UNOBSERVED))
    drawn: dict[int, PointKind] = {}
    for at_ns, _, kind, _ in points:
        column = window.column(at_ns, width)
        if 0 <= column < width:
            shown = max(kind, drawn.get(column, kind))
            sign, style = SIGNS[shown]
            is_bold = column in drawn and shown < PointKind.SLOW
            cells[column] = Span(sign, Style.STRONG if is_bold else style)
            drawn[column] = shown
    return cells


def _fill(cells: list[Span], window: TimeWindow, from_ns: int, to_ns: int, cell: Span) -> None:
    width = len(cells)
    first = max(0, window.column(from_ns, width))
    last = min(width - 1, window.column(to_ns - 1, width))
    if first <= last:
        cells[first : last + 1] = [cell] * (last + 1 - first)


def joined_cells(cells: Iterable[Span]) -> StyledLine:
    """Join cells to a line, merging adjacent cells of the same style."""
    parts: list[Span] = []
    for cell in cells:
        if parts and parts[-1].style == cell.style:
            parts[-1] = Span(parts[-1].text + cell.text, cell.style)
        else:
            parts.append(cell)
    return tuple(parts)


def lanes_within(lanes: Iterable[tuple[int, int, int, int]], window: TimeWindow) -> array[int]:
    """Return the indices of the lanes with content in the window.

    ``lanes``: in order, each with pod, container (0 for the pod itself), start and end time. A
    pod's lane is included if one of its containers' lanes is.
    """
    indices = array("I")
    pod = -1
    for number, (_, container, first_ns, end_ns) in enumerate(lanes):
        here = first_ns < window.to_ns and end_ns >= window.from_ns
        if not container:
            pod = -1 if here else number
        elif here and pod >= 0:
            indices.append(pod)
            pod = -1
        if here:
            indices.append(number)
    return indices


def nearest(points: Sequence[LanePoint], at_ns: int) -> LanePoint | None:
    """Return the point nearest to ``at_ns``, or the earlier of two. ``points`` ascend in time."""
    at = bisect_left(points, at_ns, key=lambda point: point.at_ns)
    near = points[max(0, at - 1) : at + 1]
    return min(near, key=lambda point: abs(point.at_ns - at_ns), default=None)


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """The drawn time, from ``from_ns`` to ``to_ns`` (exclusive)."""

    from_ns: int
    to_ns: int

    @classmethod
    def around(cls, first_ns: int, last_ns: int) -> TimeWindow:
        """Return a window that contains ``first_ns`` to ``last_ns`` (inclusive), with a margin."""
        margin = max((last_ns - first_ns) // _MARGIN, MIN_SPAN)
        return cls(first_ns - margin, last_ns + margin)

    @property
    def span(self) -> int:
        """Length in ns."""
        return self.to_ns - self.from_ns

    def column(self, at_ns: int, width: int) -> int:
        """Return the column of a time; negative or at least ``width`` if outside the window."""
        return (at_ns - self.from_ns) * width // self.span

    def start(self, column: int, width: int) -> int:
        """Return the start time of a column."""
        return self.from_ns - (-column * self.span // width)

    def middle(self, column: int, width: int) -> int:
        """Return the time in the middle of a column."""
        return (self.start(column, width) + self.start(column + 1, width)) // 2

    def zoomed(self, extent: TimeWindow, around_ns: int, *, closer: bool) -> TimeWindow:
        """Halve (``closer``) or double the window within ``extent``, around ``around_ns``."""
        span = max(MIN_SPAN, self.span // 2) if closer else min(extent.span, self.span * 2)
        return TimeWindow(
            from_ns := around_ns - (around_ns - self.from_ns) * span // self.span,
            from_ns + span,
        ).within(extent)

    def moved(self, extent: TimeWindow, by_ns: int) -> TimeWindow:
        """Return the window moved by ``by_ns``, within ``extent``."""
        return TimeWindow(self.from_ns + by_ns, self.to_ns + by_ns).within(extent)

    def moved_to(self, extent: TimeWindow, at_ns: int) -> TimeWindow:
        """Return the window moved within ``extent`` to show a time outside.

        It is moved by half its length to a time shortly after it, for orientation; otherwise, the
        time is in its middle.
        """
        near = self.to_ns <= at_ns < self.to_ns + self.span
        moved = self.moved(extent, self.span // 2 if near else 0)
        return (
            moved
            if moved.shows(at_ns)
            else self.moved(extent, at_ns - self.from_ns - self.span // 2)
        )

    def rounded(self) -> TimeWindow:
        """Return the window with limits of four digits of its length, at least as long."""
        step = 10 ** max(0, len(str(self.span)) - 4)
        return TimeWindow(max(0, self.from_ns // step * step), -(-self.to_ns // step) * step)

    def within(self, extent: TimeWindow) -> TimeWindow:
        """Return the window moved into ``extent``, and shortened if longer."""
        span = min(self.span, extent.span)
        from_ns = min(max(self.from_ns, extent.from_ns), extent.to_ns - span)
        return TimeWindow(from_ns, from_ns + span)

    def joined(self, other: TimeWindow) -> TimeWindow:
        """Return the window from the first start to the last end of both."""
        return TimeWindow(min(self.from_ns, other.from_ns), max(self.to_ns, other.to_ns))

    def shows(self, at_ns: int) -> bool:
        """Return whether a time is in the window."""
        return self.from_ns <= at_ns < self.to_ns
