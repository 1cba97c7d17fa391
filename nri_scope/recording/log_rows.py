# SPDX-License-Identifier: Apache-2.0
"""Read a recording as a log, once or repeatedly while it is being written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, takewhile
from pathlib import Path
from time import time_ns

from nri_scope.entries import Item
from nri_scope.errors import RecordingError
from nri_scope.events import RING_REMOVED, Event, Gap, Note, Printed
from nri_scope.filter import Filter

from .lookup import event_range
from .reader import Recording
from .sqlite_errors import query_numbers, recording_errors
from .sqlite_text import HIGHEST
from .tap_tables import printed as printed_lines
from .timeline import Timeline, merge_output

_LATE_GAPS_NS = 10 * 10**9
"""Time after its end in which a recorder certainly writes a gap."""


class Log:
    """Reader that yields new items on each call: matching events, and the gaps and notes between.

    Gaps are yielded regardless of ``where``, as lost events could have matched.
    """

    def __init__(
        self,
        recording: Recording,
        *,
        where: Filter | None = None,
        since_ns: int | None = None,
        until_ns: int | None = None,
        last: int | None = None,
        printed: bool = False,
        after: tuple[int, int] | None = None,
    ) -> None:
        """Read from ``since_ns`` (included) to ``until_ns`` (excluded).

        ``last``: maximum number of events of the first call. ``printed``: whether to yield the
        output of plugins, regardless of ``where``. ``after``: number and time of an event that was
        read before, as everything before it; other items of the same time may be yielded again.
        """
        self._recording = recording
        self._where = where
        self._since_ns = since_ns
        self._until_ns = until_ns
        self._last = last
        self._timeline = Timeline()
        self._after_id = 0
        self._printed = printed
        self._after_line = 0
        self._first_ns = since_ns or 0
        """Time before which output and notes are not yielded."""
        self._read_before = False
        self._too_old: set[int] = set()
        """Ids of the gaps before the ``last`` events."""
        self._state: tuple[int, int] | None = None
        self._file = _identity(recording.path)
        if after is not None:
            self._after_id, at_ns = after
            self._read_before = True
            self._first_ns = max(self._first_ns, at_ns)
            self._too_old = {
                gap.id for gap in recording.gaps() if gap.to_ns <= at_ns - _LATE_GAPS_NS
            }
            # By number, as clocks go back.
            query = "SELECT id, coalesce(last_event, ?) FROM session WHERE first_event <= ?"
            rows = query_numbers(recording, query, HIGHEST, self._after_id)
            begun = {row[0]: row[1] for row in rows}
            self._timeline.expect_ends(
                session
                for session in recording.sessions()
                if begun.get(session.id, 0) >= self._after_id
                or (session.id in begun and (session.ended_ns or at_ns) >= at_ns)
            )

    def has_new_rows(self, *, removed: bool = False) -> bool:
        """Return whether anything was written since the last call. Takes microseconds.

        Raises RecordingError, also if the file was deleted or replaced. ``removed``: expect that,
        and return whether there is more in the file, if it is still open.
        """
        if not removed and _identity(self._recording.path) != self._file:
            raise RecordingError(self._recording.path, "it was deleted, moved or replaced")
        connection = self._recording.connection
        if removed and (self._state is None or id(connection) != self._state[0]):
            # A file without a writer was read to its end; this is another one in its place.
            return False
        with recording_errors(self._recording):
            (version,) = connection.execute("PRAGMA data_version").fetchone()
        # The counter is per connection, and the recording may have been reopened.
        state = (id(connection), int(version))
        has_changed = state != self._state
        self._state = state
        return has_changed

    def read(self) -> Iterator[Item]:
        """Yield the new items, oldest first. Raises RecordingError."""
        items = self._items()
        return merge_output(items, self._lines()) if self._printed else items

    def _lines(self) -> Iterator[Printed]:
        for line in printed_lines(self._recording, self._after_line):
            self._after_line = line.id
            if self._first_ns <= line.at_ns and (
                self._until_ns is None or line.at_ns < self._until_ns
            ):
                yield line

    def _items(self) -> Iterator[Item]:
        oldest, newest = event_range(self._recording)
        # Events that the ring removed after they were yielded are not a gap in the output.
        gaps = self._gaps(removed=not self._read_before or oldest > self._after_id + 1)
        events: Iterable[Event] = self._recording.events(
            where=self._where,
            since_ns=self._since_ns,
            until_ns=self._until_ns,
            after_id=self._after_id,
            last=self._last,
        )
        if self._last is not None:
            self._last = None
            first, events = _first(events)
            self._first_ns = max(self._first_ns, time_ns() if first is None else first.at_ns)
            recent = [gap for gap in gaps if first is not None and gap.to_ns >= first.at_ns]
            self._too_old = {gap.id for gap in gaps if gap not in recent}
            gaps = recent
        # Newer events may belong to a session that is not read yet, so the next call yields them.
        events = takewhile(lambda event: event.id <= newest, events)
        sessions = self._recording.sessions()
        for item in self._timeline.merge(events, sessions, gaps, self._until_ns, self._notes()):
            if isinstance(item, Event):
                self._after_id = item.id
            yield item
        if newest and self._until_ns is None and (event := self._recording.event(newest)):
            yield from self._timeline.begin_after(event.at_ns, sessions)
        self._after_id = max(self._after_id, newest)
        self._read_before = True

    def _gaps(self, *, removed: bool) -> list[Gap]:
        since_ns = self._since_ns or 0
        return [
            gap
            for gap in self._recording.gaps()
            if gap.id not in self._too_old
            and gap.to_ns >= since_ns
            and (self._until_ns is None or gap.from_ns < self._until_ns)
            and (removed or gap.reason != RING_REMOVED)
        ]

    def _notes(self) -> list[Note]:
        return [
            note
            for note in self._recording.notes()
            if note.at_ns >= self._first_ns
            and (self._until_ns is None or note.at_ns < self._until_ns)
        ]


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _first(events: Iterable[Event]) -> tuple[Event | None, Iterable[Event]]:
    """Return the first event, and an iterable of all events, including the first."""
    rest = iter(events)
    first = next(rest, None)
    return first, rest if first is None else chain((first,), rest)
