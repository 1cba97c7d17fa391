# SPDX-License-Identifier: Apache-2.0
"""Read a recording as a log, once or repeatedly while it is being written.

A log is one chronological sequence of events, gaps, notes, session starts and ends, and output.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, takewhile
from pathlib import Path
from time import time_ns

from nri_scope.entries import Began, Ended, Item, time_of
from nri_scope.errors import RecordingError
from nri_scope.events import PASSIVE_ROLES, RING_REMOVED, Event, Gap, Note, Printed, Session
from nri_scope.filter import Filter

from ..file.sqlite_text import HIGHEST
from ..reading.reader import Recording
from ..reading.sqlite_errors import query_numbers, recording_errors
from ..reading.tap_tables import printed as printed_lines
from .lookup import event_range

_END = float("inf")

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
        every_session: bool = False,
    ) -> None:
        """Read from ``since_ns`` (included) to ``until_ns`` (excluded).

        ``every_session``: whether to yield also sessions without a matching event.

        ``last``: maximum number of events of the first call. ``printed``: whether to yield the
        output of plugins, regardless of ``where``. ``after``: number and time of an event that was
        read before, as everything before it; other items of the same time may be yielded again.
        """
        self._recording = recording
        self._where = where
        self._since_ns = since_ns
        self._until_ns = until_ns
        self._last = last
        self._timeline = LogMerger(every_session=every_session)
        self._every_session = every_session
        self._after_id = 0
        self._printed = printed
        self._after_line = 0
        self._first_ns = since_ns or 0
        """Time before which output and notes are not yielded."""
        self._read_before = False
        self._too_old: set[int] = set()
        """Ids of the gaps before the ``last`` events."""
        self._state: tuple[object, int] | None = None
        """The connection, and its counter of changes, at the last call of `has_new_rows`."""
        self._file = identity_of(recording.path)
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
        if not removed and identity_of(self._recording.path) != self._file:
            raise RecordingError(self._recording.path, "it was deleted, moved or replaced")
        connection = self._recording.connection
        if removed and (self._state is None or connection is not self._state[0]):
            # A file without a writer was read to its end; this is another one in its place.
            return False
        with recording_errors(self._recording):
            (version,) = connection.execute("PRAGMA data_version").fetchone()
        # The counter is per connection, and the recording may have been reopened.
        state = (connection, int(version))
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
        if self._every_session:
            yield from self._timeline.without_events(sessions)
        elif newest and self._until_ns is None and (event := self._recording.event(newest)):
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


def identity_of(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a file; None if they cannot be read."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _first(events: Iterable[Event]) -> tuple[Event | None, Iterable[Event]]:
    """Return the first event, and an iterable of all events, including the first."""
    iterator = iter(events)
    first = next(iterator, None)
    return first, iterator if first is None else chain((first,), iterator)


class LogMerger:
    """Merger of events with gaps, notes, and session starts and ends; it yields each item once.

    Events keep their recorded order. Any other item precedes the first event that is not earlier
    than the item; a gap that begins with an event, its recorder's last, follows that event.
    """

    def __init__(self, *, every_session: bool = False) -> None:
        """``every_session``: whether a session begins also before its first gap or note."""
        self._every_session = every_session
        self._waiting: dict[int, Session] = {}
        self._yielded: set[tuple[type, int]] = set()
        """Types and ids of the gaps and notes already yielded."""
        self._open: dict[int, Session] = {}
        self._began: set[int] = set()
        self._ended: set[int] = set()

    def expect_ends(self, sessions: Iterable[Session]) -> None:
        """Yield the ends of ``sessions``, whose starts another timeline has yielded."""
        self._open |= {session.id: session for session in sessions}

    def merge(
        self,
        events: Iterable[Event],
        sessions: Sequence[Session],
        gaps: Iterable[Gap],
        until_ns: int | None = None,
        notes: Iterable[Note] = (),
    ) -> Iterator[Item]:
        """Yield ``events``, merged with the ``gaps`` and ``notes`` that were not yielded before.

        To follow a growing recording, call this again with the new events and all current
        ``sessions``, ``gaps`` and ``notes``. After the last event come the remaining items before
        ``until_ns``, or all of them.
        """
        by_id = {session.id: session for session in sessions}
        self._waiting = by_id.copy() if self._every_session else {}
        between: list[Gap | Note] = [*gaps, *notes]
        pending = sorted(
            (item for item in between if (type(item), item.id) not in self._yielded),
            key=lambda item: (_due(item), type(item) is Gap, item.id),
            reverse=True,
        )
        self._open = {number: by_id.get(number, session) for number, session in self._open.items()}
        next_ns = self._next(pending)
        for event in events:
            if event.at_ns >= next_ns:
                yield from self._until(event.at_ns, pending)
                next_ns = self._next(pending)
            if event.session not in self._began:
                self._began.add(event.session)
                session = by_id.get(event.session)
                if session is not None:
                    self._open[session.id] = session
                    yield Began(session)
                    next_ns = self._next(pending)
            yield event
        yield from self._until(_END if until_ns is None else until_ns - 1, pending)

    def begin_after(self, at_ns: int, sessions: Iterable[Session]) -> Iterator[Began]:
        """Yield the starts of open sessions after the time of the newest event, as they have none.

        A copy of the events about one pod has such a session if recording goes on.
        """
        for session in sessions:
            if session.started_ns > at_ns and session.id not in self._began:
                self._began.add(session.id)
                self._open[session.id] = session
                yield Began(session)

    def without_events(self, sessions: Iterable[Session]) -> Iterator[Began | Ended]:
        """Yield the starts, and ends, of sessions that had no event so far."""
        for session in sessions:
            if session.id not in self._began | self._open.keys() | self._ended:
                self._began.add(session.id)
                yield Began(session)
                if session.ended_ns is None and not session.end_reason:
                    self._open[session.id] = session
                else:
                    yield Ended(session)

    def _next(self, pending: list[Gap | Note]) -> float:
        """Return the time of the next gap, note or session end."""
        times: list[float] = [
            session.ended_ns for session in self._open.values() if session.ended_ns is not None
        ]
        if pending:
            times.append(_due(pending[-1]))
        return min(times, default=_END)

    def _until(self, at_ns: float, pending: list[Gap | Note]) -> Iterator[Item]:
        due: list[tuple[int, int, Gap | Note | Began | Ended]] = []
        while pending and _due(pending[-1]) <= at_ns:
            item = pending.pop()
            self._yielded.add((type(item), item.id))
            session = self._waiting.pop(item.session or 0, None)
            if session is not None and session.id not in self._began:
                self._began.add(session.id)
                self._open[session.id] = session
                due.append((time_of(item), 0, Began(session)))
            due.append((time_of(item), 1, item))
        for session in list(self._open.values()):
            # A killed recorder's session ends with its last event.
            if session.ended_ns is not None and session.ended_ns < at_ns:
                del self._open[session.id]
                self._ended.add(session.id)
                due.append((session.ended_ns, 0, Ended(session)))
        yield from (item for _, _, item in sorted(due, key=lambda entry: entry[:2]))


def _due(item: Gap | Note) -> int:
    """Return the time in ns from which on an item precedes events."""
    return time_of(item) + (type(item) is Gap)


def merge_output(items: Iterable[Item], lines: Iterable[Printed]) -> Iterator[Item]:
    """Yield ``items`` merged with ``lines`` printed by plugins; both in chronological order."""
    remaining = iter(lines)
    line = next(remaining, None)
    for item in items:
        # Yield no lines before a start: they belong between it and the next event.
        until_ns = 0 if isinstance(item, Began) else time_of(item)
        while line is not None and line.at_ns < until_ns:
            yield line
            line = next(remaining, None)
        yield item
    if line is not None:
        yield line
        yield from remaining


def sessions_overlap(sessions: Iterable[Session]) -> bool:
    """Return whether any two sessions overlapped in time."""
    latest: float = -_END
    for session in sorted(sessions, key=lambda session: session.started_ns):
        if session.started_ns < latest:
            return True
        if session.ended_ns is not None:
            latest = max(latest, session.ended_ns)
        elif not session.end_reason:
            # The session is open, unless its recorder was killed.
            latest = _END
    return False


def can_show_times(sessions: Iterable[Session]) -> bool:
    """Return whether the sessions can show a plugin's time; one passive session cannot."""
    chain = [session for session in sessions if session.is_connection]
    has_plugin = any(session.role not in PASSIVE_ROLES for session in chain)
    return has_plugin or sessions_overlap(chain)
