# SPDX-License-Identifier: Apache-2.0
"""Errors in the writer's thread are reported, and losses are counted."""

from __future__ import annotations

import stat
import threading
import time
from pathlib import Path

import pytest

from nri_scope.capture.queue import Inbox
from nri_scope.recorder.transactions import TransactionWriter
from nri_scope.recorder.writer import Recorder, WriterLimits
from nri_scope.recording.reading.reader import Recording
from tests.recording.traffic import a_start, lifecycles, record

EVENTS = lifecycles(2)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "r.nriscope.db"


def test_an_error_in_removal_of_old_events_stops_only_the_removal(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tidy(self: TransactionWriter) -> bool:
        raise ValueError("99 is not a valid Kind")

    monkeypatch.setattr(TransactionWriter, "tidy", tidy)
    problems: list[str] = []
    recorder = Recorder.open(
        path, limits=WriterLimits(max_size=1 << 20), on_problem=problems.append
    )
    session = recorder.begin_session(a_start())
    for item in EVENTS:
        recorder.capture(session, item)
        time.sleep(0.001)
    counters = recorder.close()
    assert (counters.recorded, counters.lost) == (len(EVENTS), 0)
    assert problems == ["old events stay: internal error: ValueError: 99 is not a valid Kind"]


def test_the_thread_s_end_is_reported_and_later_events_are_lost(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def done(self: Inbox, entries: object) -> None:
        raise ValueError("oh")

    monkeypatch.setattr(Inbox, "done", done)
    ended = threading.Event()
    problems: list[str] = []

    def on_problem(text: str) -> None:
        problems.append(text)
        ended.set()

    recorder = Recorder.open(path, on_problem=on_problem)
    session = recorder.begin_session(a_start())
    assert ended.wait(30)
    recorder.capture(session, EVENTS[0])
    assert recorder.close().lost == 1
    assert "recording has ended: internal error: ValueError: oh" in problems[0]


def test_events_of_a_blocked_write_are_counted_as_lost(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging, resume = threading.Event(), threading.Event()
    write = TransactionWriter.write

    def hang(self: TransactionWriter, batch: object) -> object:
        hanging.set()
        resume.wait(60)
        return write(self, batch)  # type: ignore[arg-type]

    monkeypatch.setattr(TransactionWriter, "write", hang)
    recorder = Recorder.open(path)
    session = recorder.begin_session(a_start())
    for item in EVENTS:
        recorder.capture(session, item)
    assert hanging.wait(30)
    monkeypatch.setattr("nri_scope.recorder.writer.GRACE_SECONDS", 0.0)
    counters = recorder.close(0.1)
    assert counters.recorded + counters.lost == len(EVENTS)
    assert counters.lost == len(EVENTS)
    resume.set()


def test_a_gap_is_stored_without_a_later_event(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging, resume = threading.Event(), threading.Event()
    write = TransactionWriter.write

    def hang(self: TransactionWriter, batch: object) -> object:
        hanging.set()
        resume.wait(60)
        return write(self, batch)  # type: ignore[arg-type]

    monkeypatch.setattr(TransactionWriter, "write", hang)
    recorder = Recorder.open(path, limits=WriterLimits(queue_bytes=20_000))
    session = recorder.begin_session(a_start())
    assert hanging.wait(30)
    for item in EVENTS * 5:
        recorder.capture(session, item)
    lost = recorder.counters.lost
    assert lost > 0
    resume.set()
    until = time.monotonic() + 30
    gaps: list[int | None] = []
    while not gaps and time.monotonic() < until:
        time.sleep(0.05)
        with Recording.open(path) as recording:
            gaps = [gap.lost for gap in recording.gaps()]
    assert gaps == [lost]
    recorder.close()


def test_a_continued_recording_is_made_private_again(path: Path) -> None:
    record(path, EVENTS)
    path.chmod(0o644)
    record(path, EVENTS)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
