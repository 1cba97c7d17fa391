# SPDX-License-Identifier: Apache-2.0
"""Marks of a user, stored in the sidecar of a recording."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope.events import MAX_MARKS
from nri_scope.filter import parse
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.marks import sidecar
from nri_scope.recording.marks.sidecar import SCHEMA_VERSION, marks_of
from nri_scope.recording.marks.user_marks import UserMarks
from nri_scope.recording.reading.reader import Recording
from nri_scope.tui.store.store import Store
from tests.amount import amount
from tests.in_memory import MEMORY
from tests.recording.made import an_event
from tests.recording.marks.recordings import a_copy, a_mark, alter, events_of, inside, put
from tests.replay.recordings import RECORDING
from tests.tui.hostile import NAMES

ROOT = Path(__file__).parents[3]
EVENT = an_event(7, 1.5)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the path of a missing recording, whose marks are stored in its sidecar."""
    return tmp_path / "r.nriscope.db"


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return a_copy(tmp_path)


def again(file: Path) -> UserMarks:
    """Return the marks that a new session loads."""
    found = UserMarks(file)
    found.load()
    return found


def test_marks_and_comments_are_loaded_again(file: Path) -> None:
    marks = again(file)
    assert (marks.notice, len(marks)) == ("", 0)
    assert marks.toggle(EVENT)
    assert marks.comment(an_event(9, 2.0), "why here?")
    marks.save()
    found = again(file)
    assert found.all() == marks.all()
    one, other = found.of(EVENT), found.of(an_event(9, 2.0))
    assert one is not None and other is not None
    assert (one.event, one.at_ns, one.comment) == (7, EVENT.at_ns, "")
    assert (other.event, other.at_ns, other.comment) == (9, an_event(9, 2.0).at_ns, "why here?")
    assert found.notice == marks.notice == ""


def test_a_mark_can_be_removed(file: Path) -> None:
    marks = again(file)
    marks.toggle(EVENT)
    marks.save()
    assert not marks.toggle(EVENT)
    marks.save()
    assert len(again(file)) == 0


def test_the_sidecar_is_private_to_its_owner(file: Path) -> None:
    marks = again(file)
    marks.toggle(EVENT)
    marks.save()
    assert marks.path.stat().st_mode & 0o777 == 0o600
    assert marks.path.name == "r.nriscope.db.marks.json"
    assert [one.name for one in file.parent.iterdir()] == [marks.path.name]


def test_a_mark_of_another_recording_s_event_is_not_shown_and_kept(file: Path) -> None:
    marks = again(file)
    marks.toggle(EVENT)
    marks.save()
    other = replace(EVENT, at_ns=EVENT.at_ns + 1)
    found = again(file)
    assert found.of(other) is None
    found.toggle(other)
    found.save()
    assert {mark.at_ns for mark in again(file).all()} == {EVENT.at_ns, other.at_ns}


def test_two_concurrent_users_keep_each_other_s_marks(file: Path) -> None:
    one, other = again(file), again(file)
    one.toggle(an_event(1))
    other.toggle(an_event(2))
    one.save()
    other.save()
    assert [mark.event for mark in again(file).all()] == [1, 2]


