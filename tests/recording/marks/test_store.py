# SPDX-License-Identifier: Apache-2.0
"""Reading and merging of marks from a recording and its sidecar."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.errors import RecordingError
from nri_scope.events import MAX_COMMENT, UserMark
from nri_scope.recording.marks import sidecar
from nri_scope.recording.marks.sidecar import marks_of, merged
from nri_scope.recording.reading.reader import Recording
from tests.recording.marks.recordings import a_copy, a_mark, alter, events_of, inside, put
from tests.recording.traffic import lifecycles, record

_MARKS = st.lists(
    st.builds(
        UserMark,
        event=st.integers(1, 4),
        at_ns=st.integers(1, 2),
        comment=st.sampled_from(["", "a"]),
        made_ns=st.integers(0, 3),
        gone=st.booleans(),
    )
)


@given(_MARKS, _MARKS)
def test_the_newest_mark_of_each_event_wins_and_removed_marks_are_omitted(
    one: list[UserMark], other: list[UserMark]
) -> None:
    found = merged(one, other)
    for key in {mark.key for mark in one + other}:
        marks_of_event = [mark for mark in one + other if mark.key == key]
        newest = max(mark.made_ns for mark in marks_of_event)
        last = [mark for mark in marks_of_event if mark.made_ns == newest][-1]
        assert found.get(key) == (None if last.gone else last)


def _all(path: Path) -> list[UserMark]:
    with Recording.open(path) as recording:
        return marks_of(recording)


def test_marks_in_the_recording_and_in_its_sidecar_are_merged(tmp_path: Path) -> None:
    path = a_copy(tmp_path)
    put(path, [a_mark(5, "in it", 2), a_mark(7, "in it", 2), a_mark(9, "in it", 2)])
    file = sidecar.path_of(path)
    sidecar.write(
        file,
        [a_mark(7, "older", 1), a_mark(9, made_ns=3, gone=True), a_mark(11, "beside", 3)],
    )
    assert [(mark.event, mark.comment) for mark in _all(path)] == [
        (5, "in it"),
        (7, "in it"),
        (11, "beside"),
    ]
    file.write_text("[")
    assert [mark.event for mark in _all(path)] == [5, 7, 9]


def test_all_marks_of_a_version_1_sidecar_are_read(tmp_path: Path) -> None:
    path = a_copy(tmp_path)
    mark = a_mark(5)
    sidecar.path_of(path).write_text(
        f'{{"schema_version": 1, "marks": [{{"event": 5, "at_ns": {mark.at_ns}, "comment": "x"}}]}}'
    )
    assert _all(path) == [UserMark(5, mark.at_ns, "x", 0)]


def test_a_recording_without_a_table_of_marks_has_none(tmp_path: Path) -> None:
    path = a_copy(tmp_path)
    assert inside(path) == []
    marks = [a_mark(5, "why here?"), a_mark(9)]
    put(path, reversed(marks))
    assert inside(path) == marks


@pytest.mark.parametrize(
    ("row", "is_damaged"),
    [
        ("5, 1, x'00'", True),
        ("5, 'soon', ''", True),
        ("5, 1, printf('%.*c', 100000, 'x')", False),
        # Missing events.
        ("1000000, 1, ''", False),
        ("-5, 1, ''", False),
    ],
)
def test_invalid_rows_do_no_harm(tmp_path: Path, row: str, is_damaged: bool) -> None:
    path = a_copy(tmp_path)
    put(path, [a_mark(9)])
    alter(path, f"INSERT INTO mark VALUES ({row})")
    if is_damaged:
        with pytest.raises(RecordingError, match="a mark has values of a wrong type"):
            inside(path)
    else:
        marks = inside(path)
        assert a_mark(9) in marks
        assert all(len(mark.comment) <= MAX_COMMENT for mark in marks)


def test_a_continued_recording_keeps_its_marks(tmp_path: Path) -> None:
    path = tmp_path / "r.nriscope.db"
    record(path, lifecycles(2))
    event = events_of(path)[2]
    mark = UserMark(event.id, event.at_ns, "kept", 1)
    put(path, [mark])
    record(path, lifecycles(2))
    assert inside(path) == [mark]
    assert len(events_of(path)) > event.id
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
