# SPDX-License-Identifier: Apache-2.0
"""Write batches of entries to a recording, each in one transaction."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from nri_scope.capture.sink import Begin, EntryRedaction
from nri_scope.entries import RecordedCall
from nri_scope.errors import RecordingError
from nri_scope.events import KILLED, CapturedCall, Event, Gap, Role
from nri_scope.recording.file.blobs import MAX_CONTENT
from nri_scope.recording.file.heartbeat import written_until
from nri_scope.recording.file.row_limits import TOO_MANY_SESSIONS, LimitReached, RowLimits
from nri_scope.recording.file.writable_file import PAGE, RecordingFile

from .encode import Encoder
from .entry_writer import BatchResult, EntryWriter, RecordedSessions, Written
from .ring import Ring, oldest_stretch, remove_oldest_stretch
from .shared_rows import ObjectStore

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
LOG_BYTES = 4 << 20
"""Size of the write-ahead log above which it is moved into the file."""


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

        ``background``: whether other threads are more urgent, so that this one yields regularly.
        ``alone``: whether all urgent work is in other processes, so that yielding need not release
        the GIL. Raises RecordingError.
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
        self._encoder: Encoder | None = None
        self._sessions = RecordedSessions()
        self._preface: list[Written] = []
        self._stretch_bytes = 0
        self._stretch_began = 0.0
        self._removal: Iterator[int] | None = None
        """Remaining steps of the removal of the oldest stretch."""
        self._removed_in_stretch = 0
        self._is_removal_futile = False
        """Whether removing stretches frees no space until the next stretch begins."""
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
        sessions_before = self._sessions.copy()
        written = BatchResult()
        if self._file is not before:
            written.problems.append(f"{self.path}: {DELETED}")
        try:
            connection.execute("BEGIN IMMEDIATE")
            encoder = self._begin(connection)
            stored_before = encoder.objects.stored_bytes
            entries = EntryWriter(
                connection, encoder, self._sessions, self._limits, self._redaction, written
            )
            for entry in self._preface:
                entries.apply(entry)
            for number, entry in enumerate(_in_time(batch, self.is_too_late, written), 1):
                match entry:
                    case (session, call):
                        self._capture(entries, session, call)
                    case RecordedCall(event):
                        self._capture(entries, event.session, entry.call, entry)
                    case _:
                        entries.apply(entry)
                if self._background:
                    if encoder.buffered >= _FLUSH_EVENTS:
                        encoder.flush()
                    self._yield_to_other_threads(number)
            encoder.flush()
            connection.execute("COMMIT")
        except BaseException:
            self._sessions = sessions_before
            self._roll_back(connection)
            raise
        self._preface = []
        written.received = {number: session.seq for number, session in self._sessions.open.items()}
        self._stretch_bytes += encoder.objects.stored_bytes - stored_before
        self._stretch_bytes += entries.row_bytes
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
            # This also truncates the file.
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        else:
            self.removed += removed
            self._removed_in_stretch += removed
        return True

    def close(self) -> None:
        """Close the file. Never raises."""
        if self._file is not None:
            self._file.close()
        self._file = self._encoder = self._removal = None

    # -- the file ---------------------------------------------------------------------------

    def _set_up(self, file: RecordingFile) -> None:
        connection = file.connection
        self._limits = RowLimits(connection)
        log_bytes = min(LOG_BYTES, self._ring.log_bytes // 2)
        # Moving the log into the file waits for the disk; meanwhile, events wait in the queue.
        connection.execute(f"PRAGMA wal_autocheckpoint = {log_bytes // PAGE}").fetchall()
        connection.execute(f"PRAGMA journal_size_limit = {log_bytes}").fetchall()
        # The lock excludes other recorders, so the recorder of any open session was killed.
        (killed_ns,) = connection.execute(
            "SELECT coalesce(max(coalesce((SELECT at_ns FROM event WHERE id >= first_event "
            "AND event.session = session.id ORDER BY id DESC LIMIT 1), started_ns)), 0) "
            # The spool of NRI 0.1 keeps what happens without a recorder.
            "FROM session WHERE last_event IS NULL AND role != ?",
            (Role.V01,),
        ).fetchone()
        self._sessions.killed_ns = killed_ns and max(killed_ns, written_until(file.path))
        connection.execute(
            "UPDATE session SET "
            "end_reason = ?, ended_ns = iif(role = ?, NULL, max(started_ns, ?)), "
            "last_event = (SELECT coalesce(max(id), 0) FROM event) WHERE last_event IS NULL",
            (KILLED, Role.V01, self._sessions.killed_ns),
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
        self._sessions.ended.clear()
        starts = self._sessions.starts
        self._preface = [Begin(number, start) for number, start in starts.items()]
        first = min((start.started_ns for start in starts.values()), default=time.time_ns())
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
            encoder = self._encoder = Encoder(
                connection,
                ObjectStore(next_object),
                next_event=next_event,
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

    def _capture(
        self,
        entries: EntryWriter,
        number: int,
        call: CapturedCall,
        recorded: RecordedCall | None = None,
    ) -> None:
        """Write a call of session ``number``; a faulty one becomes a gap.

        ``recorded``: the event of the original of a copy. Raises sqlite3.Error.
        """
        written = entries.result
        if number in self._sessions.refused:
            entries.refuse(TOO_MANY_SESSIONS, call.wall_ns, call.wall_ns, 1)
            return
        session = self._sessions.open.get(number)
        try:
            if session is None:
                raise ValueError("an event outside of a session")
            if max(len(call.request), len(call.reply)) > MAX_CONTENT:
                raise ValueError(f"an event of more than {MAX_CONTENT} bytes")
            encoded = entries.encoder.encode(
                session,
                call,
                keep=None if self._keep is None else partial(_is_kept, self._keep, written),
                want_event=self._want_events,
                recorded=recorded,
            )
        except sqlite3.Error:
            raise
        except LimitReached as full:
            entries.refuse(str(full), call.wall_ns, call.wall_ns, 1)
            return
        except Exception as error:  # noqa: BLE001 - one bad event must not end the recording
            # The error's text may contain a secret that redaction has not replaced.
            detail = "" if self._redaction is not None else f": {error}"
            problem = f"{call.method} could not be recorded: {type(error).__name__}{detail}"
            written.problems.append(problem)
            entries.apply(Gap(0, number, call.wall_ns, call.wall_ns, problem, 1))
            return
        if encoded is None:
            written.filtered += 1
            return
        written.recorded += 1
        if encoded.event is not None:
            written.events.append((encoded.event, encoded.call))

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
        self._removal = remove_oldest_stretch(connection, self._encoder, set(self._sessions.open))
        self._removed_in_stretch = 0
        return True


def _is_kept(keep: Callable[[Event], bool], written: BatchResult, event: Event) -> bool:
    """Return the filter's answer; True if it fails."""
    try:
        return keep(event)
    except Exception as error:  # noqa: BLE001 - a bug of the caller; keep the event
        written.problems.append(f"the filter failed: {type(error).__name__}: {error}")
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
