# SPDX-License-Identifier: Apache-2.0
"""The time axis: columns, ticks, lanes and their cells."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nri_scope.events import Problem, Session
from nri_scope.nri.events import EventStage
from nri_scope.tui.containers.census import NEVER_ENDS, Life, life_words, phases
from nri_scope.tui.text.styled_line import Span, Style, text_of
from nri_scope.tui.timeline.lane_drawing import (
    LINES,
    MIN_SPAN,
    SIGNS,
    UNOBSERVED,
    LanePoint,
    PointKind,
    TimeInterval,
    TimeWindow,
    axis,
    joined_cells,
    kind_of,
    lane_cells,
    lanes_within,
    nearest,
    ticks,
)

NOW = 1_700_000_000 * 10**9
SECOND = 10**9

moments = st.integers(NOW - 10**15, NOW + 10**15)
spans = st.one_of(st.integers(MIN_SPAN, MIN_SPAN * 10), st.integers(MIN_SPAN, 10**17))
windows = st.builds(lambda at, span: TimeWindow(at, at + span), moments, spans)
widths = st.integers(1, 400)


@given(windows, widths, st.data())
def test_column_of_a_moment_contains_it(
    window: TimeWindow, width: int, data: st.DataObject
) -> None:
    at_ns = data.draw(st.integers(window.from_ns, window.to_ns - 1))
    column = window.column(at_ns, width)
    assert 0 <= column < width
    assert window.start(column, width) <= at_ns < window.start(column + 1, width)


@given(windows, widths, st.data())
def test_start_and_middle_of_a_column_map_back_to_it(
    window: TimeWindow, width: int, data: st.DataObject
) -> None:
    column = data.draw(st.integers(0, width - 1))
    assert window.column(window.start(column, width), width) == column
    assert window.column(window.middle(column, width), width) == column


@given(windows, widths, st.data(), st.booleans())
def test_zooming_keeps_the_cursor_visible_and_the_window_in_range(
    window: TimeWindow, width: int, data: st.DataObject, closer: bool
) -> None:
    whole = TimeWindow(
        window.from_ns - data.draw(st.integers(0, 10**12)),
        window.to_ns + data.draw(st.integers(0, 10**12)),
    )
    at_ns = data.draw(st.integers(window.from_ns, window.to_ns - 1))
    zoomed = window.zoomed(whole, at_ns, closer=closer)
    assert zoomed.shows(at_ns)
    assert whole.from_ns <= zoomed.from_ns and zoomed.to_ns <= whole.to_ns
    assert MIN_SPAN <= zoomed.span <= whole.span
    assert zoomed.span <= window.span if closer else zoomed.span >= window.span


@given(windows, st.integers(-(10**16), 10**16), st.integers(0, 10**12))
def test_moving_keeps_the_scale_and_stops_at_the_ends(
    window: TimeWindow, by: int, room: int
) -> None:
    whole = TimeWindow(window.from_ns - room, window.to_ns + room)
    moved = window.moved(whole, by)
    assert moved.span == window.span
    assert whole.from_ns <= moved.from_ns and moved.to_ns <= whole.to_ns


@given(windows, st.integers(20, 400))
def test_ticks_ascend_and_their_labels_do_not_touch(window: TimeWindow, width: int) -> None:
    found = ticks(window, width)
    for before, after in pairwise(found):
        assert before.column + len(before.label) + 1 < after.column
    assert all(column >= 0 and column + len(label) < width for column, label in found)
    assert len(axis(window, width)) == width
    for cursor in range(width):
        line = axis(window, width, cursor)
        for column, label in found:
            is_covered = column < cursor <= column + len(label)
            assert line[column : column + 1 + len(label)].strip() == (
                "╵" if is_covered else f"╵{label}"
            )
    assert len({tick.label for tick in found}) == len(found) or window.span > 86_400 * SECOND


@pytest.mark.parametrize(
    ("span", "labels"),
    [
        (60 * SECOND, ["22:13:20", "22:13:30", "22:13:40", "22:13:50"]),
        (SECOND, ["22:13:20.0", "22:13:20.2", "22:13:20.4", "22:13:20.6", "22:13:20.8"]),
        (86_400 * SECOND, ["00:00", "03:00", "06:00"]),
    ],
)
def test_ticks_are_at_round_times(
    span: int, labels: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    try:
        found = [tick.label for tick in ticks(TimeWindow(NOW, NOW + span), 80)]
        assert found[: len(labels)] == labels
    finally:
        monkeypatch.undo()
        time.tzset()


def life(created: int = 0, started: int = 0, stopped: int = 0, removed: int = 0) -> Life:
    """Return a life with times in seconds after `NOW`; 0 is not observed."""
    times = [NOW + at * SECOND if at else 0 for at in (created, started, stopped, removed)]
    seen = [at for at in times if at]
    return Life(
        created_ns=times[0],
        started_ns=times[1],
        stopped_ns=times[2],
        removed_ns=times[3],
        first_ns=min(seen, default=NOW),
        last_ns=max(seen, default=0),
        events=len(seen),
    )


WINDOW = TimeWindow(NOW, NOW + 10 * SECOND)


def drawn(
    one: Life,
    *points: tuple[float, PointKind],
    until: int = 10,
    blind: tuple[TimeInterval, ...] = (),
) -> str:
    made = [LanePoint(NOW + int(at * SECOND), 1, kind) for at, kind in points]
    cells = lane_cells(one, made, WINDOW, 10, until_ns=NOW + until * SECOND, blind=blind)
    assert len(cells) == 10
    return "".join(cell.text for cell in cells)


def test_a_life_is_drawn_to_scale() -> None:
    assert drawn(life(1, 3, 6, 8)) == " ──━━━┈┈  "
    assert (
        drawn(
            life(1, 3, 6, 8),
            (1, PointKind.CREATED),
            (3, PointKind.STARTED),
            (6, PointKind.STOPPED),
            (8, PointKind.REMOVED),
        )
        == " +─►━━■┈× "
    )


@pytest.mark.parametrize("end", range(-15, 0))
def test_the_part_of_a_life_before_the_window_is_not_drawn(end: int) -> None:
    assert drawn(life(-20, end, 3)) == "━━━┈┈┈┈┈┈┈"


def test_open_life_is_drawn_until_the_end_of_observation() -> None:
    assert drawn(life(0, 3), until=7) == "   ━━━━   "
    assert drawn(life(), until=4) == "────      "


def test_cell_with_several_events_shows_the_most_serious_in_its_style() -> None:
    points = [
        LanePoint(NOW + at, 1, kind)
        for at, kind in enumerate([PointKind.CREATED, PointKind.FAILED, PointKind.STARTED])
    ]
    cells = lane_cells(life(), points, WINDOW, 10, until_ns=NOW)
    assert cells[0] == Span("!", Style.BAD)
    alone = lane_cells(life(), points[:1], WINDOW, 10, until_ns=NOW)
    assert alone[0] == Span("+", SIGNS[PointKind.CREATED][1])


def test_unobserved_time_is_drawn_during_a_life() -> None:
    blind = (TimeInterval(NOW, NOW + 4 * SECOND), TimeInterval(NOW + 7 * SECOND, NOW + 9 * SECOND))
    assert drawn(life(2, 3, 6, 8), blind=blind) == "  ░░━━┈░  "
    assert drawn(life(2, 3, 6, 8), (3, PointKind.STARTED), blind=blind) == "  ░►━━┈░  "


def test_events_outside_of_the_window_are_not_drawn() -> None:
    assert drawn(life(), (-1, PointKind.FAILED), (10, PointKind.FAILED), until=0).strip() == ""


@given(
    st.lists(st.tuples(st.integers(-5, 15), st.sampled_from(PointKind)), max_size=20),
    st.lists(st.integers(0, 12), min_size=4, max_size=4),
    widths,
)
def test_lanes_are_as_wide_as_the_window_and_show_every_event_in_it(
    events: list[tuple[int, PointKind]], times: list[int], width: int
) -> None:
    points = [LanePoint(NOW + at * SECOND, 1, kind) for at, kind in events]
    cells = lane_cells(life(*times), points, WINDOW, width, until_ns=NOW + 10 * SECOND)
    assert len(cells) == width and all(len(cell.text) == 1 for cell in cells)
    assert text_of(joined_cells(cells)) == "".join(cell.text for cell in cells)
    for at_ns, _, kind, _ in points:
        if WINDOW.shows(at_ns):
            here = [p.kind for p in points if WINDOW.column(p.at_ns, width) == WINDOW.column(
                at_ns, width) and WINDOW.shows(p.at_ns)]  # fmt: skip
            assert cells[WINDOW.column(at_ns, width)].text == SIGNS[max(here)][0]
            assert max(here) >= kind


@given(st.lists(st.integers(0, 12), min_size=4, max_size=4), st.integers(0, 15))
def test_phases_are_contiguous_and_ordered(times: list[int], until: int) -> None:
    one = life(*times)
    found = list(phases(one, NOW + until * SECOND))
    for (_, _, to_ns), (_, from_ns, _) in pairwise(found):
        assert to_ns == from_ns
    assert all(from_ns < to_ns for _, from_ns, to_ns in found)
    assert [stage for stage, _, _ in found] == sorted(stage for stage, _, _ in found)


def test_signs_and_lines_differ_without_colours() -> None:
    texts = [text for text, _ in SIGNS.values()]
    assert len(set(texts)) == len(texts)
    lines = {
        LINES[stage][0] for stage in (EventStage.CREATED, EventStage.STARTED, EventStage.STOPPED)
    }
    assert len(lines) == 3 and not {UNOBSERVED[0], *lines} & set(texts)


def test_failed_event_is_a_problem_in_every_stage() -> None:
    assert kind_of(EventStage.STARTED, Problem.FAILED, changed=True) is PointKind.FAILED
    assert kind_of(EventStage.STARTED, Problem.SLOW, changed=True) is PointKind.SLOW
    assert kind_of(EventStage.STARTED, "", changed=True) is PointKind.CHANGED
    assert kind_of(EventStage.STARTED, "", changed=False) is PointKind.STARTED
    assert kind_of(EventStage.LISTED, "", changed=False) is PointKind.OTHER


def test_lanes_without_anything_in_the_window_are_omitted() -> None:
    lanes = [
        (1, 0, 0, 5),
        (1, 1, 0, 5),
        (2, 0, 0, 5),
        (2, 2, 0, 15),
        (2, 3, 25, NEVER_ENDS),
        (3, 0, 12, NEVER_ENDS),
        (3, 4, 30, NEVER_ENDS),
    ]
    # The second pod itself is gone; its lane names the pod of the container.
    assert list(lanes_within(lanes, TimeWindow(10, 20))) == [2, 3, 5]


@given(st.lists(st.integers(0, 100), max_size=10), st.integers(-5, 105))
def test_nearest_event_has_the_smallest_distance(times: list[int], at_ns: int) -> None:
    points = [LanePoint(at, number, PointKind.OTHER) for number, at in enumerate(sorted(times))]
    found = nearest(points, at_ns)
    assume(points)
    assert found is not None
    assert abs(found.at_ns - at_ns) == min(abs(at - at_ns) for at in times)
    assert nearest([], at_ns) is None


def session(started: int, ended: int | None) -> Session:
    return Session(
        1,
        "logger",
        "nri-scope",
        "00",
        "containerd",
        "2",
        "0.8.0",
        True,
        0,
        0,
        0,
        started,
        ended,
        "",
    )


def test_life_is_described_in_words() -> None:
    assert (
        life_words(life(1, 3, 6, 8), NEVER_ENDS)
        == "created 2.00s, running 3.00s, stopped 2.00s, removed"
    )
    assert life_words(life(0, 3), NOW + 7 * SECOND) == "running 4.00s"
    assert life_words(life(), NOW + 7 * SECOND) == "existed 7.00s"


def test_life_is_unknown_after_its_last_event_if_later_ones_were_left_out() -> None:
    running = life(1, 2)._replace(last_ns=NOW + 5 * SECOND)
    part, until_ns = running._replace(left_out_ns=NOW + 6 * SECOND), NOW + 8 * SECOND
    words = "created 1.00s, running 3.00s, then unknown (later events left out)"
    assert life_words(part, until_ns) == words
    assert part.age_ns(until_ns) == 4 * SECOND
    assert drawn(part, until=8) == " ─━━━░░░  "
    for known in (
        running._replace(left_out_ns=NOW + 5 * SECOND),
        part._replace(removed_ns=NOW + 5 * SECOND),
    ):
        assert "unknown" not in life_words(known, until_ns)
