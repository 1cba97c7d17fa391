# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import socket
import sqlite3
import stat
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import RecordingError, UsageError
from nri_scope.events import KILLED, CapturedCall, Event, Gap, Role
from nri_scope.recorder.writer import Recorder, WriterLimits
from nri_scope.recording.file.schema import APPLICATION_ID, VERSION
from nri_scope.recording.reading.reader import Recording
from nri_scope.share.redacted_entries import SourceRedaction
from nri_scope.share.redaction.redactor import Redactor
from nri_scope.share.redaction.rules import Rules
from tests.recording.traffic import NOW, a_start, an_item, lifecycle, lifecycles, record


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a recording?%41#.nriscope.db"


class TestSessions:
    def test_have_the_data_of_their_begin_and_end(self, path: Path) -> None:
        recorder = Recorder.open(path)
        one = recorder.begin_session(a_start("07-one", NOW))
        two = recorder.begin_session(a_start("08-two", NOW + 1))
        recorder.capture(two, an_item())
        recorder.capture(one, an_item())
        recorder.capture(two, an_item())
        recorder.end_session(two, "connection closed", NOW + 5)
        recorder.close()
        with Recording.open(path) as recording:
            first, second = recording.sessions()
            events = list(recording.events())
        assert (first.id, first.plugin, first.ended_ns, first.end_reason) == (
            one,
            "07-one",
            None,
            "",
        )
        assert (second.plugin_index, second.plugin_name) == ("08", "two")
        assert (second.ended_ns, second.end_reason) == (NOW + 5, "connection closed")
        assert (first.runtime_name, first.nri_version_inferred, first.mask) == (
            "containerd",
            True,
            0x07FF,
        )
        assert [(event.session, event.seq) for event in events] == [(two, 1), (one, 1), (two, 2)]

    def test_are_added_to_an_existing_recording(self, path: Path) -> None:
        record(path, lifecycles(2))
        record(path, lifecycles(1))
        with Recording.open(path) as recording:
            assert [session.id for session in recording.sessions()] == [1, 2]
            assert [event.id for event in recording.events()] == list(range(1, 34))
            assert len(recording.pods()) == 2

    def test_left_open_by_a_killed_recorder_are_ended_by_the_next(self, path: Path) -> None:
        recorder = Recorder.open(path)
        recorder.begin_session(a_start())
        recorder.close()
        record(path, [])
        with Recording.open(path) as recording:
            assert [session.end_reason for session in recording.sessions()] == [KILLED, "over"]

    def test_of_a_killed_recorder_leave_a_gap_until_the_next_one(self, path: Path) -> None:
        recorder = Recorder.open(path)
        session = recorder.begin_session(a_start())
        recorder.capture(session, lifecycles(1)[0])
        recorder.close()
        later = replace(a_start(), started_ns=a_start().started_ns + 10**12)
        recorder = Recorder.open(path)
        recorder.begin_session(later)
        recorder.begin_session(later)
        assert recorder.close().gaps == 1
        with Recording.open(path) as recording:
            (event,) = recording.events()
            (gap,) = recording.gaps()
        assert (gap.from_ns, gap.to_ns) == (event.at_ns, later.started_ns)
        assert (gap.reason, gap.lost) == (KILLED, None)

    def test_of_nri_0_1_make_and_end_no_such_gap(self, path: Path) -> None:
        # The spool keeps the requests that arrive without a recorder.
        spooled = replace(a_start("-konfine"), role=Role.V01)
        later = replace(a_start(), started_ns=a_start().started_ns + 10**12)
        for sessions in ([a_start(), spooled], [replace(spooled, started_ns=NOW + 10**11), later]):
            recorder = Recorder.open(path)
            for start in sessions:
                number = recorder.begin_session(start)
                recorder.capture(number, an_item(wall_ns=start.started_ns))
            recorder.close()
        with Recording.open(path) as recording:
            (gap,) = recording.gaps()
        assert (gap.from_ns, gap.to_ns) == (NOW, later.started_ns)


def test_gaps_and_notes_are_stored(path: Path) -> None:
    recorder = Recorder.open(path)
    session = recorder.begin_session(a_start())
    recorder.note_gap(session, NOW, NOW + 7, "nobody was there", None)
    recorder.note_gap(None, NOW + 8, NOW + 9, "between two sessions", 3)
    recorder.note(session, NOW + 2, "an odd frame")
    counters = recorder.close()
    assert (counters.gaps, counters.lost) == (2, 3)
    with Recording.open(path) as recording:
        assert recording.gaps() == [
            Gap(1, session, NOW, NOW + 7, "nobody was there", None),
            Gap(2, None, NOW + 8, NOW + 9, "between two sessions", 3),
        ]
        assert [(note.session, note.text) for note in recording.notes()] == [(1, "an odd frame")]


