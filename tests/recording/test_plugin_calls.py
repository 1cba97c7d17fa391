# SPDX-License-Identifier: Apache-2.0
"""Calls of plugins by the runtime's metrics, in a recording."""

from __future__ import annotations

from pathlib import Path

from nri_scope.entries import CallsByMetrics
from nri_scope.nri.plugin_metrics import CallCounts
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.file.schema import STARTS_MAX
from nri_scope.recording.reading.plugin_calls import by_plugin, measured_times, plugin_calls
from nri_scope.recording.reading.reader import Recording
from tests.recording.traffic import NOW, a_start, an_item

STOP = "StopContainer"


def written(path: Path, *entries: CallsByMetrics) -> Path:
    recorder = Recorder.open(path)
    for entry in entries:
        recorder.put_control(entry)
    recorder.close()
    return path


def test_a_newer_reading_replaces_the_older_one(tmp_path: Path) -> None:
    path = written(
        tmp_path / "r.db",
        CallsByMetrics(10, 20, (("10-a", STOP, 1, 0, 5),)),
        CallsByMetrics(10, 30, (("10-a", STOP, 3, 1, 9),)),
    )
    with Recording.open(path) as recording:
        (one,) = plugin_calls(recording)
    assert (one.since_ns, one.until_ns, one.counts) == (10, 30, CallCounts(3, 1, 9))


def test_calls_before_and_after_a_restart_are_added(tmp_path: Path) -> None:
    path = written(
        tmp_path / "r.db",
        CallsByMetrics(10, 20, (("10-a", STOP, 1, 0, 5), ("10-a", "Synchronize", 1, 0, 1))),
        CallsByMetrics(20, 30, (("10-a", STOP, 3, 1, 7),)),
    )
    with Recording.open(path) as recording:
        times = measured_times(recording)
    assert [(time.operation, time.calls, time.mean_ns) for time in times] == [
        (STOP, 4, 3),
        ("Synchronize", 1, 1),
    ]
    (sum_of_all,) = by_plugin(times)
    assert (sum_of_all.calls, sum_of_all.errors, sum_of_all.took_ns) == (5, 1, 13)


def test_calls_recorded_between_two_spans_of_readings_do_not_count(tmp_path: Path) -> None:
    recorder = Recorder.open(tmp_path / "r.db")
    session = recorder.begin_session(a_start("10-a"))
    for at in range(100):
        recorder.capture(session, an_item(wall_ns=NOW + at))
    recorder.end_session(session, "over", NOW + 100)
    for since, until in ((10, 19), (15, 24), (80, 84)):
        calls = (("10-a", "RunPodSandbox", 1, 0, 5),)
        recorder.put_control(CallsByMetrics(NOW + since, NOW + until, calls))
    recorder.close()
    with Recording.open(tmp_path / "r.db") as recording:
        (one,) = measured_times(recording)
    assert (one.calls, one.recorded, one.recorded_mean_ns) == (3, 15 + 5, 33_000)


def test_a_runtime_that_restarts_for_ever_fills_no_disk(tmp_path: Path) -> None:
    path = written(
        tmp_path / "r.db",
        *(CallsByMetrics(at, at + 1, (("10-a", STOP, 1, 0, 5),)) for at in range(2 * STARTS_MAX)),
    )
    with Recording.open(path) as recording:
        starts = [call.since_ns for call in plugin_calls(recording)]
    assert starts == [*range(STARTS_MAX, 2 * STARTS_MAX)]


def test_a_recording_without_the_table_has_none(tmp_path: Path) -> None:
    path = written(tmp_path / "r.db")
    with Recording.open(path) as recording:
        assert measured_times(recording) == []
