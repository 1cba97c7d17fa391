# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.capture.sink import Begin, End
from nri_scope.events import FILTERED, RING_REMOVED, Gap, Note, UserMark
from nri_scope.recorder import transactions
from nri_scope.recorder.ring import MIN_SIZE, Ring
from nri_scope.recorder.writer import Recorder, WriterLimits
from nri_scope.recording.file.writable_file import wal_of, wal_status
from nri_scope.recording.marks.sidecar import marks_in
from nri_scope.recording.reading.reader import Recording
from tests.amount import amount, sampled
from tests.in_memory import MEMORY
from tests.recorder.ring_recording import Written, noisy, size_of
from tests.recording.marks.recordings import put
from tests.recording.traffic import (
    NOW,
    a_container,
    a_pod,
    a_start,
    a_synchronize,
    an_item,
    lifecycle,
    lifecycles,
    record,
)

pytestmark = pytest.mark.beyond_core

_SIZE = MIN_SIZE


@pytest.fixture
def ring(tmp_path: Path) -> Written:
    written = Written(tmp_path / "r.db", Ring(_SIZE, None))
    written.write(Begin(1, a_start()))
    return written


def test_the_file_stays_within_its_size_and_keeps_the_newest_events(ring: Written) -> None:
    for number in range(120):
        ring.send(noisy(number))
    ring.close()
    assert ring.largest <= _SIZE
    assert ring.writing.removed > 0
    ring.check()
    with Recording.open(ring.path) as recording:
        remaining = len(list(recording.events()))
        # The ring does not remove much more than necessary.
        assert path_size(ring.path) > _SIZE // 4
        (gap,) = recording.gaps()
    assert remaining + ring.writing.removed == len(ring.sent)
    assert (gap.reason, gap.lost, gap.session) == (RING_REMOVED, ring.writing.removed, None)
    removed = ring.sent[: ring.writing.removed]
    assert (gap.from_ns, gap.to_ns) == (removed[0].wall_ns, removed[-1].wall_ns)


def test_marks_are_removed_with_their_events(ring: Written) -> None:
    for number in range(60):
        ring.send(noisy(number))
    ring.close()
    with Recording.open(ring.path) as recording:
        events = list(recording.events())
    marks = [UserMark(event.id, event.at_ns) for event in (events[0], events[-1])]
    put(ring.path, marks)
    again = Written(ring.path, Ring(_SIZE, None))
    again.write(Begin(2, a_start()))
    for number in range(60, 120):
        again.send(noisy(number), session=2)
        if again.writing.removed > len(events):
            break
        with Recording.open(ring.path) as recording:
            remaining_ids = {event.id for event in recording.events()}
            assert {mark.event for mark in marks_in(recording)} <= remaining_ids
    again.close()
    with closing(sqlite3.connect(ring.path)) as connection:
        assert connection.execute("SELECT count(*) FROM mark").fetchone() == (0,)


def path_size(path: Path) -> int:
    return path.stat().st_size


def test_the_recorder_removes_old_events_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    items = [item for number in range(120) for item in noisy(number)]
    record(path, items, limits=WriterLimits(max_size=_SIZE))
    assert size_of(path) <= _SIZE
    with Recording.open(path) as recording:
        assert next(recording.events()).id > 1
        assert max(event.id for event in recording.events()) == len(items)


@pytest.mark.exhaustive
@pytest.mark.parametrize("size", [300, 3000, 30_000])
def test_a_burst_larger_than_the_limit_leaves_the_newest_events(tmp_path: Path, size: int) -> None:
    path = tmp_path / "r.db"
    burst = [item for number in range(40) for item in noisy(number, max(size, 3000))]
    end = [item for number in range(40, 60) for item in noisy(number, size)]
    record(path, burst + end, limits=WriterLimits(max_size=_SIZE))
    assert _SIZE // 4 < size_of(path) <= _SIZE
    with Recording.open(path) as recording:
        events = list(recording.events())
        newest = recording.reply(events[-1].id)
    assert newest == end[-1].reply


