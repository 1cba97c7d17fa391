# SPDX-License-Identifier: Apache-2.0
"""A session that goes on after its recorder was killed, at whatever moment that was."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from nri_scope.events import Event
from nri_scope.recorder.inbox import Begin, End, Entry, Resume
from nri_scope.recorder.ring import Ring
from nri_scope.recorder.transactions import BatchResult, TransactionWriter
from nri_scope.recording.reader import Recording
from nri_scope.recording.writable_file import RecordingFile
from tests.recording.traffic import MEMORY, NOW, a_start, an_item

REASON = "killed"


@dataclass
class Life:
    """One recorder: it is given events, writes some, tells of fewer or of nothing, and is gone."""

    given: int
    written: int
    told: int


@st.composite
def lives(draw: st.DrawFn) -> Life:
    given_ = draw(st.integers(0, 6))
    written = draw(st.integers(0, given_))
    return Life(given_, written, draw(st.integers(0, written)))


def is_kept(event: Event) -> bool:
    return event.at_ns % 3 != 0


class Rig:
    """What hands events over, and a recorder after another."""

    def __init__(self, path: Path, *, filters: bool) -> None:
        self.path = path
        self.filters = filters
        self.came = self.known = 0
        self.written: list[int] = []
        """Numbers of events that are in the file."""

    def open(self) -> TransactionWriter:
        keep = is_kept if self.filters else None
        return TransactionWriter(RecordingFile.open(self.path), Ring(None, None), keep)

    def live(self, life: Life, first: list[Entry]) -> BatchResult:
        writing = self.open()
        entries: list[Entry] = list(first)
        for number in range(self.came + 1, self.came + life.written + 1):
            entries.append((1, an_item(wall_ns=NOW + number)))
            if not self.filters or (NOW + number) % 3:
                self.written.append(number)
        written = writing.write(entries)
        # No end of the session: it is killed.
        writing.close()
        if life.told:
            self.known = self.came + life.told
        self.came += life.given
        return written

    def resumed(self) -> list[Entry]:
        at_ns = NOW + self.came
        return [Resume(1, a_start(), self.came, self.known, at_ns, REASON)]


@given(st.lists(lives(), min_size=1, max_size=5), st.booleans())
def test_every_event_is_in_the_file_or_counted_as_lost_once(
    many: list[Life], begins_late: bool
) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        rig = Rig(Path(folder) / "r.db", filters=False)
        lost = 0
        # Where the first one was killed before it wrote anything there is no session in the file.
        rig.open().close()
        entries: list[Entry] = [Begin(1, a_start())]
        if begins_late:
            entries = rig.resumed()
        for life in many:
            lost += rig.live(life, entries).lost_before
            entries = rig.resumed()
        writing = rig.open()
        lost += writing.write([*entries, End(1, "over", NOW + rig.came)]).lost_before
        writing.close()
        with Recording.open(rig.path) as recording:
            (session,) = recording.sessions()
            assert (session.ended_ns, session.end_reason) == (NOW + rig.came, "over")
            assert [event.seq for event in recording.events()] == rig.written
            gaps = [gap for gap in recording.gaps() if gap.reason == REASON]
            assert sum(gap.lost or 0 for gap in gaps) == lost == rig.came - len(rig.written)
            assert len(recording.gaps()) == len(gaps)
            assert {gap.session for gap in gaps} <= {1}


@given(lives())
def test_of_what_a_filter_left_out_no_more_is_lost_than_was_given_since(life: Life) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        rig = Rig(Path(folder) / "r.db", filters=True)
        rig.live(life, [Begin(1, a_start())])
        writing = rig.open()
        lost = writing.write(rig.resumed()).lost_before
        writing.close()
        # The newest ones may have been left out, which nothing tells but what was told.
        assert life.given - life.written <= lost <= life.given - life.told
