# SPDX-License-Identifier: Apache-2.0
"""The events of the few lanes and the window of time that are on the screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nri_scope.recorder.filter import Filter
from nri_scope.recorder.model import Status
from nri_scope.recorder.reader import Recording
from nri_scope.recorder.rows import RowError
from nri_scope.recorder.sound import sound
from nri_scope.tui.model.census import Census, Span
from nri_scope.tui.model.lives import STAGES
from nri_scope.tui.model.timeline import Point, Window, kind_of
from nri_scope.tui.model.tree import Node

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
    """The events in ``window``, which is ``width`` columns wide. Raises RecordingError."""
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
    about = "container = ?" if lane.container else "pod = ? AND container IS NULL"
    text, values = where.to_sql() if where is not None else ("1", ())
    with sound(recording):
        rows = recording.connection.execute(
            "SELECT at_ns, id, event, status, changed != '[]' FROM events WHERE id IN "
            f"(SELECT id FROM event WHERE {about} AND id BETWEEN ? AND ? "
            f"AND at_ns >= ? AND at_ns < ? ORDER BY id) AND ({text}) ORDER BY id LIMIT ?",
            (
                lane.container or lane.pod,
                span.first,
                span.last,
                window.from_ns,
                window.to_ns,
                *values,
                most,
            ),
        )
        names: dict[str, str] = {}
        return [_point(row, names) for row in rows]


def _point(row: tuple[object, ...], names: dict[str, str]) -> Point:
    at_ns, number, event, status, changed = row
    if not (isinstance(at_ns, int) and isinstance(number, int) and isinstance(event, str)):
        raise RowError("an event has values of a wrong type")
    stage = STAGES.get(event)
    kind = kind_of(stage[0] if stage else None, ok=status == Status.OK, changed=bool(changed))
    # Thousands of events have a handful of names.
    return Point(at_ns, number, kind, names.setdefault(event, event))


def next_point(
    recording: Recording, lane: Node, at_event: int, where: Filter | None, *, forwards: bool
) -> tuple[int, int] | None:
    """Number and time of the lane's next or previous event, by number. Raises RecordingError."""
    about = "container = ?" if lane.container else "pod = ? AND container IS NULL"
    text, values = where.to_sql() if where is not None else ("1", ())
    there, order = (">", "ASC") if forwards else ("<", "DESC")
    with sound(recording):
        row = recording.connection.execute(
            f"SELECT id, at_ns FROM events WHERE id IN (SELECT id FROM event WHERE {about} "
            f"AND id {there} ?) AND ({text}) ORDER BY id {order} LIMIT 1",
            (lane.container or lane.pod, at_event, *values),
        ).fetchone()
    if row is None or not (isinstance(row[0], int) and isinstance(row[1], int)):
        return None
    return row[0], row[1]
