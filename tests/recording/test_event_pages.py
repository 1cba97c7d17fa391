# SPDX-License-Identifier: Apache-2.0
"""Sessions and gaps of a recording that is being written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Semaphore

import pytest

from nri_scope.entries import Began, Ended
from nri_scope.events import Gap
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.query.event_pages import RecordingState, SessionTables, look
from nri_scope.recording.reading.reader import Recording
from nri_scope.tui.store.markers import EntryMarker, MarkerPlaces
from tests.recording.made import START, at
from tests.recording.recordings import PLUGIN, a_start, captured

EVENT = [item for plugin, item in captured() if plugin == PLUGIN][1]
"""First event after Synchronize, whose end changes the session."""


class Growing:
    """Recording that is written and read alternately."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stored = Semaphore(0)
        self.recorder = Recorder.open(path, on_event=lambda *_: self._stored.release())
        self.session = self.recorder.begin_session(a_start(started_ns=START))
        self._tables, self._places = SessionTables(), MarkerPlaces()
        self.event(1)

    def event(self, seconds: float) -> None:
        """Record an event, and wait until it and all earlier entries are in the file."""
        self.recorder.capture(self.session, EVENT._replace(wall_ns=at(seconds)))
        assert self._stored.acquire(timeout=10)

    def look(self) -> tuple[RecordingState, tuple[object, ...]]:
        with Recording.open(self.path) as recording:
            state = look(recording, self._tables)
            return state, self._places.between(recording, state)

    def look_afresh(self) -> tuple[RecordingState, tuple[object, ...]]:
        """Return the state that a new reader finds."""
        with Recording.open(self.path) as recording:
            state = look(recording, SessionTables())
            return state, MarkerPlaces().between(recording, state)


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[Growing]:
    growing = Growing(tmp_path / "x.nriscope.db")
    yield growing
    growing.recorder.close()


def test_new_events_alone_keep_cached_sessions_and_gaps(growing: Growing) -> None:
    state, between = growing.look()
    growing.event(2)
    again, later = growing.look()
    assert again.newest == state.newest + 1
    assert again.sessions is state.sessions and again.gaps is state.gaps and later is between
    assert (again, later) == growing.look_afresh()


def kinds(markers: Iterable[object]) -> list[type]:
    return [type(marker.entry) for marker in markers if isinstance(marker, EntryMarker)]


def test_new_gaps_sessions_and_session_ends_are_read(growing: Growing) -> None:
    growing.look()
    growing.recorder.note_gap(growing.session, at(2), at(3), "the disk is full", 2)
    growing.event(4)
    assert kinds(growing.look()[1]) == [Began, Gap]
    other = growing.recorder.begin_session(a_start("10-other", started_ns=at(5)))
    growing.event(6)
    assert len(growing.look()[0].sessions) == 2
    growing.recorder.end_session(other, "done", at(7))
    growing.event(8)
    state, between = growing.look()
    assert kinds(between) == [Began, Gap, Began, Ended]
    assert [session.end_reason for session in state.sessions] == ["", "done"]
    assert (state, between) == growing.look_afresh()
