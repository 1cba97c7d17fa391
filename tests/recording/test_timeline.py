# SPDX-License-Identifier: Apache-2.0
"""Entries between events are shown once, in order of time."""

from __future__ import annotations

from dataclasses import replace

from nri_scope.entries import Began, Ended, Item
from nri_scope.events import KILLED, Event, Gap, Note, Printed
from nri_scope.recording.query.log_rows import LogMerger, merge_output, sessions_overlap
from tests.recording.made import a_gap, a_session, an_event, at


def words_of(item: Item) -> str:
    match item:
        case Event(id=number):
            return f"event {number}"
        case Gap(id=number):
            return f"gap {number}"
        case Began(session):
            return f"session {session.id} began"
        case Ended(session):
            return f"session {session.id} ended"
        case Note(text=text) | Printed(text=text):
            return text


def test_gaps_and_sessions_are_in_order_of_time() -> None:
    items = LogMerger().merge(
        [an_event(1, 1), an_event(2, 2), an_event(3, 6, session=2)],
        [a_session(1, 0, 4), a_session(2, 5)],
        [a_gap(2, 4, 5, session=None), a_gap(1, 1.5, 1.6)],
    )
    assert [words_of(item) for item in items] == [
        "session 1 began",
        "event 1",
        "gap 1",
        "event 2",
        "session 1 ended",
        "gap 2",
        "session 2 began",
        "event 3",
    ]


def test_gaps_and_session_ends_after_the_last_event_are_shown() -> None:
    items = LogMerger().merge([an_event(1, 1)], [a_session(1, 0, 9)], [a_gap(1, 5, 6)])
    assert [words_of(item) for item in items][2:] == ["gap 1", "session 1 ended"]


def test_entries_from_the_end_of_the_range_on_are_omitted() -> None:
    items = LogMerger().merge([an_event(1, 1)], [a_session(1, 0, 9)], [a_gap(1, 5, 6)], at(9))
    assert [words_of(item) for item in items][2:] == ["gap 1"]


def test_the_gap_after_a_killed_recorder_follows_its_last_event() -> None:
    killed = a_session(1, end_reason=KILLED)
    gap = a_gap(1, 2, 5, session=None)
    items = LogMerger().merge([an_event(1, 1), an_event(2, 2)], [killed], [gap])
    assert [words_of(item) for item in items][-2:] == ["event 2", "gap 1"]


def test_repeated_merges_repeat_no_entry() -> None:
    timeline = LogMerger()
    list(timeline.merge([an_event(1, 1)], [a_session(1)], [a_gap(1, 0, 0.5)]))
    items = timeline.merge([an_event(2, 2)], [a_session(1, 0, 3)], [a_gap(1, 0, 0.5)])
    assert [words_of(item) for item in items] == ["event 2", "session 1 ended"]
    assert not list(timeline.merge([], [a_session(1, 0, 3)], [a_gap(1, 0, 0.5)]))


def test_an_event_without_a_recorded_session_is_shown() -> None:
    assert [words_of(item) for item in LogMerger().merge([an_event(1)], [], [])] == ["event 1"]


def test_events_that_go_back_in_time_keep_their_order() -> None:
    items = LogMerger().merge([an_event(1, 5), an_event(2, 1)], [], [a_gap(1, 3, 4)])
    assert [words_of(item) for item in items] == ["gap 1", "event 1", "event 2"]


def test_sessions_overlap_if_open_at_the_same_time() -> None:
    assert not sessions_overlap([])
    assert not sessions_overlap([a_session(2, 5), a_session(1, 0, 4)])
    assert sessions_overlap([a_session(1, 0), a_session(2, 5)])
    killed = replace(a_session(1, 0), end_reason=KILLED)
    assert not sessions_overlap([killed, a_session(2, 5)])
    assert sessions_overlap([a_session(1, 0, 4), a_session(2, 3, 5)])
    assert sessions_overlap([a_session(1, 0, 9), a_session(2, 1, 2), a_session(3, 4, 5)])


def test_notes_are_in_order_of_time() -> None:
    notes = [Note(2, None, at(3), "second"), Note(1, 1, at(1), "first")]
    timeline = LogMerger()
    items = timeline.merge([an_event(1, 2)], [], [a_gap(1, 3, 4)], notes=notes)
    assert [type(item).__name__ for item in items] == ["Note", "Event", "Note", "Gap"]
    assert list(timeline.merge([], [], [], notes=notes)) == []


def test_output_lines_come_before_entries_that_are_not_earlier() -> None:
    lines = [Printed(number, 1, at(number), "stdout", str(number)) for number in range(5)]
    items = LogMerger().merge([an_event(1, 2), an_event(2, 3)], [a_session(1, 0, 3)], [])
    found = [type(item).__name__ for item in merge_output(items, lines)]
    assert found == [
        "Began", "Printed", "Printed", "Event", "Printed", "Event", "Ended", "Printed", "Printed",
    ]  # fmt: skip


def test_a_session_that_ends_with_its_last_event_ends_after_it() -> None:
    items = LogMerger().merge([an_event(1, 2), an_event(2, 3)], [a_session(1, 0, 3)], [])
    assert [type(item).__name__ for item in items] == ["Began", "Event", "Event", "Ended"]
