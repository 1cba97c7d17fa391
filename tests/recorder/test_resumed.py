# SPDX-License-Identifier: Apache-2.0
"""Sessions that are resumed after their recorder was killed at any moment."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from nri_scope.capture.sink import Begin, End, Queued, Resume
from nri_scope.events import Event
from nri_scope.recorder.entry_writer import BatchResult
from nri_scope.recorder.ring import Ring
from nri_scope.recorder.transactions import TransactionWriter
from nri_scope.recording.file.writable_file import RecordingFile
from nri_scope.recording.reading.reader import Recording
from tests.in_memory import MEMORY
from tests.recording.traffic import NOW, a_start, an_item

REASON = "killed"


@dataclass
class Life:
    """A recorder process's counts of events received, written and reported before it is killed."""

    received: int
    written: int
    reported: int


@st.composite
def lives(draw: st.DrawFn) -> Life:
    received = draw(st.integers(0, 6))
    written = draw(st.integers(0, received))
    return Life(received, written, draw(st.integers(0, written)))


def is_kept(event: Event) -> bool:
    return event.at_ns % 3 != 0


class Rig:
    """Sender of events, and a series of recorders of one session."""

    def __init__(self, path: Path, *, filters: bool) -> None:
        self.path = path
        self.filters = filters
        self.sent = self.reported = 0
        self.written: list[int] = []
        """Numbers of the events in the file."""

    def open(self) -> TransactionWriter:
        keep = is_kept if self.filters else None
        return TransactionWriter(RecordingFile.open(self.path), Ring(None, None), keep)

    def live(self, life: Life, first: list[Queued]) -> BatchResult:
        writing = self.open()
        entries: list[Queued] = list(first)
        for number in range(self.sent + 1, self.sent + life.written + 1):
            entries.append((1, an_item(wall_ns=NOW + number)))
            if not self.filters or (NOW + number) % 3:
                self.written.append(number)
        written = writing.write(entries)
        # Killed: the session does not end.
        writing.close()
        if life.reported:
            self.reported = self.sent + life.reported
        self.sent += life.received
        return written

    def resume_entries(self) -> list[Queued]:
        at_ns = NOW + self.sent
        return [Resume(1, a_start(), self.sent, self.reported, at_ns, REASON)]


@given(st.lists(lives(), min_size=1, max_size=5), st.booleans())
def test_every_event_is_stored_or_counted_as_lost_once(many: list[Life], begins_late: bool) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        rig = Rig(Path(folder) / "r.db", filters=False)
        lost = 0
        # If the first recorder is killed before it writes, the file has no session.
        rig.open().close()
        entries: list[Queued] = [Begin(1, a_start())]
        if begins_late:
            entries = rig.resume_entries()
        for life in many:
            lost += rig.live(life, entries).lost_before
            entries = rig.resume_entries()
        writing = rig.open()
        lost += writing.write([*entries, End(1, "over", NOW + rig.sent)]).lost_before
        writing.close()
        with Recording.open(rig.path) as recording:
            (session,) = recording.sessions()
            assert (session.ended_ns, session.end_reason) == (NOW + rig.sent, "over")
            assert [event.seq for event in recording.events()] == rig.written
            gaps = [gap for gap in recording.gaps() if gap.reason == REASON]
            assert sum(gap.lost or 0 for gap in gaps) == lost == rig.sent - len(rig.written)
            assert len(recording.gaps()) == len(gaps)
            assert {gap.session for gap in gaps} <= {1}


@given(lives())
def test_counted_loss_with_a_filter_is_between_unwritten_and_unreported_events(life: Life) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        rig = Rig(Path(folder) / "r.db", filters=True)
        rig.live(life, [Begin(1, a_start())])
        writing = rig.open()
        lost = writing.write(rig.resume_entries()).lost_before
        writing.close()
        # Unreported newest events may have been filtered, so the exact loss is unknown.
        assert life.received - life.written <= lost <= life.received - life.reported
