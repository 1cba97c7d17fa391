# SPDX-License-Identifier: Apache-2.0
"""Write batches of entries to a recording, each in one transaction."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from nri_scope.entries import CallsByMetrics, EarlierState, Exchange
from nri_scope.errors import RecordingError
from nri_scope.events import (
    KILLED,
    CapturedCall,
    Container,
    Event,
    Gap,
    Mark,
    Note,
    Pod,
    Printed,
    Role,
    SessionStart,
)
from nri_scope.recording.blobs import MAX_CONTENT
from nri_scope.recording.row_limits import (
    TOO_MANY_GAPS,
    TOO_MANY_NOTES,
    TOO_MANY_SESSIONS,
    LimitReached,
    RowLimits,
)
from nri_scope.recording.schema import STARTS_MAX
from nri_scope.recording.sqlite_text import WORDS_MAX, int64, named, storable
from nri_scope.recording.writable_file import PAGE, RecordingFile

from .content_store import ObjectStore
from .encode import INSERT_PLUGIN_CALLS, Encoder, OpenSession
from .inbox import Begin, ControlEntry, End, Queued, Resume, ShownLine
from .ring import Checkpointer, Ring, oldest_stretch, remove_oldest_stretch

if TYPE_CHECKING:
    from .inbox import EntryRedaction

Written = Queued | Pod | Container | EarlierState | Exchange | Mark
"""What a recording is written from: what a recorder receives, and entries of other recordings."""
DELETED = "the file was deleted or moved; what was recorded before is not in the new one"

LATE = "recording ended before they could be written"

_BATCH_STRETCHES = 4
"""Maximum size of a batch in stretches, of which a recording has 16 or more."""
_FLUSH_EVENTS = 12
"""Number of events whose rows are passed to SQLite together."""
_YIELD_EVENTS = 6
"""Number of events, about 150 µs of work, after which this thread sleeps briefly. SQLite, zstd and
the hash functions release the GIL too briefly for the replying thread to acquire it.
"""
_PAUSE_SECONDS = 15e-6
_ROW_BYTES = 90
"""Approximate bytes of a row, without objects."""
_REMOVE_OLD_CALLS = (
    "DELETE FROM plugin_calls WHERE since_ns < (SELECT min(since_ns) FROM (SELECT DISTINCT "
    "since_ns FROM plugin_calls WHERE since_ns <> ? ORDER BY since_ns DESC LIMIT ?))"
)
_LOG_BYTES = 4 << 20
"""Size of the write-ahead log above which it is moved into the file."""


@dataclass(slots=True)
class BatchResult:
    """Result of one batch."""

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


class TransactionWriter:
    """Writer of an open recording, for use by the writer thread.

    `write` and `tidy` raise sqlite3.Error or RecordingError if the file cannot be written. In that
    case the transaction was rolled back, and the call can be repeated.
    """

    def __init__(
        self,
        file: RecordingFile,
        ring: Ring,
        keep: Callable[[Event], bool] | None = None,
        *,
        want_events: bool = False,
        background: bool = False,
        alone: bool = False,
        redaction: EntryRedaction | None = None,
    ) -> None:
        """Set up the file for writing. ``redaction`` is applied to all data before it is written.

        ``background``: whether another thread is more urgent, so that this one yields regularly
        and a third one does the checkpoints. ``alone``: whether all urgent work is in other
        processes, so that yielding need not release the GIL. Raises RecordingError.
        """
        self.path = file.path
        self.is_too_late: Callable[[], bool] | None = None
        """Deadline check, called before each event. If True, the remaining events become a gap."""
        self.removed = 0
        """Number of events that the ring removed."""
        self._ring = ring
        self._keep = keep
        self._want_events = want_events
        self._redaction = redaction
        self._file: RecordingFile | None = file
        self._background = background
        self._alone = alone
        self._checkpointer: Checkpointer | None = None
        self._encoder: Encoder | None = None
        self._sessions: dict[int, OpenSession] = {}
        self._starts: dict[int, SessionStart] = {}
        self._preface: list[Written] = []
        self._limits = RowLimits(file.connection)
        self._refused: set[int] = set()
        """Open sessions that were refused because the recording has too many."""
        self._ended: set[int] = set()
        """Sessions that ended in this file."""
        self._stretch_bytes = 0
        self._stretch_began = 0.0
        self._removal: Iterator[int] | None = None
        """Remaining steps of the removal of the oldest stretch."""
        self._removed_in_stretch = 0
        self._is_removal_futile = False
        """Whether removing stretches frees no space until the next stretch begins."""
        self._killed_ns = 0
        """Time of a killed recorder's last event; 0 once the next session begins."""
        try:
            self._set_up(file)
            (newest,) = file.connection.execute("SELECT max(id) FROM session").fetchone()
        except sqlite3.Error as error:
            self.close()
            raise RecordingError(self.path, f"cannot record: {error}") from error
        self.next_session: int = (newest or 0) + 1

    @property
    def idle_seconds(self) -> float:
        """Seconds after which an idle recording must be tidied again; negative: never."""
        seconds = self._ring.stretch_seconds
        return -1.0 if seconds is None else seconds

    @property
    def batch_bytes(self) -> int:
        """Maximum number of bytes of a batch, for the size limit to be kept.

        A batch is part of one stretch, which the ring only removes as a whole.
        """
        return _BATCH_STRETCHES * self._ring.stretch_bytes

    def write(self, batch: Sequence[Written]) -> BatchResult:
        """Store the batch in one transaction: either all entries or none."""
        before = self._file
        connection = self._connection(batch)
        sessions = {number: replace(session) for number, session in self._sessions.items()}
        refused, ended = set(self._refused), set(self._ended)
        starts = dict(self._starts)
        killed_ns = self._killed_ns
        written = BatchResult()
        if self._file is not before:
            written.problems.append(f"{self.path}: {DELETED}")
        try:
            connection.execute("BEGIN IMMEDIATE")
            encoder = self._begin(connection)
            stored_before = encoder.objects.stored_bytes
            for entry in self._preface:
                self._apply(connection, encoder, entry, written)
            for number, entry in enumerate(_in_time(batch, self.is_too_late, written), 1):
                self._apply(connection, encoder, entry, written)
                if self._background:
                    if encoder.buffered >= _FLUSH_EVENTS:
                        encoder.flush()
                    self._yield_to_other_threads(number)
            encoder.flush()
            connection.execute("COMMIT")
        except BaseException:
            self._sessions, self._starts, self._killed_ns = sessions, starts, killed_ns
            self._refused, self._ended = refused, ended
            self._roll_back(connection)
            raise
        if self._checkpointer is not None:
            self._checkpointer.after_commit()
        self._preface = []
        written.received = {number: session.seq for number, session in self._sessions.items()}
        self._stretch_bytes += encoder.objects.stored_bytes - stored_before
        self._stretch_bytes += written.recorded * _ROW_BYTES
        return written

    def _yield_to_other_threads(self, number: int) -> None:
        if self._alone:
            # In Python 3.11 this does not release the GIL, so it only helps other processes.
            os.sched_yield()
        elif number % _YIELD_EVENTS == 0 or self._redaction is not None:
            time.sleep(_PAUSE_SECONDS)

    def tidy(self) -> bool:
        """Perform one step of the ring's removal; return whether there are more."""
        file = self._file
        if file is None or (self._ring.max_size is None and self._ring.max_age is None):
            return False
        connection = file.connection
        try:
            if self._removal is None:
                return self._begin_removal(connection)
            removed = next(self._removal, None)
        except BaseException:
            self._roll_back(connection)
            raise
        if removed is None:
            self._removal = None
            self._limits.recount()
            # If only the Synchronize state is left, the file may stay above its limit.
            some = connection.execute("SELECT 1 FROM event LIMIT 1").fetchone()
            self._is_removal_futile = not self._removed_in_stretch and some is None
            if self._checkpointer is not None:
                self._checkpointer.request()
        else:
            self.removed += removed
            self._removed_in_stretch += removed
            if self._checkpointer is not None:
                self._checkpointer.after_commit()
        return True

    def close(self) -> None:
        """Close the file. Never raises."""
        # The last connection to be closed cleans up; this must be the writer's.
        if self._checkpointer is not None:
            self._checkpointer.close()
        if self._file is not None:
            self._file.close()
        self._file = self._checkpointer = self._encoder = self._removal = None

    # -- the file ---------------------------------------------------------------------------

    def _set_up(self, file: RecordingFile) -> None:
        connection = file.connection
        self._limits = RowLimits(connection)
        log_bytes = min(_LOG_BYTES, self._ring.log_bytes // 2)
        pages = 0 if self._background else log_bytes // PAGE
        connection.execute(f"PRAGMA wal_autocheckpoint = {pages}").fetchall()
        connection.execute(f"PRAGMA journal_size_limit = {log_bytes}").fetchall()
        if self._background:
            self._checkpointer = Checkpointer(file.path, log_bytes, self._ring.log_bytes)
        # The lock excludes other recorders, so the recorder of any open session was killed.
        (self._killed_ns,) = connection.execute(
            "SELECT coalesce(max(coalesce((SELECT at_ns FROM event WHERE id >= first_event "
            "AND event.session = session.id ORDER BY id DESC LIMIT 1), started_ns)), 0) "
            # The spool of NRI 0.1 keeps what happens without a recorder.
            "FROM session WHERE last_event IS NULL AND role != ?",
            (Role.V01,),
        ).fetchone()
        connection.execute(
            "UPDATE session SET end_reason = ?, "
            "last_event = (SELECT coalesce(max(id), 0) FROM event) WHERE last_event IS NULL",
            (KILLED,),
        )

    def _connection(self, batch: Sequence[Written]) -> sqlite3.Connection:
        file = self._file
        if file is not None:
            if not file.replaced:
                return file.connection
            if not file.deleted:
                raise RecordingError(self.path, "another file is in its place")
            self.close()
        file = RecordingFile.open(self.path, only_new=True)
        try:
            self._set_up(file)
        except sqlite3.Error:
            file.close()
            self.path.unlink(missing_ok=True)
            raise
        self._file = file
        self._ended.clear()
        self._preface = [Begin(number, start) for number, start in self._starts.items()]
        first = min((start.started_ns for start in self._starts.values()), default=time.time_ns())
        # The new file's content begins with the batch, not now.
        events = (entry[1].wall_ns for entry in batch if type(entry) is tuple)
        self._preface.append(Gap(0, None, first, next(events, time.time_ns()), DELETED, None))
        return file.connection

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        # Both depend on rows that the rollback undid.
        self._encoder = self._removal = None
        self._limits.recount()
        if connection.in_transaction:
            connection.rollback()

    # -- inside a transaction ---------------------------------------------------------------

    def _begin(self, connection: sqlite3.Connection) -> Encoder:
        seconds = self._ring.stretch_seconds
        encoder = self._encoder
        if encoder is None:
            next_event, next_object = _next_ids(connection)
            empty = not connection.execute(
                "SELECT EXISTS (SELECT 1 FROM pod) OR EXISTS (SELECT 1 FROM container)"
            ).fetchone()[0]
            encoder = self._encoder = Encoder(
                connection,
                ObjectStore(next_object),
                next_event=next_event,
                empty=empty,
                redact=self._redaction.redact_call if self._redaction is not None else None,
            )
        elif self._stretch_bytes >= self._ring.stretch_bytes or (
            seconds is not None and time.monotonic() - self._stretch_began >= seconds
        ):
            encoder.objects.begin_stretch()
            self._is_removal_futile = False
        else:
            return encoder
        connection.execute(
            "INSERT INTO stretch (first_event, first_object) VALUES (?, ?)",
            (encoder.next_event, encoder.objects.next_id),
        )
        self._stretch_bytes = 0
        self._stretch_began = time.monotonic()
        return encoder

    def _apply(
        self, connection: sqlite3.Connection, encoder: Encoder, entry: Written, written: BatchResult
    ) -> None:
        if self._redaction is not None and isinstance(entry, ControlEntry):
            entry = self._redaction.redact_entry(entry)
        match entry:
            case (number, item) if number in self._refused:
                self._refuse(TOO_MANY_SESSIONS, item.wall_ns, item.wall_ns, 1, written)
            case (number, item):
                self._store(connection, encoder, number, item, written)
            case Begin(number, start) if self._continue(connection, encoder, number, start):
                pass
            case Begin(number, start) if not self._limits.reserve_session(start):
                self._refused.add(number)
                self._refuse(TOO_MANY_SESSIONS, start.started_ns, start.started_ns, 0, written)
            case End(number) if number in self._refused:
                self._refused.discard(number)
                written.ended.append(number)
            case Resume():
                self._resume(connection, encoder, entry, written)
            case Begin(number, start):
                if number not in self._sessions:
                    self._sessions[number] = OpenSession.begin(number, start)
                self._starts[number] = start
                if start.role != Role.V01:
                    if 0 < self._killed_ns < start.started_ns:
                        missed = Gap(0, None, self._killed_ns, start.started_ns, KILLED, None)
                        self._apply(connection, encoder, missed, written)
                    self._killed_ns = 0
                _insert_session(connection, number, start, encoder.next_event)
            case End(number, reason, at_ns):
                self._sessions.pop(number, None)
                self._starts.pop(number, None)
                self._ended.add(number)
                encoder.subjects.forget_creations(number)
                written.ended.append(number)
                connection.execute(
                    "UPDATE session SET ended_ns = ?, end_reason = ?, last_event = ? WHERE id = ?",
                    (
                        None if at_ns is None else int64(at_ns),
                        named(reason),
                        encoder.next_event - 1,
                        number,
                    ),
                )
            case Gap(_, number, from_ns, to_ns, reason, lost, dropped):
                session = self._sessions.get(number) if number is not None else None
                if session is not None:
                    session.seq += dropped
                lost_here = 0 if dropped else lost or 0
                if not self._limits.reserve("gap", min(len(reason), WORDS_MAX)):
                    self._refuse(TOO_MANY_GAPS, from_ns, to_ns, lost_here, written)
                    return
                encoder.subjects.forget_creations(number)
                written.gaps += 1
                written.lost += lost_here
                connection.execute(
                    "INSERT INTO gap (session, from_ns, to_ns, reason, lost) "
                    "VALUES (?, ?, ?, ?, ?)",
                    (
                        None if number in self._refused else number,
                        int64(from_ns),
                        int64(to_ns),
                        storable(reason),
                        lost,
                    ),
                )
            case Note(_, _, at_ns, text) if not self._limits.reserve(
                "note", min(len(text), WORDS_MAX)
            ):
                self._refuse(TOO_MANY_NOTES, at_ns, at_ns, 0, written)
            case Note(_, number, at_ns, text):
                connection.execute(
                    "INSERT INTO note (session, at_ns, text) VALUES (?, ?, ?)",
                    (number, int64(at_ns), storable(text)),
                )
            case CallsByMetrics(since_ns, until_ns, calls):
                connection.execute(_REMOVE_OLD_CALLS, (since_ns, STARTS_MAX - 1))
                connection.executemany(
                    INSERT_PLUGIN_CALLS,
                    (
                        (since_ns, named(plugin), named(operation), until_ns, *map(int64, rest))
                        for plugin, operation, *rest in calls
                    ),
                )
            case Printed(_, number, at_ns, stream, text):
                if number in self._sessions or number in self._ended:
                    connection.execute(
                        "INSERT INTO output (session, at_ns, stream, text) VALUES (?, ?, ?, ?)",
                        (number, int64(at_ns), named(stream), storable(text)),
                    )
                    self._stretch_bytes += len(text) + _ROW_BYTES
            case ShownLine():
                written.shown.append(entry)
            case Exchange(event):
                self._store(connection, encoder, event.session, entry.call, written, entry)
            case EarlierState():
                encoder.add_state(self._sessions[entry.session], entry)
            case Pod() | Container():
                try:
                    encoder.subjects.add(entry)
                except LimitReached as full:
                    self._refuse(str(full), 0, 0, 0, written)
            case Mark():
                encoder.flush()
                connection.execute(
                    "INSERT INTO mark (event, made_ns, comment) "
                    "SELECT id, ?, ? FROM event WHERE id = ? AND at_ns = ?",
                    (entry.made_ns, storable(entry.comment), entry.event, entry.at_ns),
                )

    def _continue(
        self, connection: sqlite3.Connection, encoder: Encoder, number: int, start: SessionStart
    ) -> bool:
        """Open a session that has ended in this file; return False if there is none."""
        if number not in self._ended or not self._reopen(connection, number, start):
            return False
        self._ended.discard(number)
        encoder.flush()
        (seq,) = connection.execute(
            "SELECT max(seq) FROM event WHERE session = ?", (number,)
        ).fetchone()
        self._sessions[number].seq = seq or 0
        return True

    def _reopen(self, connection: sqlite3.Connection, number: int, start: SessionStart) -> bool:
        """Open a session that has ended; return False if it is not in the file."""
        reopened = connection.execute(
            "UPDATE session SET ended_ns = NULL, end_reason = '', last_event = NULL WHERE id = ?",
            (number,),
        )
        if not reopened.rowcount:
            return False
        self._sessions[number] = OpenSession.begin(number, start)
        self._starts[number] = start
        return True

    def _resume(
        self,
        connection: sqlite3.Connection,
        encoder: Encoder,
        resumed: Resume,
        written: BatchResult,
    ) -> None:
        """Continue a session that is in the file, or begin it."""
        number, start = resumed.session, resumed.start
        row = connection.execute(
            "SELECT seq, at_ns FROM event WHERE session = ? "
            "AND id >= (SELECT first_event FROM session WHERE id = ?) ORDER BY id DESC LIMIT 1",
            (number, number),
        ).fetchone()
        stored, from_ns = row or (0, start.started_ns)
        # Events reported as lost since then have sequence numbers, too.
        (counted,) = connection.execute(
            "SELECT coalesce(sum(lost), 0) FROM gap WHERE session = ? AND from_ns >= ?",
            (number, int64(from_ns)),
        ).fetchone()
        self._killed_ns = 0
        if not self._reopen(connection, number, start):
            self._apply(connection, encoder, Begin(number, start), written)
        # These events were written, but the killed recorder did not report them.
        written.recorded += max(0, stored - resumed.confirmed)
        accounted = max(stored + counted, resumed.confirmed)
        lost = max(0, resumed.received - accounted)
        to_ns = max(from_ns, resumed.to_ns)
        if lost:
            written.lost += lost
            written.lost_before += lost
            missed = Gap(0, number, from_ns, to_ns, resumed.reason, lost, lost)
            self._apply(connection, encoder, missed, written)
        else:
            remark = Note(0, number, to_ns, f"{resumed.reason}; no event was lost")
            self._apply(connection, encoder, remark, written)
        session = self._sessions.get(number)
        if session is not None:
            session.seq = resumed.received

    def _store(
        self,
        connection: sqlite3.Connection,
        encoder: Encoder,
        number: int,
        item: CapturedCall,
        written: BatchResult,
        known: Exchange | None = None,
    ) -> None:
        session = self._sessions.get(number)
        try:
            if session is None:
                raise ValueError("an event outside of a session")
            if max(len(item.request), len(item.reply)) > MAX_CONTENT:
                raise ValueError(f"an event of more than {MAX_CONTENT} bytes")
            kept, event, item = encoder.encode(
                session,
                item,
                keep=self._guarded(written) if self._keep is not None else None,
                want_event=self._want_events,
                known=known,
            )
        except sqlite3.Error:
            raise
        except LimitReached as full:
            self._refuse(str(full), item.wall_ns, item.wall_ns, 1, written)
            return
        except Exception as error:  # noqa: BLE001 - one bad event must not end the recording
            # The error's text may contain a secret that redaction has not replaced.
            words = "" if self._redaction is not None else f": {error}"
            problem = f"{item.method} could not be recorded: {type(error).__name__}{words}"
            written.problems.append(problem)
            missed = Gap(0, number, item.wall_ns, item.wall_ns, problem, 1)
            self._apply(connection, encoder, missed, written)
            return
        if not kept:
            written.filtered += 1
            return
        written.recorded += 1
        if event is not None and self._want_events:
            written.events.append((event, item))

    def _refuse(
        self, reason: str, from_ns: int, to_ns: int, lost: int, written: BatchResult
    ) -> None:
        """Report rows refused because of a limit of the recording, and ``lost`` events."""
        written.lost += lost
        if self._limits.refuse(reason, from_ns, to_ns, lost):
            written.gaps += 1
            written.problems.append(reason)

    def _guarded(self, written: BatchResult) -> Callable[[Event], bool]:
        def keep(event: Event) -> bool:
            assert self._keep is not None
            try:
                return self._keep(event)
            except Exception as error:  # noqa: BLE001 - a bug of the caller; keep the event
                written.problems.append(f"the filter failed: {type(error).__name__}: {error}")
                return True

        return keep

    # -- the ring ---------------------------------------------------------------------------

    def _begin_removal(self, connection: sqlite3.Connection) -> bool:
        too_large = not self._is_removal_futile and self._ring.is_too_large(connection)
        if not too_large and not self._ring.is_too_old(connection, time.time_ns()):
            return False
        if oldest_stretch(connection) is None or self._encoder is None:
            # The stretch to be removed is the current one: begin a new one first.
            self._stretch_bytes = self._ring.stretch_bytes
            self.write([])
        assert self._encoder is not None
        self._removal = remove_oldest_stretch(connection, self._encoder, set(self._sessions))
        self._removed_in_stretch = 0
        return True


def _in_time(
    batch: Sequence[Written], is_too_late: Callable[[], bool] | None, written: BatchResult
) -> Iterator[Written]:
    """Yield the entries of a batch; replace events after the deadline by gaps."""
    late: dict[int, Gap] = {}
    is_late = False
    for entry in batch:
        if type(entry) is tuple:
            is_late = is_late or (is_too_late is not None and is_too_late())
            if not is_late:
                yield entry
                continue
            session, item = entry
            gap = late.get(session) or Gap(0, session, item.wall_ns, item.wall_ns, LATE, 0)
            count = gap.dropped + 1
            late[session] = replace(gap, to_ns=item.wall_ns, lost=count, dropped=count)
            written.late += 1
        else:
            # A session's gap must precede the session's end.
            yield from late.values()
            late.clear()
            yield entry
    yield from late.values()


def _next_ids(connection: sqlite3.Connection) -> tuple[int, int]:
    # Stretches refer to ids of removed rows, so ids are never reused.
    event, object_ = connection.execute(
        "SELECT max(coalesce((SELECT max(id) + 1 FROM event), 1), coalesce(max(first_event), 1)), "
        "max(coalesce((SELECT max(id) + 1 FROM object), 1), coalesce(max(first_object), 1)) "
        "FROM stretch"
    ).fetchone()
    return int(event), int(object_)


def _insert_session(
    connection: sqlite3.Connection, number: int, start: SessionStart, first_event: int
) -> None:
    row = {
        name: named(str(value)) if isinstance(value, str) else int64(value)
        for name, value in asdict(start).items()
    }
    row |= {"id": number, "end_reason": "", "first_event": first_event}
    places = ", ".join("?" * len(row))
    connection.execute(
        f"INSERT INTO session ({', '.join(row)}) VALUES ({places})", tuple(row.values())
    )