def test_counters_count_recorded_filtered_and_lost_events(path: Path) -> None:
    items = list(lifecycle(1))
    recorder = Recorder.open(path, keep=lambda event: event.event != "UpdateContainer")
    session = recorder.begin_session(a_start())
    for item in items:
        recorder.capture(session, item)
    counters = recorder.close()
    assert (counters.recorded, counters.filtered, counters.lost) == (10, 1, 0)
    assert counters.bytes_on_wire == sum(len(item.request) for item in items)
    assert recorder.counters == counters


class TestCallbacks:
    def test_receive_events_as_a_reader_reads_them(self, path: Path) -> None:
        notified: list[tuple[Event, CapturedCall]] = []
        items = list(lifecycle(1, containers=2))
        record(path, items, on_event=lambda event, item: notified.append((event, item)))
        with Recording.open(path) as recording:
            assert [event for event, _ in notified] == list(recording.events())
        assert [item for _, item in notified] == items

    def test_receive_redacted_calls(self, path: Path) -> None:
        notified: list[tuple[Event, CapturedCall]] = []
        request = api.CreateContainerRequest(container=api.Container(id="c", env=["KEY=hunter2x"]))
        reply = api.CreateContainerResponse()
        reply.adjust.env.add(key="DB_PASSWORD", value="correct-Horse7-battery")
        item = an_item("CreateContainer", request)._replace(reply=reply.SerializeToString())
        redaction = SourceRedaction(Redactor(Rules.DEFAULT, bytes(32)))
        record(path, [item], redaction=redaction, on_event=lambda *both: notified.append(both))
        with Recording.open(path) as recording:
            ((event, kept),) = notified
            assert kept.request == recording.request(event.id)
            assert kept.reply == recording.reply(event.id)
        assert b"hunter2x" not in kept.request
        assert b"correct-Horse7-battery" not in kept.reply

    def test_do_not_receive_filtered_events(self, path: Path) -> None:
        notified: list[str] = []
        record(
            path,
            list(lifecycle(1)),
            keep=lambda event: event.container == "",
            on_event=lambda event, item: notified.append(event.event),
        )
        assert notified == ["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"]
        with Recording.open(path) as recording:
            # Filtered events keep their sequence numbers.
            assert [event.seq for event in recording.events()] == [1, 10, 11]
            assert recording.containers() == []

    def test_that_fail_do_no_harm(self, path: Path) -> None:
        problems: list[str] = []

        def fail(*_: object) -> bool:
            raise KeyError("oops")

        record(path, list(lifecycle(1)), keep=fail, on_event=fail, on_problem=problems.append)
        with Recording.open(path) as recording:
            assert len(list(recording.events())) == 11
        assert problems == [
            "the filter failed: KeyError: 'oops'",
            "showing an event failed: KeyError: 'oops'",
        ]


def test_an_event_without_a_session_is_a_gap(path: Path) -> None:
    problems: list[str] = []
    recorder = Recorder.open(path, on_problem=problems.append)
    recorder.capture(7, an_item())
    assert recorder.close().lost == 1
    with Recording.open(path) as recording:
        (gap,) = recording.gaps()
    assert "outside of a session" in gap.reason
    assert "outside of a session" in problems[0]


def test_events_beyond_the_queue_are_a_gap_at_their_place(path: Path) -> None:
    resume = threading.Event()
    recorder = Recorder.open(
        path,
        limits=WriterLimits(queue_bytes=50_000),
        keep=lambda event: resume.wait(30),
    )
    session = recorder.begin_session(a_start())
    items = lifecycles(10)
    for item in items:
        recorder.capture(session, item)
    resume.set()
    counters = recorder.close()
    assert 0 < counters.lost < len(items)
    assert counters.recorded + counters.lost == len(items)
    with Recording.open(path) as recording:
        gaps = recording.gaps()
        seqs = [event.seq for event in recording.events()]
    assert sum(gap.lost or 0 for gap in gaps) == counters.lost
    assert len(gaps) == counters.gaps
    missing = sorted(set(range(1, len(items) + 1)) - set(seqs))
    times = [items[number - 1].wall_ns for number in missing]
    assert gaps[0].from_ns == times[0]
    assert gaps[-1].to_ns == times[-1]


def test_close_and_capture_after_close_do_no_harm(path: Path) -> None:
    recorder = Recorder.open(path)
    session = recorder.begin_session(a_start())
    before = recorder.close()
    recorder.capture(session, an_item())
    after = recorder.close()
    assert after.recorded == before.recorded
    assert after.lost == 1


