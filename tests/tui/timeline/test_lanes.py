# SPDX-License-Identifier: Apache-2.0
"""Events for the lanes of a timeline."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope.filter import parse
from nri_scope.recording.reading.reader import Recording
from nri_scope.tui.containers.census import Census
from nri_scope.tui.containers.outline import TreeNode
from nri_scope.tui.timeline import lanes as points
from nri_scope.tui.timeline.lane_drawing import PointKind, TimeWindow
from nri_scope.tui.timeline.lanes import read_points
from tests.replay.recordings import START_NS, container, life, recording, run_pod

SECOND = 10**9
POD, APP = TreeNode(1), TreeNode(1, 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    events = [run_pod(), *life(container(), updated=True)]
    return recording(tmp_path / "r.nriscope.db", events)


def census_of(reading: Recording) -> Census:
    census = Census()
    while census.step(reading):
        pass
    return census


def test_a_lane_has_the_events_of_its_window(path: Path) -> None:
    with Recording.open(path) as reading:
        census = census_of(reading)
        window = TimeWindow.around(census.first_ns, census.last_ns)
        found = read_points(reading, [POD, APP], window, 80, None)
        assert [point.event for point in found[POD].points] == [3]
        assert [point.kind for point in found[APP].points] == [
            PointKind.CREATED,
            PointKind.CREATED,
            PointKind.STARTED,
            PointKind.STARTED,
            PointKind.OTHER,
            PointKind.OTHER,
            PointKind.STOPPED,
            PointKind.REMOVED,
        ]
        window = TimeWindow(START_NS + 5 * SECOND, START_NS + 7 * SECOND)
        some = read_points(reading, [APP], window, 80, None)[APP]
        assert [point.event for point in some.points] == [6, 7] and some.complete


def test_lane_has_only_matching_events(path: Path) -> None:
    with Recording.open(path) as reading:
        census = census_of(reading)
        window = TimeWindow.around(census.first_ns, census.last_ns)
        where = parse("event:UpdateContainer")
        found = read_points(reading, [POD, APP], window, 80, where)
        assert [point.event for point in found[APP].points] == [8] and not found[POD].points


def test_lane_with_too_many_events_has_the_first_of_each_column(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(points, "MAX_EVENTS", 3)
    with Recording.open(path) as reading:
        window = TimeWindow(START_NS + 3 * SECOND, START_NS + 11 * SECOND)
        found = read_points(reading, [APP], window, 4, None)[APP]
        assert [point.event for point in found.points] == [4, 6, 8, 10]
        assert not found.complete