def test_any_comment_is_stored_unchanged(file: Path) -> None:
    marks = again(file)
    for number, name in enumerate(NAMES.values(), 1):
        marks.comment(an_event(number), name[:2_000])
    marks.save()
    assert marks.path.read_bytes().isascii()
    assert [mark.comment for mark in again(file).all()] == [name[:2_000] for name in NAMES.values()]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "no marks"),
        (b'{"schema_version": true, "marks": []}', "no marks"),
        (b'{"schema_version": 1, "marks": {}}', "no marks"),
        (b'{"schema_version": 1, "marks": [1]}', "not a mark"),
        (b'{"schema_version": 1, "marks": [{"event": "7", "at_ns": 1}]}', "not a mark"),
        (b'{"schema_version": 1, "marks": [{"event": true, "at_ns": 1}]}', "not a mark"),
        (b'{"schema_version": 1, "marks": [{"event": -1, "at_ns": 1}]}', "not a mark"),
        (b'{"schema_version": 1, "marks": [{"event": 1e999, "at_ns": 1}]}', "not a mark"),
        (
            b'{"schema_version": 1, "marks": [{"event": 99999999999999999999, "at_ns": 1}]}',
            "not a mark",
        ),
        (
            b'{"schema_version": 1, "marks": [{"event": 7, "at_ns": 1, "comment": []}]}',
            "not a mark",
        ),
        (b'{"schema_version": 2, "marks": []}', "newer nri-scope"),
        (b" " * ((8 << 20) + 1), "too large"),
        (
            json.dumps({"schema_version": 1, "marks": [0] * (MAX_MARKS + 1)}).encode(),
            "too many",
        ),
    ],
)
def test_an_invalid_sidecar_is_reported_in_one_line_and_unchanged(
    file: Path, content: bytes, problem: str
) -> None:
    path = UserMarks(file).path
    path.write_bytes(content)
    marks = again(file)
    assert problem in marks.notice and str(path) in marks.notice and "\n" not in marks.notice
    assert marks.toggle(EVENT)
    marks.save()
    assert marks.of(EVENT) is not None
    assert problem in marks.notice
    assert path.read_bytes() == content


def test_a_sidecar_that_is_not_a_regular_file_is_not_read(file: Path, tmp_path: Path) -> None:
    path = UserMarks(file).path
    target = tmp_path / "elsewhere.json"
    target.write_text('{"schema_version": 1, "marks": []}')
    path.symlink_to(target)
    assert "cannot be read" in again(file).notice
    path.unlink()
    os.mkfifo(path)
    assert "not a regular file" in again(file).notice
    path.unlink()
    path.mkdir()
    assert "a folder" in again(file).notice


def test_marks_that_cannot_be_saved_stay_in_memory_with_a_notice(
    tmp_path: Path,
) -> None:
    # Even root cannot write to a missing folder.
    marks = UserMarks(tmp_path / "gone" / "r.nriscope.db")
    marks.load()
    assert marks.notice == ""
    marks.toggle(EVENT)
    marks.save()
    assert marks.notice.startswith("marks are lost when you leave: ")
    assert marks.of(EVENT) is not None
    (tmp_path / "gone").mkdir()
    marks.save()
    assert marks.notice == ""
    assert len(again(tmp_path / "gone" / "r.nriscope.db")) == 1


def test_the_number_of_marks_is_limited(file: Path) -> None:
    marks = again(file)
    for number in range(1, MAX_MARKS + 1):
        marks.toggle(an_event(number))
    assert not marks.toggle(an_event(MAX_MARKS + 1))
    marks.save()
    assert len(again(file)) == MAX_MARKS


def test_filters_marked_events(file: Path) -> None:
    marks = again(file)
    with Recording.open(RECORDING) as recording:
        events = list(recording.events())
        assert list(recording.events(where=marks.filter())) == []
        for event in (events[2], events[9]):
            marks.toggle(event)
        # A mark of another recording that had the same name.
        marks.toggle(replace(events[4], at_ns=1))
        where = marks.filter()
        assert list(recording.events(where=where)) == [events[2], events[9]]
        assert [event for event in events if where.matches(event)] == [events[2], events[9]]
        assert where == marks.filter()
        some = marks.filter(parse(f"event:{events[9].event}"))
        assert list(recording.events(where=some)) == [events[9]]
        assert [event for event in events if some.matches(event)] == [events[9]]
        assert some != where
        marks.toggle(events[2])
        assert where != marks.filter()


async def test_the_store_shows_marked_events_as_a_view(file: Path) -> None:
    marks = again(file)
    with Recording.open(RECORDING) as recording:
        for event in list(recording.events())[3:6]:
            marks.comment(event, "x")
    store = await Store.open(RECORDING)
    try:
        view = await store.view(marks.filter())
        assert view.events == 3
    finally:
        await store.close()


def test_the_sidecar_has_the_current_schema_version(file: Path) -> None:
    marks = again(file)
    marks.toggle(EVENT)
    marks.save()
    assert json.loads(marks.path.read_text())["schema_version"] == SCHEMA_VERSION


