# SPDX-License-Identifier: Apache-2.0
"""Of marks in two places each event has the newest one."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from nri_scope.events import Mark
from nri_scope.recording.marks import sidecar
from nri_scope.recording.marks.recorder_lock import RecorderLockProbe
from nri_scope.recording.marks.store import marks_of, merged
from nri_scope.recording.marks.table import put
from nri_scope.recording.reader import Recording
from tests.recording.marks.recordings import a_copy, a_mark

_MARKS = st.lists(
    st.builds(
        Mark,
        event=st.integers(1, 4),
        at_ns=st.integers(1, 2),
        comment=st.sampled_from(["", "a"]),
        made_ns=st.integers(0, 3),
        gone=st.booleans(),
    )
)


@given(_MARKS, _MARKS)
def test_the_newest_counts_and_what_it_takes_back_is_gone(
    one: list[Mark], other: list[Mark]
) -> None:
    found = merged(one, other)
    for key in {mark.key for mark in one + other}:
        same = [mark for mark in one + other if mark.key == key]
        newest = max(mark.made_ns for mark in same)
        last = [mark for mark in same if mark.made_ns == newest][-1]
        assert found.get(key) == (None if last.gone else last)


def _all(path: Path) -> list[Mark]:
    with Recording.open(path) as recording:
        return marks_of(recording)


def test_marks_of_both_places_are_those_of_the_recording(tmp_path: Path) -> None:
    path = a_copy(tmp_path)
    watch = RecorderLockProbe(path)
    put(path, [a_mark(5, "in it", 2), a_mark(7, "in it", 2), a_mark(9, "in it", 2)], watch)
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
    watch.close()


def test_of_a_file_from_before_marks_were_in_recordings_all_are_read(tmp_path: Path) -> None:
    path = a_copy(tmp_path)
    mark = a_mark(5)
    sidecar.path_of(path).write_text(
        f'{{"schema_version": 1, "marks": [{{"event": 5, "at_ns": {mark.at_ns}, "comment": "x"}}]}}'
    )
    assert _all(path) == [Mark(5, mark.at_ns, "x", 0)]
