# SPDX-License-Identifier: Apache-2.0
"""Write entries other than events as rows, inside a transaction."""

from __future__ import annotations

import sqlite3
from dataclasses import asdict, dataclass, field

from nri_scope.capture.sink import (
    Begin,
    ControlEntry,
    End,
    EntryRedaction,
    Queued,
    Resume,
    ShownLine,
)
from nri_scope.entries import CallsByMetrics, EarlierState, RecordedCall
from nri_scope.events import (
    KILLED,
    CapturedCall,
    Container,
    Event,
    Gap,
    Note,
    Pod,
    Printed,
    Role,
    SessionStart,
    UserMark,
)
from nri_scope.recording.file.row_limits import (
    TOO_MANY_GAPS,
    TOO_MANY_NOTES,
    TOO_MANY_SESSIONS,
    LimitReached,
    RowLimits,
)
from nri_scope.recording.file.schema import STARTS_MAX
from nri_scope.recording.file.sqlite_text import WORDS_MAX, int64, named, storable

from .encode import INSERT_PLUGIN_CALLS, Encoder, OpenSession

Written = Queued | Pod | Container | EarlierState | RecordedCall | UserMark
"""What a recording is written from: what a recorder receives, and entries of other recordings."""
_ROW_BYTES = 90
"""Approximate bytes of a row, without objects."""
_REMOVE_OLD_CALLS = (
    "DELETE FROM plugin_calls WHERE since_ns < (SELECT min(since_ns) FROM (SELECT DISTINCT "
    "since_ns FROM plugin_calls WHERE since_ns <> ? ORDER BY since_ns DESC LIMIT ?))"
)


@dataclass(slots=True)
class BatchResult:
    """Counts of the entries of one batch, and what others need of them."""

    recorded: int = 0
    filtered: int = 0
    lost: int = 0
    late: int = 0
    """Number of events not written before the deadline; gaps count them."""
    gaps: int = 0
    lost_before: int = 0
    """Number of events that a killed recorder received but did not write; included in ``lost``."""
    received: dict[int, int] = field(default_factory=dict)
    """Number of events of each open session so far, recorded or not, by session number."""
    ended: list[int] = field(default_factory=list)
    """Numbers of the sessions that ended."""
    events: list[tuple[Event, CapturedCall]] = field(default_factory=list)
    shown: list[ShownLine] = field(default_factory=list)
    """Lines to print, which are not in the file."""
    problems: list[str] = field(default_factory=list)
    """Problems that did not abort the batch."""
    failure: str = ""
    """Why the batch could not be written, and is to be written again; "" if it was written."""


@dataclass(slots=True)
class RecordedSessions:
    """State of the sessions that entries refer to, by number."""

    open: dict[int, OpenSession] = field(default_factory=dict)
    starts: dict[int, SessionStart] = field(default_factory=dict)
    """Starts of the open sessions, with which they begin again in a new file."""
    refused: set[int] = field(default_factory=set)
    """Open sessions that were refused because the recording has too many."""
    ended: set[int] = field(default_factory=set)
    """Sessions that ended in this file."""
    killed_ns: int = 0
    """Time of a killed recorder's last event; 0 once the next session begins."""

    def copy(self) -> RecordedSessions:
        """Return the current state, which further entries do not change."""
        opened = {number: session.copy() for number, session in self.open.items()}
        starts, refused, ended = dict(self.starts), set(self.refused), set(self.ended)
        return RecordedSessions(opened, starts, refused, ended, self.killed_ns)


