# SPDX-License-Identifier: Apache-2.0
"""A node's folder of recordings that change between and during calls of an agent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.agent.call_limits import CopyLimit
from nri_scope.agent.event_reader import EventReader
from nri_scope.agent.node_recordings import NodeRecordings
from nri_scope.agent.selected_parts import EventQuery
from nri_scope.recorder.writer import Recorder
from tests.recorder.ring_removal import overrun
from tests.recording.traffic import a_start, an_item

START = 1_700_000_000 * 10**9
SECOND = 10**9
METHODS = ("RunPodSandbox", "StopPodSandbox")


class Node:
    """A folder of recordings. Each event has its own time, which identifies it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = count(START, SECOND)
        self.jumps = 0
        self.written: dict[int, tuple[str, str]] = {}
        """By time: recording and method."""
        self.last: set[int] = set()
        """Times of the last events of sessions."""
        self.unseen: set[int] = set()
        """Times of events since a call looked for new ones."""
        self.never_seen: set[int] = set()
        """Those of events that were removed before a call looked for new ones."""
        self.recordings = NodeRecordings(folder)

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.nriscope.db"

    def set_back(self) -> None:
        """Set the clock back, to times that no event has, after the first ones."""
        self.jumps += 1
        self.clock = count(START + (1000 - self.jumps) * 1000 * SECOND, SECOND)

    def write(self, name: str, events: int, path: Path | None = None) -> None:
        """Add a session with events, which ends."""
        recorder = Recorder.open(path or self.path(name))
        session = recorder.begin_session(a_start(started_ns=next(self.clock)))
        for number in range(events):
            at_ns, method = next(self.clock), METHODS[number % 2]
            self.written[at_ns] = name, method
            self.unseen.add(at_ns)
            recorder.capture(session, an_item(method, wall_ns=at_ns))
            if number == events - 1:
                self.last.add(at_ns)
        recorder.end_session(session, "over", next(self.clock))
        recorder.close()

    def overrun(self, name: str, most: int) -> None:
        """Remove the oldest events, as the ring does."""
        if self.path(name).exists():
            self.never_seen |= self.unseen & overrun(self.path(name), most)

    def replace(self, name: str, events: int) -> None:
        new = self.folder / "new"
        with ExitStack() as stack:
            if self.path(name).exists():
                # While it is open, the new file has another inode.
                stack.enter_context(self.path(name).open("rb"))
            self.remove(name)
            self.write(name, events, new)
        new.rename(self.path(name))

    def remove(self, name: str) -> None:
        self.never_seen |= {at_ns for at_ns in self.unseen if self.written[at_ns][0] == name}
        self.path(name).unlink(missing_ok=True)

    def reader(self, query: EventQuery, copies: CopyLimit | None = None) -> EventReader:
        return EventReader(self.recordings, query, None, copies)

    def all(self, query: EventQuery) -> tuple[list[v1.GetEventsResponse], str]:
        """Return all responses of a call, and the cursor after them."""
        with closing(self.reader(query)) as reader:
            return list(drained(reader)), reader.cursor()


def drained(reader: EventReader) -> Iterator[v1.GetEventsResponse]:
    is_all = False
    while not is_all:
        responses, is_all = reader.batch()
        yield from responses