def test_a_recording_is_not_changed(recording: Path) -> None:
    before, changed_ns = recording.read_bytes(), recording.stat().st_mtime_ns
    marks = again(recording)
    five, seven = (event for event in events_of(recording) if event.id in (5, 7))
    assert marks.where_kept() == "kept beside the recording"
    marks.comment(five, "beside")
    marks.toggle(seven)
    marks.save()
    assert (marks.notice, marks.is_kept) == ("", True)
    assert again(recording).all() == marks.all()
    assert [(mark.event, mark.comment) for mark in marks.all()] == [(5, "beside"), (7, "")]
    marks.toggle(seven)
    marks.save()
    assert [mark.event for mark in again(recording).all()] == [5]
    assert {each.name for each in recording.parent.iterdir()} == {recording.name, marks.path.name}
    assert not again(recording).toggle(five)
    marks.toggle(five)
    marks.save()
    assert [each.name for each in recording.parent.iterdir()] == [recording.name]
    assert (recording.read_bytes(), recording.stat().st_mtime_ns) == (before, changed_ns)


def test_marks_in_a_recording_are_changed_and_removed_beside_it(recording: Path) -> None:
    five, seven, nine = (event for event in events_of(recording) if event.id in (5, 7, 9))
    put(recording, [a_mark(5, "in it"), a_mark(9, "in it")])
    before = recording.read_bytes()
    marks = again(recording)
    marks.comment(seven, "beside")
    marks.comment(nine, "beside")
    assert not marks.toggle(five)
    marks.save()
    assert (marks.notice, marks.is_kept) == ("", True)
    for found in (marks, again(recording)):
        assert [(one.event, one.comment) for one in found.all()] == [(7, "beside"), (9, "beside")]
    later = again(recording)
    assert later.toggle(five)
    assert not later.toggle(nine)
    assert not later.toggle(seven)
    later.save()
    # A removed mark of which nothing is in the recording needs no entry.
    assert [(mark.event, mark.gone) for mark in sidecar.read(later.path).values()] == [
        (9, True),
        (5, False),
    ]
    assert [mark.event for mark in again(recording).all()] == [5]
    assert recording.read_bytes() == before


def test_marks_can_be_saved_during_recording(recording: Path) -> None:
    recorder = Recorder.open(recording)
    try:
        marks = again(recording)
        marks.toggle(events_of(recording)[3])
        marks.save()
        assert (marks.notice, marks.is_kept) == ("", True)
    finally:
        recorder.close()
    assert inside(recording) == []
    assert again(recording).all() == marks.all()


def test_an_invalid_sidecar_does_not_hide_marks_in_the_recording(recording: Path) -> None:
    put(recording, [a_mark(5, "in it")])
    path = UserMarks(recording).path
    path.write_text("[]")
    marks = again(recording)
    assert marks.notice.endswith(
        "contains no marks; it is left unchanged, and marks are lost when you leave"
    )
    assert marks.where_kept() == "lost when you leave: they cannot be stored beside this recording"
    assert [mark.comment for mark in marks.all()] == ["in it"]
    marks.toggle(events_of(recording)[3])
    marks.save()
    assert not marks.is_kept
    assert path.read_text() == "[]"
    # The marks are saved once that is possible.
    path.unlink()
    marks.save()
    assert (marks.notice, marks.is_kept) == ("", True)
    assert again(recording).all() == marks.all()


def test_damaged_marks_in_a_recording_are_reported(recording: Path) -> None:
    put(recording, [a_mark(5)])
    alter(recording, "UPDATE mark SET comment = x'00'")
    found = again(recording)
    assert found.notice == (
        "the marks in the recording cannot be read: damaged: a mark has values of a wrong type"
    )
    assert len(found) == 0


@pytest.mark.parametrize("mode", [0o400, 0o444])
def test_a_recording_may_be_read_only(recording: Path, mode: int) -> None:
    recording.chmod(mode)
    marks = again(recording)
    assert marks.where_kept() == "kept beside the recording"
    marks.toggle(events_of(recording)[3])
    marks.save()
    assert marks.is_kept and marks.path.exists()
    assert len(again(recording)) == 1


