# SPDX-License-Identifier: Apache-2.0
"""A recording of a runtime that repeats Configure can still be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope.recorder.writer import Recorder
from nri_scope.recording.file import row_limits
from nri_scope.recording.reading.reader import Recording
from tests.recording.traffic import NOW, a_start, an_item

MOST = 50


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_limits, "MAX_SESSIONS", MOST)


def _sessions(recorder: Recorder, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        session = recorder.begin_session(a_start(started_ns=NOW + number * 1000))
        recorder.capture(session, an_item("Configure", wall_ns=NOW + number * 1000))
        recorder.end_session(session, "the runtime configured it anew", NOW + number * 1000 + 1)


def test_readers_accept_the_maximum_number_of_sessions() -> None:
    assert row_limits.TOO_MANY_SESSIONS.count("100,000") == 1
    # There are as many gaps between sessions as sessions.
    assert row_limits.MAX_ROWS > 100_000 * 2


def test_sessions_beyond_the_limit_are_one_counted_gap(tmp_path: Path) -> None:
    path = tmp_path / "r.nriscope.db"
    recorder = Recorder.open(path)
    _sessions(recorder, MOST + 200)
    counters = recorder.close()
    assert (counters.recorded, counters.lost, counters.gaps) == (MOST, 200, 1)
    with Recording.open(path) as recording:
        assert len(recording.sessions()) == MOST
        assert len(list(recording.events())) == MOST
        (gap,) = [gap for gap in recording.gaps() if gap.id > 0]
    assert (gap.session, gap.lost, gap.reason) == (None, 200, row_limits.TOO_MANY_SESSIONS)
    assert (gap.from_ns, gap.to_ns) == (NOW + MOST * 1000, NOW + (MOST + 199) * 1000)


def test_the_session_limit_applies_to_the_file_across_recorders(tmp_path: Path) -> None:
    path = tmp_path / "r.nriscope.db"
    for turn in range(3):
        recorder = Recorder.open(path)
        _sessions(recorder, MOST // 2 + 5, turn * 1000)
        recorder.close()
    with Recording.open(path) as recording:
        assert len(recording.sessions()) == MOST
        lost = sum(gap.lost or 0 for gap in recording.gaps() if gap.id > 0)
    assert lost == 3 * (MOST // 2 + 5) - MOST


def test_an_open_session_continues_after_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "r.nriscope.db"
    recorder = Recorder.open(path)
    _sessions(recorder, MOST - 1)
    session = recorder.begin_session(a_start(started_ns=NOW + 10**9))
    _sessions(recorder, 5, 10**6)
    recorder.capture(session, an_item("RunPodSandbox", wall_ns=NOW + 2 * 10**9))
    recorder.end_session(session, "over", NOW + 3 * 10**9)
    recorder.close()
    with Recording.open(path) as recording:
        assert [event.method for event in recording.events()][-1] == "RunPodSandbox"
        assert recording.sessions()[-1].end_reason == "over"
