# SPDX-License-Identifier: Apache-2.0
"""A recording as a log, read once or while it is written."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_scope.entries import Began, Ended
from nri_scope.errors import RecordingError
from nri_scope.events import CapturedCall, Event, Gap
from nri_scope.filter import parse
from nri_scope.recorder.writer import Recorder, WriterLimits
from nri_scope.recording.query.log_rows import Log
from nri_scope.recording.reading.reader import Recording
from tests.recording.made import START, at
from tests.recording.recordings import PLUGIN, a_start, captured

ITEMS = [item for plugin, item in captured() if plugin == PLUGIN][1:]
"""Calls after Synchronize."""


def item(number: int, seconds: float) -> CapturedCall:
    return ITEMS[number % len(ITEMS)]._replace(wall_ns=at(seconds))


def capture_events(recorder: Recorder, session: int, *seconds: float) -> None:
    for number, second in enumerate(seconds):
        recorder.capture(session, item(number, second))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Events at 1, 2, 3 and 8 s, with a gap between 4 and 7 s."""
    path = tmp_path / "x.nriscope.db"
    recorder = Recorder.open(path)
    session = recorder.begin_session(a_start(started_ns=START))
    capture_events(recorder, session, 1, 2, 3)
    recorder.note_gap(session, at(4), at(7), "the disk is full", 2)
    capture_events(recorder, session, 8)
    recorder.end_session(session, "done", at(9))
    recorder.close()
    return path


@pytest.fixture
def recording(path: Path) -> Iterator[Recording]:
    with Recording.open(path) as recording:
        yield recording


def words_of(log: Log) -> list[str]:
    words = []
    for entry in log.read():
        match entry:
            case Event(id=number):
                words.append(str(number))
            case Gap():
                words.append("gap")
            case Began(session):
                words.append(f"began {session.id}")
            case Ended(session):
                words.append(f"ended {session.id}")
    return words


def test_the_whole_log(recording: Recording) -> None:
    assert words_of(Log(recording)) == ["began 1", "1", "2", "3", "gap", "4", "ended 1"]


def test_gaps_are_shown_despite_the_filter(recording: Recording) -> None:
    assert words_of(Log(recording, where=parse("pod:nobody"))) == ["gap"]


def test_since_is_inclusive_and_until_exclusive(recording: Recording) -> None:
    log = Log(recording, since_ns=at(2), until_ns=at(3))
    assert words_of(log) == ["began 1", "2"]


def test_a_gap_is_shown_if_it_overlaps_the_range(recording: Recording) -> None:
    assert words_of(Log(recording, since_ns=at(5), until_ns=at(6))) == ["gap"]
    assert words_of(Log(recording, since_ns=at(7.5))) == ["began 1", "4", "ended 1"]


def test_last_events_come_with_the_gaps_between_them(recording: Recording) -> None:
    assert words_of(Log(recording, last=1)) == ["began 1", "4", "ended 1"]
    assert words_of(Log(recording, last=2)) == ["began 1", "3", "gap", "4", "ended 1"]
    assert words_of(Log(recording, last=0)) == []


def test_each_read_returns_new_rows(path: Path, recording: Recording) -> None:
    log = Log(recording, last=1)
    assert log.has_new_rows()
    assert words_of(log) == ["began 1", "4", "ended 1"]
    assert not log.has_new_rows()
    assert words_of(log) == []
    recorder = Recorder.open(path)
    session = recorder.begin_session(a_start(started_ns=at(10)))
    capture_events(recorder, session, 11, 12)
    recorder.note_gap(session, at(13), at(14), "the disk is full", None)
    recorder.end_session(session, "done", at(15))
    recorder.close()
    assert log.has_new_rows()
    assert words_of(log) == ["gap", "began 2", "5", "6", "gap", "ended 2"]
    assert words_of(log) == []


def test_the_filter_applies_to_later_rows(path: Path, recording: Recording) -> None:
    log = Log(recording, where=parse("event:RunPodSandbox pod:batch"))
    assert words_of(log) == ["began 1", "2", "gap", "ended 1"]
    recorder = Recorder.open(path)
    session = recorder.begin_session(a_start(started_ns=at(10)))
    capture_events(recorder, session, 11, 12, 13)
    recorder.close()
    # The recorder did not end the session, so it is still open.
    assert words_of(log) == ["gap", "began 2", "6"]


@pytest.mark.parametrize("replaced", [False, True])
def test_a_moved_or_replaced_file_is_an_error(
    path: Path, recording: Recording, replaced: bool
) -> None:
    log = Log(recording)
    assert log.has_new_rows()
    other = path.with_name("other.nriscope.db")
    path.rename(other)
    if replaced:
        shutil.copy(other, path)
    with pytest.raises(RecordingError, match="deleted, moved or replaced"):
        log.has_new_rows()


def bulky(number: int) -> CapturedCall:
    """Return an event with a large unique request, so that the ring soon removes events."""
    like = item(number, number / 100)
    content = random.Random(number).randbytes(4000)
    # Field 500 of 4000 bytes; requests keep unknown fields.
    return like._replace(request=like.request + b"\xa2\x1f\xa0\x1f" + content)


def test_events_removed_by_the_ring_after_reading_are_no_gap(tmp_path: Path) -> None:
    path = tmp_path / "ring.nriscope.db"
    event_ids: list[int] = []
    gaps: list[Gap] = []
    recorder = Recorder.open(path, limits=WriterLimits(max_size=1 << 20))
    session = recorder.begin_session(a_start(started_ns=START))
    with Recording.open(path) as recording:
        log = Log(recording)
        count = 0
        while recorder.counters.removed < 50 or len(event_ids) < count:
            if len(event_ids) == count:
                for number in range(count, count + 50):
                    recorder.capture(session, bulky(number))
                count += 50
            for entry in log.read():
                if isinstance(entry, Event):
                    event_ids.append(entry.id)
                elif isinstance(entry, Gap):
                    gaps.append(entry)
        recorder.close()
        assert next(recording.events()).id > 1
    assert event_ids == list(range(1, count + 1))
    assert gaps == []


def test_events_removed_by_the_ring_before_reading_are_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "ring.nriscope.db"
    recorder = Recorder.open(path, limits=WriterLimits(max_size=1 << 20))
    session = recorder.begin_session(a_start(started_ns=START))
    for number in range(1000):
        recorder.capture(session, bulky(number))
    recorder.close()
    with Recording.open(path) as recording:
        first = next(iter(Log(recording).read()))
    assert isinstance(first, Gap)
    assert first.lost