class TestTheFile:
    @pytest.fixture(autouse=True)
    def _no_mask(self) -> Iterator[None]:
        before = os.umask(0)
        yield
        os.umask(before)

    def test_is_private_to_its_owner_like_its_companions(self, path: Path) -> None:
        recorder = Recorder.open(path)
        recorder.begin_session(a_start())
        found = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
        recorder.close()
        assert found == {path.name + kind: 0o600 for kind in ("", "-wal", "-shm")}

    def test_has_no_companions_after_close(self, path: Path) -> None:
        record(path, lifecycles(3))
        with Recording.open(path) as recording:
            assert len(list(recording.events())) == 33
            assert list(path.parent.iterdir()) == [path]
        assert list(path.parent.iterdir()) == [path]

    def test_has_application_id_and_version(self, path: Path) -> None:
        record(path, [])
        connection = sqlite3.connect(path)
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
        connection.close()

    def test_can_be_read_with_sqlite3_alone(self, path: Path) -> None:
        record(path, list(lifecycle(5)))
        connection = sqlite3.connect(path)
        rows = connection.execute(
            "SELECT at, plugin, event, namespace, pod, container FROM log LIMIT 2"
        ).fetchall()
        connection.close()
        plugin = "00-nri-scope"
        assert rows == [
            ("2026-11-18T11:06:45.020000Z", plugin, "RunPodSandbox", "shop", "web-5", None),
            ("2026-11-18T11:06:45.040000Z", plugin, "CreateContainer", "shop", "web-5", "app-0"),
        ]


class TestRefuses:
    def _assert_rejected(self, path: Path, *words: str) -> None:
        before = path.read_bytes() if path.is_file() else None
        with pytest.raises(RecordingError) as caught:
            Recorder.open(path)
        assert caught.value.path == str(path)
        assert "\n" not in str(caught.value)
        for word in words:
            assert word in str(caught.value)
        if before is not None:
            assert path.read_bytes() == before

    def test_a_file_that_is_not_a_recording(self, path: Path) -> None:
        path.write_text("my notes\n" * 100)
        self._assert_rejected(
            path, "is not an nri-scope recording", "nothing was written", "another name"
        )

    def test_an_empty_file(self, path: Path) -> None:
        path.touch()
        self._assert_rejected(path, "empty")

    def test_another_programs_database(self, path: Path) -> None:
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE t (x)")
        connection.close()
        self._assert_rejected(path, "some other SQLite database")

    def test_a_newer_recording(self, path: Path) -> None:
        record(path, [])
        connection = sqlite3.connect(path)
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
        connection.close()
        self._assert_rejected(path, f"version {VERSION + 1}", "upgrade")

    def test_a_recording_with_a_trigger(self, path: Path) -> None:
        record(path, [])
        connection = sqlite3.connect(path)
        connection.execute("CREATE TRIGGER t AFTER INSERT ON event BEGIN DELETE FROM session; END")
        connection.close()
        self._assert_rejected(path, "trigger")

    def test_a_recording_in_use(self, path: Path) -> None:
        recorder = Recorder.open(path)
        self._assert_rejected(path, "another nri-scope is recording to it")
        recorder.close()
        record(path, [])

    def test_a_folder(self, tmp_path: Path) -> None:
        self._assert_rejected(tmp_path, "it is a folder; name a file in it")

    def test_a_folder_that_cannot_contain_files(self) -> None:
        self._assert_rejected(
            Path("/proc/r.db"), "cannot create a file in /proc; choose another folder"
        )

    def test_a_path_through_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        self._assert_rejected(
            tmp_path / "file" / "r.db", "a part of its path is a file", "; choose another"
        )

    def test_a_named_pipe(self, tmp_path: Path) -> None:
        path = tmp_path / "pipe"
        os.mkfifo(path)
        self._assert_rejected(path, "it is not a regular file; choose another name")

    def test_a_link_to_itself(self, tmp_path: Path) -> None:
        path = tmp_path / "loop"
        path.symlink_to(path)
        self._assert_rejected(path, "it is a symbolic link; name the file itself")
        self._assert_rejected(path / "r.db", "leads back to itself; choose another file")

    def test_a_socket(self, tmp_path: Path) -> None:
        path = tmp_path / "s"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            self._assert_rejected(path, "not a regular file")

    def test_a_missing_folder(self, tmp_path: Path) -> None:
        self._assert_rejected(tmp_path / "nowhere" / "r.db", "no such folder")

    @pytest.mark.parametrize("exists", [True, False])
    def test_a_symbolic_link(self, tmp_path: Path, exists: bool) -> None:
        target = tmp_path / "target.db"
        if exists:
            record(target, [])
        link = tmp_path / "link.db"
        link.symlink_to(target)
        self._assert_rejected(link, "symbolic link")
        assert target.exists() == exists

    @pytest.mark.parametrize(
        "limits", [WriterLimits(max_size=1000), WriterLimits(max_age_seconds=0)]
    )
    def test_invalid_limits(self, path: Path, limits: WriterLimits) -> None:
        with pytest.raises(UsageError):
            Recorder.open(path, limits=limits)
        assert not path.exists()
