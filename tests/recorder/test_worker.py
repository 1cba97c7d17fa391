# SPDX-License-Identifier: Apache-2.0
"""Whatever happens in the writer's thread, nobody is told that all is well when it is not."""

from __future__ import annotations

import stat
import threading
import time
from pathlib import Path

import pytest

from nri_scope.recorder.transactions import TransactionWriter
from nri_scope.recorder.worker import Worker
from nri_scope.recorder.writer import Recorder, WriterLimits
from nri_scope.recording.reader import Recording
from tests.recording.traffic import a_start, lifecycles, record

EVENTS = lifecycles(2)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "r.nriscope.db"


def test_failure_in_the_rings_work_ends_that_work_only(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tidy(self: TransactionWriter) -> bool:
        raise ValueError("99 is not a valid Kind")

    monkeypatch.setattr(TransactionWriter, "tidy", tidy)
    told: list[str] = []
    recorder = Recorder.open(path, limits=WriterLimits(max_size=1 << 20), on_problem=told.append)
    session = recorder.begin_session(a_start())
    for item in EVENTS:
        recorder.capture(session, item)
        time.sleep(0.001)
    counters = recorder.close()
    assert (counters.recorded, counters.lost) == (len(EVENTS), 0)
    assert told == ["old events stay: internal error: ValueError: 99 is not a valid Kind"]


def test_end_of_the_thread_is_told_and_what_comes_then_is_lost(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(self: Worker, entries: object) -> None:
        raise ValueError("oh")

    monkeypatch.setattr(Worker, "_write", write)
    ended = threading.Event()
    told: list[str] = []

    def on_problem(text: str) -> None:
        told.append(text)
        ended.set()

    recorder = Recorder.open(path, on_problem=on_problem)
    session = recorder.begin_session(a_start())
    assert ended.wait(30)
    recorder.capture(session, EVENTS[0])
    assert recorder.close().lost == 1
    assert "recording has ended: internal error: ValueError: oh" in told[0]


def test_events_of_a_write_that_hangs_are_counted_as_lost(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging, go_on = threading.Event(), threading.Event()
    write = TransactionWriter.write

    def hang(self: TransactionWriter, batch: object) -> object:
        hanging.set()
        go_on.wait(60)
        return write(self, batch)  # type: ignore[arg-type]

    monkeypatch.setattr(TransactionWriter, "write", hang)
    recorder = Recorder.open(path)
    session = recorder.begin_session(a_start())
    for item in EVENTS:
        recorder.capture(session, item)
    assert hanging.wait(30)
    monkeypatch.setattr(Worker, "join", lambda self, timeout: False)
    counters = recorder.close(0.1)
    assert counters.recorded + counters.lost == len(EVENTS)
    assert counters.lost == len(EVENTS)
    go_on.set()


def test_what_was_lost_is_in_the_file_though_nothing_comes_after_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging, go_on = threading.Event(), threading.Event()
    write = TransactionWriter.write

    def hang(self: TransactionWriter, batch: object) -> object:
        hanging.set()
        go_on.wait(60)
        return write(self, batch)  # type: ignore[arg-type]

    monkeypatch.setattr(TransactionWriter, "write", hang)
    recorder = Recorder.open(path, limits=WriterLimits(queue_bytes=20_000))
    session = recorder.begin_session(a_start())
    assert hanging.wait(30)
    for item in EVENTS * 5:
        recorder.capture(session, item)
    lost = recorder.counters.lost
    assert lost > 0
    go_on.set()
    until = time.monotonic() + 30
    gaps: list[int | None] = []
    while not gaps and time.monotonic() < until:
        time.sleep(0.05)
        with Recording.open(path) as recording:
            gaps = [gap.lost for gap in recording.gaps()]
    assert gaps == [lost]
    recorder.close()


def test_continued_recording_is_private_again(path: Path) -> None:
    record(path, EVENTS)
    path.chmod(0o644)
    record(path, EVENTS)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