def test_marks_through_a_link_are_stored_beside_its_target(recording: Path, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "link.nriscope.db"
    link.symlink_to(recording)
    marks = again(link)
    marks.toggle(events_of(recording)[3])
    marks.save()
    assert again(recording).all() == again(link).all() == marks.all() != []
    assert [each.name for each in link.parent.iterdir()] == [link.name] and link.is_symlink()
    with Recording.open(link) as through_link:
        assert marks_of(through_link) == marks.all()


def test_a_mark_replaces_an_earlier_one_after_the_clock_was_set_back(
    recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = events_of(recording)[3]
    marks = again(recording)
    marks.comment(event, "first")
    marks.save()
    monkeypatch.setattr("time.time_ns", lambda: 1)
    marks = again(recording)
    marks.comment(event, "then")
    marks.save()
    assert [mark.comment for mark in again(recording).all()] == ["then"]


_MARKING = """
import sys
from pathlib import Path
from nri_scope.recording.marks.user_marks import UserMarks
from tests.recording.marks.recordings import events_of
path, number = Path(sys.argv[1]), int(sys.argv[2])
marks = UserMarks(path)
marks.load()
print("ready", flush=True)
sys.stdin.read(1)
for event in events_of(path)[number::2]:
    marks.comment(event, f"of {number}")
    marks.save()
    assert marks.is_kept, marks.notice
"""


def test_two_processes_that_save_at_once_lose_no_mark(recording: Path) -> None:
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", _MARKING, recording, f"{number}"],
                    cwd=ROOT,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for number in range(2)
        ]
        for process in processes:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()
    assert [process.returncode for process in processes] == [0, 0]
    assert [(mark.event, mark.comment) for mark in again(recording).all()] == [
        (event.id, f"of {number % 2}") for number, event in enumerate(events_of(recording))
    ]


def test_a_locked_folder_is_not_waited_for_forever(
    recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nri_scope.recording.marks.sidecar.LOCK_SECONDS", 0.02)
    marks = again(recording)
    marks.toggle(events_of(recording)[3])
    with _locked(recording.parent):
        marks.save()
        assert not marks.is_kept
        assert marks.notice.startswith("marks are lost when you leave: ")
        assert marks.notice.endswith("it is locked by another program")
    marks.save()
    assert (marks.notice, marks.is_kept) == ("", True)
    assert len(again(recording)) == 1


def test_marks_are_saved_where_folders_cannot_be_locked(
    recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_lock(*_: object) -> None:
        # As on NFS, where a lock needs a file that is open for writing.
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr("fcntl.flock", no_lock)
    marks = again(recording)
    marks.toggle(events_of(recording)[3])
    marks.save()
    assert (marks.notice, marks.is_kept) == ("", True)
    assert len(again(recording)) == 1


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("toggle"), st.integers(0, 3)),
        st.tuples(st.just("comment"), st.integers(0, 3)),
        st.tuples(
            st.sampled_from(["save", "again", "recorder begins", "recorder ends"]), st.just(0)
        ),
    ),
    max_size=20,
)


@pytest.mark.exhaustive
@settings(max_examples=amount(40, 40), deadline=None)
@given(_STEPS)
def test_the_last_mark_is_found_after_any_sequence_of_steps(
    steps: list[tuple[str, int]],
) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder, ExitStack() as recorder:
        path = a_copy(Path(folder))
        events = events_of(path)[4:8]
        put(path, [a_mark(events[0].id, "in it")])
        expected = {events[0].id: "in it"}
        marks = again(path)
        for count, (step, which) in enumerate(steps):
            event = events[which]
            match step:
                case "toggle":
                    marks.toggle(event)
                    if expected.pop(event.id, None) is None:
                        expected[event.id] = ""
                case "comment":
                    marks.comment(event, f"{count}")
                    expected[event.id] = f"{count}"
                case "recorder begins":
                    recorder.close()
                    recorder.enter_context(_locked(path))
                case "recorder ends":
                    recorder.close()
                case _:
                    marks.save()
                    if step == "again":
                        marks = again(path)
            assert {mark.event: mark.comment for mark in marks.all()} == expected
        marks.save()
        assert {mark.event: mark.comment for mark in again(path).all()} == expected
        with Recording.open(path) as recording:
            assert {mark.event: mark.comment for mark in marks_of(recording)} == expected


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Lock a file or folder like another process."""
    lock = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
