# SPDX-License-Identifier: Apache-2.0
"""Losses on closing a recorder: every event is in the file or counted in one of its gaps."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope.events import CapturedCall
from nri_scope.recorder.transactions import LATE, TransactionWriter
from nri_scope.recorder.writer import Recorder, WriterLimits
from nri_scope.recording.reading.reader import Recording
from nri_scope.share.redacted_entries import SourceRedaction
from nri_scope.share.redaction import Redactor, Rules
from tests.amount import amount
from tests.recording.full_disk import file_size_limit
from tests.recording.traffic import a_start, an_item, lifecycles

EVENTS = lifecycles(3)


def stored_and_lost(path: Path) -> tuple[int, int]:
    """Return the number of events in a file, and the number that its gaps count as lost."""
    with Recording.open(path) as recording:
        events = len(list(recording.events()))
        return events, sum(gap.lost or 0 for gap in recording.gaps())


class Slow(SourceRedaction):
    """Redaction that waits for a semaphore before each event."""

    def __init__(self, steps: threading.Semaphore) -> None:
        super().__init__(Redactor(Rules.DEFAULT, bytes(32)))
        self._steps = steps
        self.begun = threading.Event()

    def redact_call(self, call: CapturedCall) -> CapturedCall:
        self.begun.set()
        self._steps.acquire(timeout=60)
        return super().redact_call(call)


@pytest.mark.parametrize("done", [0, 1, 7, len(EVENTS)])
def test_events_not_redacted_before_the_deadline_become_a_gap(done: int, tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    steps = threading.Semaphore(0)
    slow = Slow(steps)
    recorder = Recorder.open(path, redaction=slow)
    session = recorder.begin_session(a_start())
    for item in EVENTS:
        recorder.capture(session, item)
    recorder.end_session(session, "over", EVENTS[-1].wall_ns)
    assert slow.begun.wait(60)
    if done:
        steps.release(done)
    closing = threading.Thread(target=recorder.close, args=(0.0,))
    closing.start()
    # The deadline has passed, and the current event is not redacted yet.
    while not recorder._is_too_late():
        time.sleep(0.001)
    steps.release(1_000)
    closing.join(60)

    events, lost = stored_and_lost(path)
    assert (events + lost, events >= min(done, 1)) == (len(EVENTS), True)
    assert recorder.counters.lost == lost
    with Recording.open(path) as recording:
        (one,) = recording.sessions()
        assert one.end_reason == "over"
        assert {gap.reason for gap in recording.gaps()} <= {LATE}
        times = [item.wall_ns for item in EVENTS[events:]]
        # One gap for each batch that was too late; together they are all lost events.
        gaps = recording.gaps()
        assert [at for gap in gaps for at in times if gap.from_ns <= at <= gap.to_ns] == times
        assert {at for gap in gaps for at in (gap.from_ns, gap.to_ns)} <= {*times}


def test_on_a_full_disk_lost_events_are_a_gap_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    recorder = Recorder.open(path)
    session = recorder.begin_session(a_start())
    for item in EVENTS:
        recorder.capture(session, item)
    recorder.note(None, 1, "written")
    until = time.monotonic() + 60
    while recorder.counters.recorded < len(EVENTS) and time.monotonic() < until:
        time.sleep(0.01)
    chance = random.Random(1)
    wal = path.with_name(f"{path.name}-wal")
    with file_size_limit(wal.stat().st_size + (128 << 10)):
        for _ in range(40):
            recorder.capture(session, an_item("Unheard", chance.randbytes(16 << 10)))
        counters = recorder.close(timeout=1.0)

    events, lost = stored_and_lost(path)
    assert 0 < lost == counters.lost
    assert events + lost == len(EVENTS) + 40


def test_gaps_of_two_consecutive_failures_are_both_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = TransactionWriter.write
    failing = [True, True]

    def fail(self: TransactionWriter, batch: list[Any]) -> object:
        if any(type(entry) is tuple for entry in batch) and failing:
            failing.pop()
            raise ValueError("oh")
        return write(self, batch)

    monkeypatch.setattr(TransactionWriter, "write", fail)
    monkeypatch.setattr("nri_scope.recorder.writer.BATCH_EVENTS", 3)
    recorder = Recorder.open(tmp_path / "r.db")
    session = recorder.begin_session(a_start())
    for item in EVENTS:
        recorder.capture(session, item)
    recorder.close()

    events, lost = stored_and_lost(tmp_path / "r.db")
    assert events + lost == len(EVENTS) and lost > 3


@pytest.mark.parametrize("error", [MemoryError(), sqlite3.OperationalError("disk is full")])
def test_losses_that_no_gap_can_record_are_reported(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problems: list[str] = []
    recorder = Recorder.open(tmp_path / "r.db", on_problem=problems.append)
    session = recorder.begin_session(a_start())
    recorder.capture(session, EVENTS[0])
    until = time.monotonic() + 60
    while not recorder.counters.recorded and time.monotonic() < until:
        time.sleep(0.01)

    def fail(self: TransactionWriter, batch: list[Any]) -> object:
        raise error

    monkeypatch.setattr(TransactionWriter, "write", fail)
    for item in EVENTS[1:]:
        recorder.capture(session, item)
    counters = recorder.close(timeout=0.2)

    assert (counters.recorded, counters.lost) == (1, len(EVENTS) - 1)
    assert any("the file has no gap for them" in text for text in problems), problems


@settings(max_examples=amount(60, 20), deadline=None)
@given(
    steps=st.lists(
        st.sampled_from(["events", "fail", "full", "wait", "end", "begin"]), max_size=12
    ),
    failures=st.integers(0, 6),
    slow=st.booleans(),
    too_late_after=st.none() | st.integers(0, 40),
    room=st.sampled_from([20_000, 64 << 20]),
    batch=st.sampled_from([2, 500]),
)
def test_every_event_is_stored_or_counted_in_a_gap(
    steps: list[str],
    failures: int,
    slow: bool,
    too_late_after: int | None,
    room: int,
    batch: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("closing") / "r.db"
    write, is_too_late = TransactionWriter.write, Recorder._is_too_late
    deadline_checks = 0

    def fail(self: TransactionWriter, entries: list[Any]) -> object:
        nonlocal failures
        if failures and any(type(entry) is tuple for entry in entries):
            failures -= 1
            kind = sqlite3.OperationalError if failures % 2 else ValueError
            raise kind("database or disk is full")
        return write(self, entries)

    def late(self: Recorder) -> bool:
        nonlocal deadline_checks
        if not self._finishing:
            return False
        deadline_checks += 1
        return is_too_late(self) or (
            too_late_after is not None and deadline_checks > too_late_after
        )

    redaction = SourceRedaction(Redactor(Rules.DEFAULT, bytes(32))) if slow else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionWriter, "write", fail)
        patch.setattr(Recorder, "_is_too_late", late)
        patch.setattr("nri_scope.recorder.writer.BATCH_EVENTS", batch)
        patch.setattr("nri_scope.recorder.writer.MIN_PAUSE_SECONDS", 0.001)
        limits = WriterLimits(queue_bytes=room, batch_seconds=0.001)
        recorder = Recorder.open(path, limits=limits, redaction=redaction)
        session = recorder.begin_session(a_start())
        offered = 0
        for step in steps:
            match step:
                case "begin":
                    session = recorder.begin_session(a_start())
                case "end":
                    recorder.end_session(session, "over", 1)
                    session = recorder.begin_session(a_start())
                case "wait":
                    time.sleep(0.003)
                case _:
                    for item in EVENTS[:11]:
                        recorder.capture(session, item)
                    offered += 11
        counters = recorder.close()

    events, lost = stored_and_lost(path)
    assert (events + lost, counters.recorded, counters.lost) == (offered, events, lost)
