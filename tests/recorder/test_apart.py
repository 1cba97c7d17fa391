# SPDX-License-Identifier: Apache-2.0
"""A writer in a process of its own does what one in a thread does, and tells when it cannot."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nri_scope.errors import NriScopeError, RecordingError, UsageError
from nri_scope.recorder.filter import parse
from nri_scope.recorder.model import Captured, Event
from nri_scope.recorder.reader import Recording
from nri_scope.recorder.writer import Recorder, WriterLimits
from tests.recorder.traffic import a_start, lifecycle

PATIENCE = 30.0


def writers_of(pid: int) -> list[int]:
    """Processes that write for ``pid``."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [
        int(child)
        for child in children
        if b"nri_scope.recorder.process" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


def events_in(path: Path) -> list[str]:
    with Recording.open(path) as recording:
        return [event.event for event in recording.events()]


def test_records_as_a_thread_does(tmp_path: Path) -> None:
    items = list(lifecycle(1))
    in_thread, apart = tmp_path / "thread.db", tmp_path / "apart.db"
    for recorder in (Recorder.open(in_thread), Recorder.open_apart(apart)):
        session = recorder.begin_session(a_start())
        for item in items:
            recorder.capture(session, item)
        recorder.note_gap(session, 1, 2, "a gap", 3)
        recorder.note(session, 1, "a note")
        recorder.end_session(session, "over", 5)
        counters = recorder.close()
        assert (counters.recorded, counters.lost, counters.gaps) == (len(items), 3, 1)
    with Recording.open(in_thread) as one, Recording.open(apart) as other:
        assert list(one.events()) == list(other.events())
        assert one.gaps() == other.gaps()
        assert one.notes() == other.notes()
        for event in one.events():
            assert one.request(event.id) == other.request(event.id)


def test_filters_and_tells_what_it_stored(tmp_path: Path) -> None:
    told: list[str] = []

    def tell(event: Event, item: Captured) -> None:
        told.append(f"{threading.current_thread().name}: {event.event}")

    recorder = Recorder.open_apart(
        tmp_path / "r.db", where=parse("event:CreateContainer"), on_event=tell
    )
    session = recorder.begin_session(a_start())
    items = list(lifecycle(1))
    for item in items:
        recorder.capture(session, item)
    counters = recorder.close()
    assert events_in(tmp_path / "r.db") == ["CreateContainer"]
    assert (counters.recorded, counters.filtered) == (1, len(items) - 1)
    assert told == ["nri-scope-listener: CreateContainer"]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda path: path.mkdir(), RecordingError),
        (lambda path: path.write_text("somebody's notes"), RecordingError),
    ],
)
def test_refuses_what_a_thread_refuses(
    tmp_path: Path, make: object, error: type[NriScopeError]
) -> None:
    path = tmp_path / "r.db"
    assert callable(make)
    make(path)
    with pytest.raises(error) as of_thread:
        Recorder.open(path)
    with pytest.raises(error) as of_process:
        Recorder.open_apart(path)
    assert str(of_process.value) == str(of_thread.value)
    assert writers_of(os.getpid()) == []


def test_refuses_limits_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        Recorder.open_apart(tmp_path / "r.db", limits=WriterLimits(max_size=10))
    assert not (tmp_path / "r.db").exists()


def test_tells_when_its_process_was_killed_and_counts_what_is_lost(tmp_path: Path) -> None:
    problems: list[str] = []
    said = threading.Event()

    def hear(text: str) -> None:
        problems.append(text)
        said.set()

    recorder = Recorder.open_apart(tmp_path / "r.db", on_problem=hear)
    session = recorder.begin_session(a_start())
    (writer,) = writers_of(os.getpid())
    os.kill(writer, signal.SIGKILL)
    assert said.wait(PATIENCE)
    assert problems == [
        f"{tmp_path / 'r.db'}: recording has ended: the writer's process was killed by SIGKILL"
    ]
    items = list(lifecycle(1))
    for item in items:
        recorder.capture(session, item)
    assert recorder.close().lost == len(items)


def test_signals_of_a_terminal_do_not_end_it(tmp_path: Path) -> None:
    recorder = Recorder.open_apart(tmp_path / "r.db")
    session = recorder.begin_session(a_start())
    (writer,) = writers_of(os.getpid())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(writer, number)
    for item in lifecycle(1):
        recorder.capture(session, item)
    assert recorder.close().lost == 0
    assert len(events_in(tmp_path / "r.db")) == len(list(lifecycle(1)))


_KILLED = """
import os, signal, sys, time
from nri_scope.recorder.writer import Recorder
from tests.recorder.test_apart import writers_of
from tests.recorder.traffic import a_start, lifecycle

recorder = Recorder.open_apart(sys.argv[1])
session = recorder.begin_session(a_start())
(writer,) = writers_of(os.getpid())
os.kill(writer, signal.SIGSTOP)
for item in lifecycle(1):
    recorder.capture(session, item)
while len(recorder._inbox):
    time.sleep(0.01)
print(writer)
sys.stdout.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_writes_what_it_has_when_its_recorder_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    # The writer has this pipe's other end as well, and closes it when it ends.
    reading, writing = os.pipe()
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED, str(path)],
        stdout=subprocess.PIPE,
        stderr=writing,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    os.close(writing)
    assert killed.returncode == -signal.SIGKILL
    os.kill(int(killed.stdout), signal.SIGCONT)
    with os.fdopen(reading) as stream:
        assert stream.read() == ""
    assert len(events_in(path)) == len(list(lifecycle(1)))
    with Recording.open(path) as recording:
        (session,) = recording.sessions()
    assert session.ended_ns is None