@pytest.mark.exhaustive
def test_a_file_that_is_too_large_shrinks(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    record(path, [item for number in range(150) for item in noisy(number)])
    before = path.stat().st_size
    assert before > _SIZE
    record(path, lifecycles(1), limits=WriterLimits(max_size=_SIZE))
    # The first recorder wrote a single stretch, which is removed as a whole.
    assert path.stat().st_size < before // 4
    with Recording.open(path) as recording:
        assert len(list(recording.events())) == 11
        assert [session.id for session in recording.sessions()] == [2]


@pytest.mark.exhaustive
def test_an_open_session_keeps_its_initial_state(ring: Written) -> None:
    state_request = a_synchronize(5)
    ring.send([an_item("Synchronize", state_request)])
    for number in range(120):
        ring.send(noisy(number))
    ring.close()
    assert ring.writing.removed > 500
    with Recording.open(ring.path) as recording:
        state = recording.state(1)
        names = {pod.name for pod in recording.pods()}
    assert state.complete
    assert [api.PodSandbox.FromString(pod) for pod in state.pods] == list(state_request.pods)
    assert [api.Container.FromString(c) for c in state.containers] == list(state_request.containers)
    assert {pod.name for pod in state_request.pods} <= names
    ring.check()


@pytest.mark.exhaustive
def test_a_closed_session_is_removed_with_its_last_event_gaps_and_notes(ring: Written) -> None:
    ring.send([an_item("Synchronize", a_synchronize(3))])
    ring.write(Gap(0, 1, NOW, NOW + 1, "an old gap", 1), Note(0, 1, NOW, "an old note"))
    ring.write(Note(0, 1, NOW, FILTERED))
    ring.write(End(1, "over", NOW))
    ring.write(Begin(2, a_start()), Note(0, 2, NOW + 10**15, "a young note"))
    # As old as what is removed, about a session that goes on.
    ring.write(Note(0, 2, NOW, FILTERED))
    for number in range(120):
        ring.send(noisy(number), session=2)
    ring.close()
    with Recording.open(ring.path) as recording:
        assert [session.id for session in recording.sessions()] == [2]
        assert [gap.reason for gap in recording.gaps()] == [RING_REMOVED]
        assert [note.text for note in recording.notes()] == [FILTERED, "a young note"]
        assert recording.connection.execute("SELECT count(*) FROM state").fetchone() == (0,)
    ring.check()


@pytest.mark.exhaustive
def test_a_removed_container_that_returns_has_its_names(ring: Written) -> None:
    old = lifecycles(1, first=1000)
    ring.send(old)
    for number in range(100):
        ring.send(noisy(number))
    ring.send(old)
    ring.close()
    with Recording.open(ring.path) as recording:
        assert [event.pod for event in recording.events(last=11)] == ["web-1000"] * 11
    ring.check()


def test_event_numbers_are_not_reused(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    for expected in (1, 12):
        ring = Written(path, Ring(None, 1e-9))
        session = ring.writing.next_session
        ring.write(Begin(session, a_start()))
        ring.writing.write([(session, item) for item in lifecycle(0)])
        with Recording.open(path) as recording:
            assert next(recording.events()).id == expected
        while ring.writing.tidy():
            pass
        ring.close()
        with Recording.open(path) as recording:
            assert list(recording.events()) == []


def test_old_events_are_removed_without_new_ones(tmp_path: Path) -> None:
    ring = Written(tmp_path / "r.db", Ring(None, 3600))
    ring.write(Begin(1, a_start()))
    now = time.time_ns()
    two_hours_ago = [item._replace(wall_ns=now - 7200 * 10**9) for item in lifecycle(1)]
    ring.send(two_hours_ago)
    with Recording.open(ring.path) as recording:
        assert list(recording.events()) == []
    ring.send([item._replace(wall_ns=now) for item in lifecycle(2)])
    with Recording.open(ring.path) as recording:
        assert [event.id for event in recording.events()] == list(range(12, 23))
    ring.close()


def test_the_recorder_wakes_to_remove_old_events(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    recorder = Recorder.open(path, limits=WriterLimits(max_age_seconds=1.5))
    session = recorder.begin_session(a_start())
    for item in lifecycle(1):
        recorder.capture(session, item._replace(wall_ns=time.time_ns()))
    with Recording.open(path) as recording:
        _wait_until(lambda: recorder.counters.recorded == 11)
        _wait_until(lambda: recorder.counters.removed == 11)
        assert list(recording.events()) == []
    recorder.close()


def _wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(3000):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("the condition was not met in time")


def test_a_state_larger_than_the_ring_does_not_cause_a_busy_loop(tmp_path: Path) -> None:
    ring = Written(tmp_path / "r.db", Ring(_SIZE, None))
    ring.write(Begin(1, a_start()))
    chance = random.Random(1)
    state_request = api.SynchronizeRequest()
    for number in range(60):
        pod = state_request.pods.add()
        pod.CopyFrom(a_pod(number))
        pod.annotations["noise"] = chance.randbytes(8000).hex()
    ring.send([an_item("Synchronize", state_request)])
    for number in range(40):
        ring.send(noisy(number))
    ring.close()
    with Recording.open(ring.path) as recording:
        assert len(recording.state(1).pods) == 60


@pytest.mark.parametrize("steps", sampled([1, 3, 8, 21]))
def test_a_recorder_killed_while_removing_leaves_a_valid_recording(
    tmp_path: Path, steps: int
) -> None:
    ring = Written(tmp_path / "r.db", Ring(_SIZE, None))
    ring.write(Begin(1, a_start()))
    ring.send([an_item("Synchronize", a_synchronize(3))])
    writing = ring.writing
    number = 0
    while not writing.tidy():
        items = noisy(number)
        ring.sent += items
        writing.write([(1, item) for item in items])
        number += 1
    for _ in range(steps):
        writing.tidy()
    copy = tmp_path / "killed.db"
    for kind in ("", "-wal"):
        copy.with_name(copy.name + kind).write_bytes(
            ring.path.with_name(ring.path.name + kind).read_bytes()
        )
    ring.close()
    with Recording.open(copy) as recording:
        events = list(recording.events())
        assert events[-1].id == len(ring.sent)
        for event in events:
            assert recording.request(event.id)
        assert len(recording.state(1).pods) == 3
    # The next recorder finishes the removal.
    again = Written(copy, Ring(_SIZE, None))
    again.write(Begin(2, a_start()))
    for number in range(120):
        again.write(*((2, item) for item in noisy(number)))
    again.close()
    assert size_of(copy) <= _SIZE
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_readers_do_not_block_the_ring(ring: Written) -> None:
    with Recording.open(ring.path) as recording:
        read_ids: list[int] = []
        events: Callable[[], list[int]] = lambda: [  # noqa: E731
            event.id for event in recording.events(after_id=read_ids[-1] if read_ids else 0)
        ]
        for number in range(100):
            ring.send(noisy(number))
            read_ids += events()
        assert read_ids == list(range(1, len(ring.sent) + 1))
    ring.close()
    assert ring.largest <= _SIZE
    ring.check()


_steps = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 30)),
        st.tuples(st.just("sync"), st.integers(0, 4)),
        st.just(("begin", 0)),
        st.just(("end", 0)),
    ),
    min_size=10,
    max_size=60,
)