@dataclass(slots=True)
class EntryWriter:
    """Writer of the entries of one transaction, which its methods neither begin nor end.

    It does not write events, but counts them, too.
    """

    connection: sqlite3.Connection
    encoder: Encoder
    sessions: RecordedSessions
    limits: RowLimits
    redaction: EntryRedaction | None
    """Applied to all data before it is written."""
    result: BatchResult = field(default_factory=BatchResult)
    _printed_bytes: int = 0

    @property
    def row_bytes(self) -> int:
        """Approximate bytes of the rows of events and printed lines, without objects."""
        return self.result.recorded * _ROW_BYTES + self._printed_bytes

    def apply(self, entry: Written) -> None:
        """Write an entry other than an event. Raises sqlite3.Error."""
        if self.redaction is not None and isinstance(entry, ControlEntry):
            entry = self.redaction.redact_entry(entry)
        match entry:
            case Begin():
                self._begin(entry)
            case Resume():
                self._resume(entry)
            case End():
                self._end(entry)
            case Gap():
                self._gap(entry)
            case Note():
                self._note(entry)
            case CallsByMetrics():
                self._calls_by_metrics(entry)
            case Printed():
                self._printed(entry)
            case ShownLine():
                self.result.shown.append(entry)
            case EarlierState(session):
                self.encoder.add_state(self.sessions.open[session], entry)
            case Pod() | Container():
                try:
                    self.encoder.subjects.add(entry)
                except LimitReached as full:
                    self.refuse(str(full), 0, 0, 0)
            case UserMark():
                self._mark(entry)

    # -- sessions ---------------------------------------------------------------------------

    def _begin(self, begin: Begin) -> None:
        number, start, sessions = begin.session, begin.start, self.sessions
        if number in sessions.ended and self._reopen(number, start):
            self._continue(number)
            return
        if not self.limits.reserve_session(start):
            sessions.refused.add(number)
            self.refuse(TOO_MANY_SESSIONS, start.started_ns, start.started_ns, 0)
            return
        if number not in sessions.open:
            sessions.open[number] = OpenSession.begin(number, start)
        sessions.starts[number] = start
        if start.role != Role.V01:
            if 0 < sessions.killed_ns < start.started_ns:
                self.apply(Gap(0, None, sessions.killed_ns, start.started_ns, KILLED, None))
            sessions.killed_ns = 0
        insert_session(self.connection, begin, self.encoder.next_event)

    def _continue(self, number: int) -> None:
        """Continue the numbers of events of a session that ended in this file."""
        self.sessions.ended.discard(number)
        self.encoder.flush()
        (seq,) = self.connection.execute(
            "SELECT max(seq) FROM event WHERE session = ?", (number,)
        ).fetchone()
        self.sessions.open[number].seq = seq or 0

    def _reopen(self, number: int, start: SessionStart) -> bool:
        """Open a session that has ended; return False if it is not in the file."""
        reopened = self.connection.execute(
            "UPDATE session SET ended_ns = NULL, end_reason = '', last_event = NULL WHERE id = ?",
            (number,),
        )
        if not reopened.rowcount:
            return False
        self.sessions.open[number] = OpenSession.begin(number, start)
        self.sessions.starts[number] = start
        return True

    def _resume(self, resumed: Resume) -> None:
        """Continue a session that is in the file, or begin it."""
        number, start = resumed.session, resumed.start
        row = self.connection.execute(
            "SELECT seq, at_ns FROM event WHERE session = ? "
            "AND id >= (SELECT first_event FROM session WHERE id = ?) ORDER BY id DESC LIMIT 1",
            (number, number),
        ).fetchone()
        stored, from_ns = row or (0, start.started_ns)
        # Events reported as lost since then have sequence numbers, too.
        (counted,) = self.connection.execute(
            "SELECT coalesce(sum(lost), 0) FROM gap WHERE session = ? AND from_ns >= ?",
            (number, int64(from_ns)),
        ).fetchone()
        self.sessions.killed_ns = 0
        if not self._reopen(number, start):
            self.apply(Begin(number, start))
        # The killed recorder wrote some events without reporting them.
        self.result.recorded += max(0, stored - resumed.confirmed)
        accounted = max(stored + counted, resumed.confirmed)
        lost = max(0, resumed.received - accounted)
        to_ns = max(from_ns, resumed.to_ns)
        if lost:
            self.result.lost += lost
            self.result.lost_before += lost
            missed = Gap(0, number, from_ns, to_ns, resumed.reason, lost, lost)
            self.apply(missed)
        else:
            remark = Note(0, number, to_ns, f"{resumed.reason}; no event was lost")
            self.apply(remark)
        session = self.sessions.open.get(number)
        if session is not None:
            session.seq = resumed.received

    def _end(self, end: End) -> None:
        number, sessions = end.session, self.sessions
        self.result.ended.append(number)
        if number in sessions.refused:
            sessions.refused.discard(number)
            return
        sessions.open.pop(number, None)
        sessions.starts.pop(number, None)
        sessions.ended.add(number)
        self.encoder.subjects.forget_creations(number)
        ended_ns = None if end.at_ns is None else int64(end.at_ns)
        self.connection.execute(
            "UPDATE session SET ended_ns = ?, end_reason = ?, last_event = ? WHERE id = ?",
            (ended_ns, named(end.reason), self.encoder.next_event - 1, number),
        )

    # -- other entries ----------------------------------------------------------------------

    def _gap(self, gap: Gap) -> None:
        session = self.sessions.open.get(gap.session) if gap.session is not None else None
        if session is not None:
            session.seq += gap.dropped
        lost = 0 if gap.dropped else gap.lost or 0
        if not self.limits.reserve("gap", min(len(gap.reason), WORDS_MAX)):
            self.refuse(TOO_MANY_GAPS, gap.from_ns, gap.to_ns, lost)
            return
        if not gap.is_left_out:
            self.encoder.subjects.forget_creations(gap.session)
        self.result.gaps += 1
        self.result.lost += lost
        number = None if gap.session in self.sessions.refused else gap.session
        times = int64(gap.from_ns), int64(gap.to_ns)
        self.connection.execute(
            "INSERT INTO gap (session, from_ns, to_ns, reason, lost) VALUES (?, ?, ?, ?, ?)",
            (number, *times, storable(gap.reason), gap.lost),
        )

    def _note(self, note: Note) -> None:
        if not self.limits.reserve("note", min(len(note.text), WORDS_MAX)):
            self.refuse(TOO_MANY_NOTES, note.at_ns, note.at_ns, 0)
            return
        self.connection.execute(
            "INSERT INTO note (session, at_ns, text) VALUES (?, ?, ?)",
            (note.session, int64(note.at_ns), storable(note.text)),
        )

    def _calls_by_metrics(self, entry: CallsByMetrics) -> None:
        since_ns, until_ns = entry.since_ns, entry.until_ns
        self.connection.execute(_REMOVE_OLD_CALLS, (since_ns, STARTS_MAX - 1))
        self.connection.executemany(
            INSERT_PLUGIN_CALLS,
            (
                (since_ns, named(plugin), named(operation), until_ns, *map(int64, counts))
                for plugin, operation, *counts in entry.calls
            ),
        )

    def _printed(self, line: Printed) -> None:
        number, text = line.session, line.text
        if number in self.sessions.open or number in self.sessions.ended:
            self.connection.execute(
                "INSERT INTO output (session, at_ns, stream, text) VALUES (?, ?, ?, ?)",
                (number, int64(line.at_ns), named(line.stream), storable(text)),
            )
            self._printed_bytes += len(text) + _ROW_BYTES

    def _mark(self, mark: UserMark) -> None:
        self.encoder.flush()
        self.connection.execute(
            "INSERT INTO mark (event, made_ns, comment) "
            "SELECT id, ?, ? FROM event WHERE id = ? AND at_ns = ?",
            (mark.made_ns, storable(mark.comment), mark.event, mark.at_ns),
        )

    def refuse(self, reason: str, from_ns: int, to_ns: int, lost: int) -> None:
        """Report rows refused because of a limit of the recording, and ``lost`` events."""
        self.result.lost += lost
        if self.limits.refuse(reason, from_ns, to_ns, lost):
            self.result.gaps += 1
            self.result.problems.append(reason)


def insert_session(connection: sqlite3.Connection, begin: Begin, first_event: int) -> None:
    """Insert a session that has not ended, and whose first event gets this number."""
    row: dict[str, str | int | None] = {
        name: named(str(value)) if isinstance(value, str) else int64(value)
        for name, value in asdict(begin.start).items()
    }
    row |= {"id": begin.session, "end_reason": "", "first_event": first_event}
    row["synced_ns"] = None if begin.synced_ns is None else int64(begin.synced_ns)
    places = ", ".join("?" * len(row))
    connection.execute(
        f"INSERT INTO session ({', '.join(row)}) VALUES ({places})", tuple(row.values())
    )
