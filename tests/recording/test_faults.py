# SPDX-License-Identifier: Apache-2.0
"""Faults of disks and files cost a gap at worst, never an error or a delay."""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import RecordingError
from nri_scope.events import CapturedCall
from nri_scope.nri.request_subject import decode_request
from nri_scope.recorder import encode
from nri_scope.recorder.transactions import DELETED
from nri_scope.recorder.writer import Recorder, WriterLimits
from nri_scope.recording.reading.reader import Recording
from tests.recording.full_disk import file_size_limit
from tests.recording.traffic import a_start, a_synchronize, an_item, lifecycles, record

ROOT = Path(__file__).parents[2]


class Problems:
    """Problems reported by a recorder; tests can wait for them."""

    def __init__(self) -> None:
        self.reported: list[str] = []
        self._changed = threading.Condition()

    def __call__(self, text: str) -> None:
        with self._changed:
            self.reported.append(text)
            self._changed.notify_all()

    def wait_for(self, words: str) -> str:
        with self._changed:
            assert self._changed.wait_for(
                lambda: any(words in text for text in self.reported), 30
            ), f"{words!r} was not reported, only {self.reported}"
            return next(text for text in self.reported if words in text)


class Live:
    """Recorder with a session, and the number of events sent to it."""

    def __init__(self, path: Path, limits: WriterLimits | None = None) -> None:
        self.problems = Problems()
        self.path = path
        self.recorder = Recorder.open(path, limits=limits, on_problem=self.problems)
        self.session = self.recorder.begin_session(a_start())
        self.sent = 0

    def send(self, items: list[CapturedCall]) -> None:
        for item in items:
            self.recorder.capture(self.session, item)
        self.sent += len(items)

    def wait_until_stored(self) -> None:
        """Wait until the file contains all events sent."""
        events = 0
        with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as connection:
            for _ in range(3000):
                (events,) = connection.execute("SELECT count(*) FROM event").fetchone()
                if events == self.sent:
                    return
                threading.Event().wait(0.01)
        raise AssertionError(f"{events} of {self.sent} events stored")


def _wal_size(path: Path) -> int:
    return path.with_name(f"{path.name}-wal").stat().st_size


def _stored(path: Path) -> list[int]:
    with Recording.open(path) as recording:
        return [event.seq for event in recording.events()]


