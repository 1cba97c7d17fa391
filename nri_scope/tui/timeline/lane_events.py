# SPDX-License-Identifier: Apache-2.0
"""The events of the few lanes and the window of time that are on the screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nri_scope.recorder.filter import Filter
from nri_scope.recorder.reader import Recording
from nri_scope.recorder.subject_queries import points_between
from nri_scope.tui.containers.census import Census, Span
from nri_scope.tui.containers.lives import STAGES
from nri_scope.tui.containers.outline import Node
from nri_scope.tui.timeline.lane_drawing import Point, Window, kind_of

MOST = 2_000
"""Events of one lane that are read; of more, one for each column."""


@dataclass(frozen=True, slots=True)
class Points:
    """The events of one lane in a window, in order of time."""

    points: tuple[Point, ...] = ()
    complete: bool = True
    """False where there are so many that of each column only the first event was read."""


def read_points(
    recording: Recording,
    census: Census,
    lanes: Sequence[Node],
    window: Window,
    width: int,
    where: Filter | None,
) -> dict[Node, Points]:
    """Return the events in ``window``, which is ``width`` columns wide. Raises RecordingError."""
    span = census.between(window.from_ns, window.to_ns - 1)
    return {lane: _of_lane(recording, census, lane, window, span, width, where) for lane in lanes}


def _of_lane(
    recording: Recording,
    census: Census,
    lane: Node,
    window: Window,
    span: Span,
    width: int,
    where: Filter | None,
) -> Points:
    found = _between(recording, lane, window, span, where, MOST + 1)
    if len(found) <= MOST:
        return Points(tuple(sorted(found)))
    first: list[Point] = []
    for column in range(width):
        part = Window(window.start(column, width), window.start(column + 1, width))
        there = census.between(part.from_ns, part.to_ns - 1)
        first += _between(recording, lane, part, there, where, 1)
    return Points(tuple(sorted(first)), complete=False)


def _between(
    recording: Recording,
    lane: Node,
    window: Window,
    span: Span,
    where: Filter | None,
    most: int,
) -> list[Point]:
    found = points_between(
        recording, (lane.pod, lane.container), (window.from_ns, window.to_ns), span, where, most
    )
    return [
        Point(
            one.at_ns,
            one.event,
            kind_of(STAGES.get(one.name, (None,))[0], ok=one.ok, changed=one.changed),
            one.name,
        )
        for one in found
    ]
