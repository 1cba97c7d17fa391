# SPDX-License-Identifier: Apache-2.0
"""Marks of a user, stored in a recording or in its sidecar."""

from __future__ import annotations

import fcntl
import json
import os
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
from nri_scope.recording.marks.user_marks import Marks
from nri_scope.recording.reader import Recording
from nri_scope.tui.store.store import Store
from tests.amount import amount
from tests.in_memory import MEMORY
from tests.recording.made import an_event
from tests.recording.marks.recordings import a_copy, alter, events_of, inside
from tests.replay.recordings import RECORDING
from tests.tui.hostile import NAMES

EVENT = an_event(7, 1.5)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the path of a missing recording, whose marks are stored in its sidecar."""
    return tmp_path / "r.nriscope.db"


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return a_copy(tmp_path)


def again(file: Path) -> Marks:
    """Return the marks that a new session loads."""
    found = Marks(file)
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
    path = Marks(file).path
    path.write_bytes(content)
    marks = again(file)
    assert problem in marks.notice and str(path) in marks.notice and "\n" not in marks.notice
    assert marks.toggle(EVENT)
    marks.save()
    assert marks.of(EVENT) is not None
    assert problem in marks.notice
    assert path.read_bytes() == content


def test_a_sidecar_that_is_not_a_regular_file_is_not_read(file: Path, tmp_path: Path) -> None:
    path = Marks(file).path
    target = tmp_path / "elsewhere.json"
    target.write_text('{"schema_version": 1, "marks": []}')
    path.symlink_to(target)
    assert "cannot be read" in again(file).notice
    path.unlink()
    os.mkfifo(path)
    assert "is not a regular file" in again(file).notice
    path.unlink()
    path.mkdir()
    assert "is not a regular file" in again(file).notice


def test_marks_that_cannot_be_saved_stay_in_memory_with_a_notice(
    tmp_path: Path,
) -> None:
    # Even root cannot write to a missing folder.
    marks = Marks(tmp_path / "gone" / "r.nriscope.db")
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


def test_marks_are_stored_in_a_writable_recording(recording: Path) -> None:
    marks = again(recording)
    five, seven = (event for event in events_of(recording) if event.id in (5, 7))
    marks.comment(five, "in it")
    marks.toggle(seven)
    marks.save()
    assert [(mark.event, mark.comment) for mark in inside(recording)] == [(5, "in it"), (7, "")]
    assert again(recording).all() == marks.all() == inside(recording)
    marks.toggle(seven)
    marks.save()
    marks.close()
    assert [mark.event for mark in again(recording).all()] == [5]
    assert [each.name for each in recording.parent.iterdir()] == [recording.name]


def test_marks_made_during_recording_are_stored_in_the_sidecar_and_merged_later(
    recording: Path,
) -> None:
    five, seven, nine = (event for event in events_of(recording) if event.id in (5, 7, 9))
    before = again(recording)
    before.toggle(five)
    before.toggle(nine)
    before.save()
    before.close()
    recorder = Recorder.open(recording)
    marks = again(recording)
    marks.comment(seven, "beside")
    marks.comment(nine, "beside")
    # A mark in the recording cannot be removed from it now; the sidecar stores the removal.
    assert not marks.toggle(five)
    marks.save()
    assert (marks.notice, marks.is_kept) == ("", True)
    assert [mark.event for mark in inside(recording)] == [5, 9]
    for found in (marks, again(recording)):
        assert [(one.event, one.comment) for one in found.all()] == [(7, "beside"), (9, "beside")]
    marks.close()
    recorder.close()
    later = again(recording)
    assert [one.event for one in later.all()] == [7, 9]
    # Newer marks replace older ones in both places; other marks are not moved.
    assert later.toggle(five)
    assert not later.toggle(nine)
    later.save()
    assert [mark.event for mark in inside(recording)] == [5]
    assert [mark.event for mark in sidecar.read(later.path).values()] == [7]
    assert not later.toggle(seven)
    later.save()
    assert not later.path.exists()
    assert again(recording).all() == inside(recording) == later.all()
    later.close()


def test_an_invalid_sidecar_does_not_prevent_marks_in_the_recording(
    recording: Path,
) -> None:
    path = Marks(recording).path
    path.write_text("[]")
    marks = again(recording)
    assert marks.notice.endswith("contains no marks; it is left unchanged")
    assert marks.where_kept() == "kept in the recording"
    marks.toggle(events_of(recording)[3])
    marks.save()
    assert marks.is_kept
    assert len(again(recording)) == 1
    assert path.read_text() == "[]"
    marks.close()


def test_damaged_marks_in_a_recording_are_reported(recording: Path) -> None:
    marks = again(recording)
    marks.toggle(events_of(recording)[3])
    marks.save()
    marks.close()
    alter(recording, "UPDATE mark SET comment = x'00'")
    found = again(recording)
    assert found.notice == (
        "the marks in the recording cannot be read: damaged: a mark has values of a wrong type"
    )
    assert len(found) == 0


def test_marks_of_a_read_only_recording_are_stored_in_the_sidecar(recording: Path) -> None:
    recording.chmod(0o400)
    before = recording.read_bytes()
    marks = again(recording)
    assert marks.where_kept() == "kept beside the recording"
    marks.toggle(events_of(recording)[3])
    marks.save()
    assert marks.is_kept and marks.path.exists()
    assert recording.read_bytes() == before
    assert len(again(recording)) == 1
    marks.close()


def test_marks_through_a_link_are_stored_in_its_target(recording: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.nriscope.db"
    link.symlink_to(recording)
    marks = again(link)
    marks.toggle(events_of(recording)[3])
    marks.save()
    marks.close()
    assert len(inside(recording)) == 1 and link.is_symlink()


def test_a_mark_replaces_an_earlier_one_after_the_clock_was_set_back(
    recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = events_of(recording)[3]
    marks = again(recording)
    marks.comment(event, "first")
    marks.save()
    marks.close()
    monkeypatch.setattr("time.time_ns", lambda: 1)
    marks = again(recording)
    marks.comment(event, "then")
    marks.save()
    marks.close()
    assert [mark.comment for mark in inside(recording)] == ["then"]


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
        expected: dict[int, str] = {}
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
                        marks.close()
                        marks = again(path)
            assert {mark.event: mark.comment for mark in marks.all()} == expected
        marks.save()
        marks.close()
        assert {mark.event: mark.comment for mark in again(path).all()} == expected
        with Recording.open(path) as recording:
            assert {mark.event: mark.comment for mark in marks_of(recording)} == expected


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Lock the recording like a recorder in another process."""
    lock = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