class TestLocked:
    def test_events_wait_in_memory_and_are_written_after_the_lock(self, tmp_path: Path) -> None:
        live = Live(tmp_path / "r.db")
        live.send(lifecycles(1))
        live.wait_until_stored()
        with closing(sqlite3.connect(live.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            live.send(lifecycles(5, first=1))
            live.problems.wait_for("locked by another program; events wait in memory")
            live.send(lifecycles(5, first=6))
            other.execute("ROLLBACK")
        live.problems.wait_for("recording goes on")
        counters = live.recorder.close()
        assert (counters.recorded, counters.lost, counters.gaps) == (live.sent, 0, 0)
        assert _stored(live.path) == list(range(1, live.sent + 1))
        assert len(live.problems.reported) == 2
        with Recording.open(live.path) as recording:
            (note,) = recording.notes()
        assert "locked" in note.text
        assert "nothing was lost" in note.text

    def test_events_beyond_the_queue_are_a_gap_with_the_reason(self, tmp_path: Path) -> None:
        live = Live(tmp_path / "r.db", WriterLimits(queue_bytes=100_000))
        with closing(sqlite3.connect(live.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            live.send(lifecycles(1))
            live.problems.wait_for("locked")
            live.send(lifecycles(20))
            other.execute("ROLLBACK")
        live.problems.wait_for("events were lost")
        counters = live.recorder.close()
        assert counters.lost > 0
        assert counters.recorded + counters.lost == live.sent
        with Recording.open(live.path) as recording:
            (gap,) = recording.gaps()
        assert gap.lost == counters.lost
        assert "locked" in gap.reason

    def test_closing_has_a_timeout(self, tmp_path: Path) -> None:
        live = Live(tmp_path / "r.db")
        with closing(sqlite3.connect(live.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            live.send(lifecycles(1))
            counters = live.recorder.close(timeout=0.2)
            other.execute("ROLLBACK")
        assert counters.lost == live.sent
        assert "could not be written" in live.problems.reported[-1]


class TestDiskFull:
    def test_recording_resumes_without_losses(self, tmp_path: Path) -> None:
        live = Live(tmp_path / "r.db")
        live.send(lifecycles(2))
        live.wait_until_stored()
        with file_size_limit(_wal_size(live.path)):
            live.send(lifecycles(20, first=2))
            live.problems.wait_for("events wait in memory")
        live.problems.wait_for("recording goes on")
        assert live.recorder.close().lost == 0
        assert _stored(live.path) == list(range(1, live.sent + 1))

    def test_synchronize_parts_before_and_after_make_the_whole_state(self, tmp_path: Path) -> None:
        live = Live(tmp_path / "r.db")
        live.send([an_item("Synchronize", a_synchronize(3, more=True))])
        live.wait_until_stored()
        with file_size_limit(_wal_size(live.path)):
            live.send([an_item("Synchronize", a_synchronize(30, first=3))])
            live.problems.wait_for("events wait in memory")
        live.problems.wait_for("recording goes on")
        live.recorder.close()
        with Recording.open(live.path) as recording:
            state = recording.state(live.session)
            # The note about the problem is written although no event followed.
            assert [note.text.split(":")[0][:4] for note in recording.notes()] == ["for "]
        assert (len(state.pods), len(state.containers), state.complete) == (33, 33, True)

    def test_a_disk_that_is_really_full(self, tmp_path: Path) -> None:
        folder = tmp_path / "small"
        folder.mkdir()
        with _mounted(folder, "size=1m"):
            live = Live(folder / "r.db")
            live.send(lifecycles(1))
            live.wait_until_stored()
            filler = folder / "filler"
            assert _fill(filler) == errno.ENOSPC
            live.send(lifecycles(30, first=1))
            assert "the disk is full" in live.problems.wait_for("events wait in memory")
            filler.unlink()
            live.problems.wait_for("recording goes on")
            assert live.recorder.close().lost == 0
            assert _stored(live.path) == list(range(1, live.sent + 1))


def test_a_read_only_file_system_is_reported_on_opening(tmp_path: Path) -> None:
    with _mounted(tmp_path, "size=1m,ro"):
        with pytest.raises(RecordingError, match="read-only file system"):
            Recorder.open(tmp_path / "r.db")


def _fill(path: Path) -> int | None:
    """Write until the disk is full, and return the error number."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            return error.errno


@contextmanager
def _mounted(folder: Path, options: str) -> Iterator[None]:
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small file system")
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("cannot mount a small file system here")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


class TestDeleted:
    def test_a_new_file_is_begun_with_the_open_sessions(self, tmp_path: Path) -> None:
        live = Live(tmp_path / "r.db")
        live.send(lifecycles(2))
        live.wait_until_stored()
        for file in tmp_path.iterdir():
            file.unlink()
        live.send(lifecycles(1, first=2))
        live.recorder.close()
        with Recording.open(live.path) as recording:
            assert [session.plugin for session in recording.sessions()] == ["00-nri-scope"]
            assert [event.seq for event in recording.events()] == list(range(23, 34))
            (gap,) = recording.gaps()
            assert all(recording.request(event.id) for event in recording.events())
            assert gap.to_ns == next(recording.events()).at_ns
        assert (gap.reason, gap.lost) == (DELETED, None)
        assert live.problems.reported == [f"{live.path}: {DELETED}"]

    def test_a_moved_file_is_complete_and_a_new_file_continues(self, tmp_path: Path) -> None:
        live = Live(tmp_path / "r.db")
        live.send(lifecycles(2))
        live.wait_until_stored()
        live.path.rename(tmp_path / "moved.db")
        live.send(lifecycles(1, first=2))
        live.recorder.close()
        assert len(_stored(tmp_path / "moved.db")) == 22
        assert len(_stored(live.path)) == 11

    def test_another_recording_at_its_path_is_left_unchanged(self, tmp_path: Path) -> None:
        live = Live(tmp_path / "r.db")
        live.send(lifecycles(1))
        live.wait_until_stored()
        for file in tmp_path.iterdir():
            file.unlink()
        other = Live(live.path)
        other.send(lifecycles(1))
        other.wait_until_stored()
        live.send(lifecycles(1, first=1))
        live.problems.wait_for("another file is in its place")
        assert live.recorder.close(timeout=0.2).lost == 11
        # The other recording's write-ahead log still exists: all its events can be read.
        assert _stored(other.path) == list(range(1, 12))
        other.send(lifecycles(1, first=1))
        other.recorder.close()
        assert _stored(other.path) == list(range(1, 23))


def test_a_problem_and_its_end_are_reported_once(tmp_path: Path) -> None:
    live = Live(tmp_path / "r.db")
    with file_size_limit(_wal_size(live.path)):
        live.send(lifecycles(1))
        live.problems.wait_for("events wait in memory")
        live.send(lifecycles(30, first=1))
    live.problems.wait_for("recording goes on")
    live.recorder.close()
    assert len(live.problems.reported) == 2


class TestKilled:
    """kill -9 at any moment."""

    @pytest.mark.parametrize("after", [1, 200, 3000])
    def test_leaves_a_readable_recording(self, tmp_path: Path, after: int) -> None:
        path = tmp_path / "r.db"
        reported = _run_until_killed(path, after)
        stored = _stored(path)
        # No event in the middle is missing, and all events reported as stored are in the file.
        assert stored == list(range(1, len(stored) + 1))
        assert len(stored) >= reported
        with Recording.open(path) as recording:
            for event in recording.events(last=20):
                assert recording.request(event.id)
            (session,) = recording.sessions()
        assert session.ended_ns is None

    def test_lets_the_next_recorder_continue(self, tmp_path: Path) -> None:
        path = tmp_path / "r.db"
        _run_until_killed(path, 100)
        before = len(_stored(path))
        live = Live(path)
        live.send(lifecycles(1))
        live.recorder.close()
        with Recording.open(path) as recording:
            assert len(list(recording.events())) == before + 11
        assert [file.name for file in tmp_path.iterdir()] == [path.name]


def _run_until_killed(path: Path, events: int) -> int:
    """Record in another process, and kill it once it reports ``events`` stored events.

    Return the number of events reported until then.
    """
    code = """
        import itertools, sys, time
        from nri_scope.recorder.writer import Recorder
        from tests.recording.traffic import a_start, lifecycles

        def tell(event, item):
            sys.stdout.write(f"{event.id}\\n")
            sys.stdout.flush()

        recorder = Recorder.open(sys.argv[1], on_event=tell)
        session = recorder.begin_session(a_start())
        items = lifecycles(50)
        for item in itertools.cycle(items):
            recorder.capture(session, item)
            if recorder.counters.bytes_on_wire % 1_000_000 < 5_000:
                time.sleep(0.05)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), path],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    )
    assert process.stdout is not None
    with process:
        for line in process.stdout:
            if int(line) >= events:
                break
        process.kill()
        lines = process.stdout.read().splitlines(keepends=True)
    assert process.returncode == -signal.SIGKILL
    return max([events, *(int(line) for line in lines if line.endswith("\n"))])


def test_capture_does_not_wait_for_the_file(tmp_path: Path) -> None:
    live = Live(tmp_path / "r.db")
    with closing(sqlite3.connect(live.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        live.send(lifecycles(50))
        # All calls returned although no event could be written.
        assert live.recorder.counters.recorded == 0
        other.execute("ROLLBACK")
    live.recorder.close()
    assert len(_stored(live.path)) == live.sent


class TestInternalError:
    """An internal error loses the affected events, which are recorded as a gap."""

    def test_in_one_event_loses_that_event(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fails(method: str, payload: bytes, service: str = "") -> object:
            if method == "UpdateContainer":
                raise TypeError("a bug")
            return decode_request(method, payload, service)

        monkeypatch.setattr("nri_scope.recorder.encode.decode_request", fails)
        live = Live(tmp_path / "r.db")
        live.send(lifecycles(3))
        counters = live.recorder.close()
        assert (counters.recorded, counters.lost, counters.gaps) == (30, 3, 3)
        assert "a bug" in live.problems.reported[0]
        assert len(_stored(live.path)) == 30

    def test_in_a_batch_loses_the_batch_and_no_session(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        flush = encode.Encoder.flush
        failed = threading.Event()

        def fails_once(self: encode.Encoder) -> None:
            if not failed.is_set():
                failed.set()
                raise sqlite3.IntegrityError("a bug")
            flush(self)

        monkeypatch.setattr(encode.Encoder, "flush", fails_once)
        live = Live(tmp_path / "r.db")
        live.send(lifecycles(1))
        live.problems.wait_for("11 events could not be written: internal error")
        live.send(lifecycles(1, first=1))
        counters = live.recorder.close()
        assert (counters.recorded, counters.lost) == (11, 11)
        with Recording.open(live.path) as recording:
            (gap,) = recording.gaps()
            assert (gap.session, gap.lost) == (live.session, 11)
            assert len(recording.sessions()) == 1
        assert _stored(live.path) == list(range(12, 23))


def test_containers_without_pods_keep_their_ids_in_the_next_recorder(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    alone = api.StopContainerRequest(container=api.Container(id="c1", name="app"))
    record(path, [an_item("StopContainer", alone)])
    alone.container.id = "c2"
    record(path, [an_item("StopContainer", alone)])
    with Recording.open(path) as recording:
        assert [event.container_id for event in recording.events()] == ["c1", "c2"]
