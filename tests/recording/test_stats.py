# SPDX-License-Identifier: Apache-2.0
"""Statistics of small recordings, checked by hand."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nri_scope.recorder.writer import Recorder
from nri_scope.recording.query.stats import (
    RUN,
    SLOWEST,
    GapStats,
    PodStats,
    ResponseTimes,
    Sample,
    Slowest,
    distribution,
    summarise,
    tally,
)
from nri_scope.recording.reading.reader import Recording
from tests.recording.made import SECOND, START, a_gap, at
from tests.recording.recordings import captured, record


def a_sample(
    event: str, seconds: float, took_us: int, status: str = "ok", pod: str = "shop/web"
) -> Sample:
    namespace, _, name = pod.partition("/")
    return Sample(event, namespace, name, at(seconds), took_us * 1000, 100, status)


def test_no_events_have_empty_statistics() -> None:
    stats = tally([])
    assert (stats.count, stats.by_event, stats.by_pod) == (0, (), ())
    assert (stats.took, stats.rate, stats.busiest_ns, stats.first_ns) == (None, None, None, None)
    assert stats.by_status == {"ok": 0, "error": 0, "timeout": 0}


def test_counts_by_event_pod_status_and_second() -> None:
    stats = tally(
        [
            a_sample("Synchronize", 0, 900, pod="/"),
            a_sample("CreateContainer", 10.1, 50),
            a_sample("CreateContainer", 10.9, 70, "error"),
            a_sample("StopContainer", 20, 2_000_000, "timeout", "jobs/batch"),
        ]
    )
    assert stats.count == 4
    assert [(entry.event, entry.count, entry.not_ok) for entry in stats.by_event] == [
        ("CreateContainer", 2, 1),
        ("StopContainer", 1, 1),
        ("Synchronize", 1, 0),
    ]
    assert stats.by_event[0].took == ResponseTimes(50_000, 70_000, 70_000)
    assert stats.by_event[0].wire_bytes == 200
    assert stats.by_pod == (PodStats("shop", "web", 2), PodStats("jobs", "batch", 1))
    assert stats.without_pod == 1
    assert stats.by_status == {"ok": 2, "error": 1, "timeout": 1}
    assert (stats.busiest_ns, stats.busiest_count) == (START + 10 * SECOND, 2)
    assert stats.seconds == 20
    assert stats.rate == pytest.approx(3 / 20)
    assert stats.wire_bytes == 400


def test_rate_needs_at_least_a_second() -> None:
    within = tally([a_sample("CreateContainer", 1, 5), a_sample("CreateContainer", 1.999, 5)])
    assert within.rate is None
    one = tally([a_sample("CreateContainer", 1, 5), a_sample("CreateContainer", 2, 5)])
    assert one.rate == 1


def test_one_event_has_no_rate() -> None:
    assert tally([a_sample("CreateContainer", 1, 5)]).rate is None


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 2**40), min_size=1, max_size=300),
    st.integers(0, 300),
    st.sampled_from((7, RUN)),
)
def test_percentiles_are_values_with_their_share_at_or_below(
    times: list[int], first: int, run: int
) -> None:
    parts = array("q", times[:first]), array("q", times[first:])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nri_scope.recording.query.stats.RUN", run)
        took = ResponseTimes.of(*parts)
    assert took is not None
    assert sorted(time for part in parts for time in part) == sorted(times)
    for value, share in ((took.p50, 0.50), (took.p99, 0.99), (took.max, 1.0)):
        assert value in times
        assert sum(time <= value for time in times) >= share * len(times)
        assert sum(time < value for time in times) < share * len(times)


def test_gaps_with_unknown_loss_are_counted_separately() -> None:
    gaps = [a_gap(1, 0, 1, lost=3), a_gap(2, 2, 3, lost=None), a_gap(3, 4, 5, lost=4)]
    assert GapStats.of(gaps) == GapStats(count=3, lost=7, unknown=1)


def test_statistics_of_a_whole_recording(tmp_path: Path) -> None:
    def more(recorder: Recorder, session: int) -> None:
        recorder.note_gap(session, START, START + SECOND, "the disk is full", 5)

    path = record(tmp_path / "x.nriscope.db", more=more)
    with Recording.open(path) as recording:
        summary = summarise(recording)
    expected = [item for plugin, item in captured() if plugin == "00-probe-a"]
    assert summary.stats.count == len(expected)
    assert summary.stats.wire_bytes == sum(len(item.request) for item in expected)
    assert summary.stats.took is not None
    assert summary.stats.took.max == max(item.took_ns for item in expected)
    assert summary.file_bytes == path.stat().st_size
    assert summary.ratio == pytest.approx(summary.file_bytes / summary.stats.wire_bytes)
    document = summary.record()
    assert document["events"] == len(expected)
    assert document["gaps"] == {
        "count": 1,
        "lost": 5,
        "with_unknown_loss": 0,
        "left_out": 0,
        "list": [
            {
                "from": "2025-11-20T21:18:00.000000Z",
                "to": "2025-11-20T21:18:01.000000Z",
                "session": 1,
                "reason": "the disk is full",
                "lost": 5,
            }
        ],
    }


_TIMES = st.lists(st.integers(0, 10**6) | st.integers(0, 10**10) | st.integers(0, (1 << 63) - 1))


@given(_TIMES, _TIMES, st.integers(6, 12))
@example([0], [10**18], 6)
def test_ranges_of_a_distribution_are_adjacent_and_count_every_time(
    one: list[int], other: list[int], most: int
) -> None:
    ranges = distribution([array("q", one), array("q", other)], most)
    times = one + other
    assert len(ranges) <= most and bool(ranges) == bool(times)
    for each in ranges:
        inside = [ns for ns in times if each.from_ns <= ns and (each.to_ns or 1 << 64) > ns]
        assert len(inside) == each.times
    assert sum(each.times for each in ranges) == len(times)
    assert [each.to_ns for each in ranges[:-1]] == [each.from_ns for each in ranges[1:]]
    assert not ranges or (ranges[0].times and ranges[-1].times)


def test_ranges_of_a_distribution_are_as_narrow_as_fits() -> None:
    few = distribution([array("q", [1_500, 2_000, 4_999, 5_000])])
    assert few == [(1_000, 2_000, 1), (2_000, 5_000, 2), (5_000, 10_000, 1)]
    many = distribution([array("q", [999, 1_000, 3 * 10**9])])
    assert (many[0], many[1], many[-1]) == (
        (0, 1_000, 1), (1_000, 10_000, 1), (10**9, 10**10, 1),
    )  # fmt: skip


@given(st.lists(st.integers(0, 12)))
def test_slowest_keeps_the_longest_times_and_the_first_of_equal_ones(times: list[int]) -> None:
    found = Slowest()
    for event, ns in enumerate(times, 1):
        found.add(ns, event)
    expected = sorted(enumerate(times, 1), key=lambda each: (-each[1], each[0]))
    assert found.result() == [(ns, event) for event, ns in expected[:SLOWEST]]