@settings(max_examples=amount(15, 15), deadline=None)
@given(_steps)
def test_the_remaining_recording_is_valid_after_any_sequence_of_steps(
    steps: list[tuple[str, int]],
) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        ring = Written(Path(name) / "r.db", Ring(_SIZE, None))
        session = 1
        ring.write(Begin(1, a_start()))
        is_open = True
        for step, number in steps:
            if step == "begin" and not is_open:
                session += 1
                ring.write(Begin(session, a_start()))
                is_open = True
            elif step == "end" and is_open:
                ring.write(End(session, "over", NOW))
                is_open = False
            elif step == "sync" and is_open:
                ring.send([an_item("Synchronize", a_synchronize(number))], session)
            elif step == "send" and is_open:
                items = [item for n in range(4) for item in noisy(number * 10 + n)]
                ring.send(items, session)
        ring.close()
        assert ring.largest <= _SIZE
        ring.check()


def test_a_pod_stays_as_long_as_one_of_its_containers(ring: Written) -> None:
    pod = a_pod(5000)
    one, two = a_container(pod, "one"), a_container(pod, "two")
    ring.send([an_item("StopContainer", api.StopContainerRequest(pod=pod, container=one))])
    for number in range(60):
        ring.send(noisy(number))
    ring.send([an_item("StopContainer", api.StopContainerRequest(pod=pod, container=two))])
    for number in range(20):
        ring.send(noisy(number + 1000))
    ring.close()
    ring.check()
    with Recording.open(ring.path) as recording:
        assert [c.pod and c.pod.name for c in recording.containers() if c.name == "two"] == [
            pod.name
        ]


def test_a_recorder_closes_while_it_still_removes_events(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    record(path, [item for number in range(150) for item in noisy(number)])
    recorder = Recorder.open(path, limits=WriterLimits(max_size=_SIZE))
    session = recorder.begin_session(a_start())
    recorder.capture(session, lifecycles(1)[0])
    counters = recorder.close()
    assert counters.recorded == 1
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_the_log_is_moved_into_the_file_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "LOG_BYTES", 100_000)
    path = tmp_path / "r.db"
    recorder = Recorder.open(path, limits=WriterLimits(batch_seconds=0.001))
    session = recorder.begin_session(a_start())
    for number in range(150):
        items = noisy(number)
        for item in items:
            recorder.capture(session, item)
        while recorder.counters.recorded < (number + 1) * len(items):
            time.sleep(0.001)
    assert 0 < wal_status(wal_of(path))[0] < 300_000 < path.stat().st_size
    recorder.close()
