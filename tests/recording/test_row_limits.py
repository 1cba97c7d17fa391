# SPDX-License-Identifier: Apache-2.0
"""Readers accept every recording, however many names a runtime sends."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from sqlite3 import connect

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import CapturedCall
from nri_scope.recorder.shared_rows import SubjectTables
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.file import row_limits
from nri_scope.recording.reading.reader import Recording
from tests.amount import amount
from tests.in_memory import MEMORY
from tests.recording.traffic import NOW, a_start, an_item

MOST = 20


@pytest.fixture(autouse=True)
def few() -> Iterator[None]:
    # Applies to all examples of a test, in writers and readers.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(row_limits, "MAX_NAMED", MOST)
        patched.setattr(row_limits, "MAX_CHARACTERS", 400 * MOST)
        patched.setattr(row_limits, "MAX_SESSIONS", MOST)
        yield


def _created(number: int, name: str = "") -> CapturedCall:
    pod = api.PodSandbox(id=f"pod-{number}", name=name, namespace="shop")
    container = api.Container(id=f"c-{number}", pod_sandbox_id=pod.id, name="app")
    request = api.CreateContainerRequest(pod=pod, container=container)
    return an_item("CreateContainer", request, wall_ns=NOW + number)


def _record(path: Path, items: list[CapturedCall]) -> tuple[int, int]:
    recorder = Recorder.open(path)
    session = recorder.begin_session(a_start())
    for item in items:
        recorder.capture(session, item)
    recorder.end_session(session, "over", NOW + 10**9)
    counters = recorder.close()
    return counters.recorded, counters.lost


def test_readers_accept_more_than_writers_write() -> None:
    assert row_limits.MAX_GAPS + 40_000 < row_limits.MAX_ROWS
    assert row_limits.MAX_WORDS + (4 << 20) < row_limits.MAX_TEXT


def test_pods_beyond_the_limit_are_one_counted_gap(tmp_path: Path) -> None:
    path = tmp_path / "r.nriscope.db"
    assert _record(path, [_created(number) for number in range(3 * MOST)]) == (MOST, 2 * MOST)
    with Recording.open(path) as recording:
        assert len(list(recording.events())) == MOST
        (gap,) = recording.gaps()
    assert (gap.lost, gap.from_ns, gap.to_ns) == (2 * MOST, NOW + MOST, NOW + 3 * MOST - 1)
    assert "too many pods" in gap.reason


def test_known_pods_are_recorded_after_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "r.nriscope.db"
    items = [_created(number) for number in range(2 * MOST)]
    recorded, _ = _record(path, [*items, *items[:5]])
    assert recorded == MOST + 5


def test_the_pod_limit_applies_to_the_file_across_recorders(tmp_path: Path) -> None:
    path = tmp_path / "r.nriscope.db"
    for first in range(0, 4 * MOST, MOST):
        _record(path, [_created(first + number) for number in range(MOST - 3)])
    with Recording.open(path) as recording:
        assert len(recording.pods()) == MOST
        assert sum(gap.lost or 0 for gap in recording.gaps()) == 4 * (MOST - 3) - MOST


def test_removed_pods_make_room_for_new_ones(tmp_path: Path) -> None:
    path = tmp_path / "r.nriscope.db"
    _record(path, [_created(number) for number in range(MOST)])
    with closing(connect(path)) as connection:
        known = SubjectTables(connection)
        with pytest.raises(row_limits.LimitReached):
            known.pod(api.PodSandbox(id="another"))
        connection.execute("DELETE FROM pod WHERE key = 1")
        known.invalidate()
        assert known.pod(api.PodSandbox(id="another")) is not None


def test_gaps_beyond_the_limit_are_merged_into_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_limits, "MAX_GAPS", 5)
    path = tmp_path / "r.nriscope.db"
    for turn in range(2):
        recorder = Recorder.open(path)
        session = recorder.begin_session(a_start(started_ns=NOW + turn * 10**9))
        for number in range(10):
            at_ns = NOW + turn * 10**9 + number
            recorder.note_gap(session, at_ns, at_ns + 1, "lost", 2)
        recorder.end_session(session, "over", NOW + turn * 10**9 + 100)
        recorder.close()
    with Recording.open(path) as recording:
        gaps = [gap for gap in recording.gaps() if gap.id > 0]
    assert [gap.reason for gap in gaps] == ["lost"] * 5 + [row_limits.TOO_MANY_GAPS]
    assert sum(gap.lost or 0 for gap in gaps) == 40


_TEXTS = st.text("ab", max_size=3).map(lambda text: text * 300)


@settings(max_examples=amount(40, 20), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 60), _TEXTS), max_size=60),
    st.lists(st.text("xyz", min_size=1, max_size=4), max_size=30),
    st.lists(_TEXTS, max_size=12),
)
def test_any_recorded_names_are_within_the_readers_limits(
    created: list[tuple[int, str]], methods: list[str], names: list[str]
) -> None:
    items = [_created(number, name) for number, name in created] + [
        an_item(method, b"x") for method in methods
    ]
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / "r.nriscope.db"
        recorded, lost = _record(path, items)
        assert recorded + lost == len(items)
        recorder = Recorder.open(path)
        for name in names:
            recorder.end_session(recorder.begin_session(a_start(f"10-{name}")), name, NOW)
        recorder.close()
        with Recording.open(path) as recording:
            assert len(list(recording.events())) == recorded
            assert len(recording.sessions()) <= MOST
            counted = sum(gap.lost or 0 for gap in recording.gaps())
        assert counted == lost
