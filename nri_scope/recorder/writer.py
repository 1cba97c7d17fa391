# SPDX-License-Identifier: Apache-2.0
"""The recorder: queues captured exchanges without blocking, and writes them in its own thread.

The thread schedules batches, and retries while the file cannot be written.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from nri_scope.capture.queue import TOO_FAST, Inbox
from nri_scope.capture.sink import (
    Begin,
    ControlEntry,
    EntryRedaction,
    Queued,
    RecorderCounters,
    Resume,
    Sink,
)
from nri_scope.errors import RecordingError
from nri_scope.events import CapturedCall, Event, Gap, Note, SessionStart
from nri_scope.recording.file.file_errors import LOCKED, error_words
from nri_scope.recording.file.writable_file import RecordingFile

from .entry_writer import BatchResult
from .ring import CHECK_SECONDS, FolderBudget, Ring
from .transactions import LATE, TransactionWriter

# Limits of one transaction. Larger ones save little, and a killed process loses uncommitted events.
BATCH_EVENTS = 500
_BATCH_BYTES = 8 << 20
_UNLIMITED = 1 << 62
MIN_PAUSE_SECONDS = 0.05
_MAX_PAUSE_SECONDS = 0.5
_LOCK_TOLERANCE_SECONDS = 0.5
"""Time for which a locked file is not reported. Other programs may lock it briefly."""
_TIDY_SECONDS = 0.01
"""Time limit for the ring's removals between two batches."""
_FINAL_TIDY_SECONDS = 2.0
"""Time limit for the ring's removals on close; the next recorder completes them."""
_MAX_PROBLEMS = 20
"""Maximum number of different problems that are reported."""
NICER = 5
"""Niceness of the writer thread relative to the replying thread."""
GRACE_SECONDS = 5.0
"""Time after the timeout for the current event, and for reporting lost events."""


@dataclass(frozen=True, slots=True)
class WriterLimits:
    """Limits of a recorder."""

    queue_bytes: int = 64 << 20
    """Maximum number of bytes in the queue; further events are dropped and counted as lost."""
    batch_seconds: float = 0.05
    """Target age of an event, in seconds, when its batch is written."""
    max_size: int | None = None
    """Maximum bytes of the file and its write-ahead log, at least 1 MiB. Above it, the oldest
    stretches are removed.
    """
    max_age_seconds: float | None = None
    """Age in seconds after which events are removed, in stretches of a sixteenth of this time."""
    max_folder_bytes: int | None = None
    """Maximum bytes of all recordings in the folder. The oldest finished ones are removed above it.
    """


class Recorder(Sink):
    """Recording that is being written.

    After `open`, no method but `close` blocks, and none raises. Except for `close`, call all
    methods from one thread.
    """

    def __init__(
        self,
        inbox: Inbox,
        writing: TransactionWriter,
        batch_seconds: float,
        on_event: Callable[[Event, CapturedCall], None] | None,
        on_problem: Callable[[str], None] | None,
        on_written: Callable[[BatchResult], None] | None,
    ) -> None:
        """Not for callers: use `open`."""
        self._inbox = inbox
        self._writing = writing
        writing.is_too_late = self._is_too_late
        self._next_session = writing.next_session
        self._closed = False
        self._abandoned = 0
        self._counters = RecorderCounters()
        """What was taken from the inbox so far; replaced by the writer thread only."""
        self._folder_budget: FolderBudget | None = None
        # Time to accumulate a batch; the rest of ``batch_seconds`` is for writing it.
        self._window = batch_seconds * 0.7
        self._on_event = on_event
        self._on_problem = on_problem
        self._on_written = on_written
        self._thread = threading.Thread(target=self._run, name="nri-scope-writer", daemon=True)
        self._batch_bytes = min(_BATCH_BYTES, writing.batch_bytes)
        self._finishing = False
        self._deadline = 0.0
        self._own: list[Queued] = []
        """The thread's own gaps and notes, for the next batch."""
        self._can_tidy = True
        self._pending_events = 0
        """Number of events taken from the inbox that are neither written nor discarded yet."""
        self._reported = ""
        """Current reason why the file cannot be written, once reported; "" if it can."""
        self._problems: set[str] = set()

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        limits: WriterLimits | None = None,
        keep: Callable[[Event], bool] | None = None,
        on_event: Callable[[Event, CapturedCall], None] | None = None,
        on_problem: Callable[[str], None] | None = None,
        redaction: EntryRedaction | None = None,
        alone: bool = False,
        on_written: Callable[[BatchResult], None] | None = None,
    ) -> Self:
        """Create a recording, or add sessions to an existing one.

        All callbacks run in the writer thread. ``keep`` selects the events to store; ``on_event``
        receives each stored event, ``on_written`` the result of each committed batch, and
        ``on_problem`` a text for each problem with the file, and when writing succeeds again.
        ``redaction`` is applied to all data before it is written; ``keep`` receives original
        events. ``alone``: whether no other thread of this process is urgent. Raises RecordingError
        if the file cannot be opened or is not a recording, and UsageError for invalid limits.
        """
        limits = limits or WriterLimits()
        ring = Ring(limits.max_size, limits.max_age_seconds)
        path = Path(path).absolute()
        file = RecordingFile.open(path)
        inbox = Inbox(limits.queue_bytes)
        writing = TransactionWriter(
            file,
            ring,
            keep,
            want_events=on_event is not None,
            background=True,
            alone=alone,
            redaction=redaction,
        )
        recorder = cls(inbox, writing, limits.batch_seconds, on_event, on_problem, on_written)
        if limits.max_folder_bytes is not None:
            recorder._folder_budget = FolderBudget(file.path, limits.max_folder_bytes)
        recorder._thread.start()
        return recorder

    @property
    def is_writing(self) -> bool:
        """Whether the writer thread is running. Without an internal error, only `close` ends it."""
        return self._thread.is_alive()

    @property
    def next_session(self) -> int:
        """The number that `begin_session` will return."""
        return self._next_session

    def begin_session(self, start: SessionStart) -> int:
        """Begin a session; return its number."""
        session = self._next_session
        self._next_session += 1
        self._inbox.put_control(Begin(session, start))
        return session

    def resume_session(self, session: Resume) -> None:
        """Continue a session of a killed recorder. Call this before `begin_session`."""
        self._next_session = max(self._next_session, session.session + 1)
        self._inbox.put_control(session)

    def capture(self, session: int, item: CapturedCall) -> None:
        """Queue an event, or count it as lost. Takes about a microsecond."""
        self._inbox.put(session, item)

    def put_control(self, entry: ControlEntry) -> None:
        """Queue an entry other than an event, with this recorder's session numbers."""
        self._inbox.put_control(entry)

    @property
    def counters(self) -> RecorderCounters:
        """The current counters."""
        counters = self._counters
        return counters._replace(
            lost=counters.lost + self._inbox.lost + self._abandoned,
            bytes_on_wire=self._inbox.bytes_on_wire,
            removed=self._writing.removed,
        )

    def close(self, timeout: float = 10.0) -> RecorderCounters:
        """Write all queued entries and close the file; return the final counters.

        Events that cannot be written within ``timeout`` seconds are lost, and recorded as a gap.
        """
        if not self._closed:
            self._closed = True
            self._inbox.flush_gaps()
            self._inbox.shut()
            self._deadline = time.monotonic() + timeout
            self._finishing = True
            self._inbox.wake()
            self._thread.join(timeout + GRACE_SECONDS)
            # Zero unless the thread is blocked in the file system or has died.
            self._abandoned = self._inbox.events_waiting + self._pending_events
        return self.counters

    # -- the writer thread ------------------------------------------------------------------

    def _run(self) -> None:
        _yield_to_replies()
        try:
            self._work()
        except BaseException as error:
            # No known error reaches this point. Otherwise, report that recording has ended.
            self._inbox.reason = f"internal error: {type(error).__name__}: {error}"
            self._inbox.shut()
            self._report(f"{self._writing.path}: recording has ended: {self._inbox.reason}")
            if not isinstance(error, Exception):
                raise
        finally:
            self._writing.close()

    def _work(self) -> None:
        inbox = self._inbox
        tidying = False
        while True:
            if not inbox and not self._own and not self._finishing:
                inbox.settle()
            if not inbox and not self._own:
                inbox.sleep_while_empty(0.0 if tidying else self._idle_seconds())
                if inbox and not self._finishing:
                    inbox.sleep(self._window)
            if self._is_too_late():
                entries = inbox.take(_UNLIMITED, _UNLIMITED)
            else:
                entries = inbox.take(BATCH_EVENTS, self._batch_bytes)
            if entries or self._own:
                self._pending_events = sum(type(entry) is tuple for entry in entries)
                self._write(entries)
                self._pending_events = 0
                inbox.done(entries)
            if self._finishing and not inbox and not self._own:
                self._tidy(_FINAL_TIDY_SECONDS)
                if self._folder_budget is not None:
                    self._limit_folder(self._folder_budget)
                return
            tidying = self._tidy(_TIDY_SECONDS)
            if self._folder_budget is not None and self._folder_budget.is_due:
                self._limit_folder(self._folder_budget)

    def _idle_seconds(self) -> float:
        """Return after how many seconds without an entry to tidy; negative: never."""
        seconds = self._writing.idle_seconds
        if self._folder_budget is None:
            return seconds
        return CHECK_SECONDS if seconds < 0 else min(seconds, CHECK_SECONDS)

    # -- writing ----------------------------------------------------------------------------

    def _write(self, entries: list[Queued]) -> None:
        failed_at: float | None = None
        lost_before = self._inbox.lost
        pause = MIN_PAUSE_SECONDS
        while True:
            try:
                written = self._writing.write([*self._own, *entries])
                break
            except (sqlite3.OperationalError, RecordingError) as error:
                problem = _problem_of(error)
            except Exception as error:  # noqa: BLE001 - a dead recorder would lose all later events
                if type(error) is not sqlite3.DatabaseError:
                    self._discard(entries, f"internal error: {type(error).__name__}: {error}")
                    return
                problem = error_words(error)
            now = time.monotonic()
            failed_at = failed_at or now
            if self._is_too_late():
                self._discard(entries, problem)
                return
            if problem != LOCKED or now - failed_at > _LOCK_TOLERANCE_SECONDS:
                self._report_failure(problem)
                if self._on_written is not None:
                    self._on_written(BatchResult(failure=problem))
            self._inbox.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE_SECONDS)
        self._own = []
        self._count(written)
        if self._reported and failed_at is not None:
            self._report_recovery(time.monotonic() - failed_at, self._inbox.lost - lost_before)

    def _is_too_late(self) -> bool:
        return self._finishing and time.monotonic() >= self._deadline

    def _count(self, written: BatchResult) -> None:
        before = self._counters
        self._counters = before._replace(
            recorded=before.recorded + written.recorded,
            filtered=before.filtered + written.filtered,
            lost=before.lost + written.lost + written.late,
            gaps=before.gaps + written.gaps,
        )
        if written.late:
            self._report(f"{written.late} events could not be written: {LATE}")
        for problem in written.problems:
            self._report_once(problem)
        if self._on_event is not None:
            for event, item in written.events:
                try:
                    self._on_event(event, item)
                except Exception as error:  # noqa: BLE001 - a bug of the caller
                    self._report_once(f"showing an event failed: {type(error).__name__}: {error}")
        if self._on_written is not None:
            self._on_written(written)

    def _discard(self, entries: list[Queued], problem: str) -> None:
        if self._finishing:
            # The queued entries could not be written either.
            queued = self._inbox.take(_UNLIMITED, _UNLIMITED)
            self._inbox.done(queued)
            entries = [*entries, *queued]
        lost: dict[int, list[int]] = {}
        # Gaps of previously discarded events are kept until they are written.
        others: list[Queued] = [entry for entry in self._own if isinstance(entry, Gap)]
        for entry in entries:
            if type(entry) is tuple:
                lost.setdefault(entry[0], []).append(entry[1].wall_ns)
            else:
                others.append(entry)
        count = sum(map(len, lost.values()))
        self._counters = self._counters._replace(lost=self._counters.lost + count)
        gaps = [
            Gap(0, session, times[0], times[-1], problem, len(times), len(times))
            for session, times in lost.items()
        ]
        self._own = [*others, *gaps] if gaps else []
        without_gap = ""
        if self._finishing and not self._write_own():
            without_gap = "; the file has no gap for them"
        if count:
            self._report(f"{count} events could not be written: {problem}{without_gap}")

    def _write_own(self) -> bool:
        """Write the worker's gaps and notes, which need less space than events; return success."""
        own, self._own = self._own, []
        try:
            self._count(self._writing.write(own))
        except Exception:  # noqa: BLE001 - the caller reports the failure, even a MemoryError
            return False
        return True

    # -- the ring ---------------------------------------------------------------------------

    def _tidy(self, seconds: float) -> bool:
        if not self._can_tidy:
            return False
        until = time.monotonic() + seconds
        try:
            while self._writing.tidy():
                if time.monotonic() > until:
                    return True
        except (sqlite3.Error, RecordingError):
            # The next batch raises the same error and reports it.
            return False
        except Exception as error:  # noqa: BLE001 - a damaged row must not end the recording
            self._can_tidy = False
            self._report_once(f"old events stay: internal error: {type(error).__name__}: {error}")
        return False

    def _limit_folder(self, budget: FolderBudget) -> None:
        for line in budget.apply():
            self._report(line)

    # -- reports ----------------------------------------------------------------------------

    def _report_failure(self, problem: str) -> None:
        self._inbox.reason = problem
        if problem != self._reported:
            self._reported = problem
            self._report(f"{self._writing.path}: {problem}; events wait in memory")

    def _report_recovery(self, seconds: float, lost: int) -> None:
        loss = f"{lost} events were lost" if lost else "nothing was lost"
        text = f"for {seconds:.1f} s nothing could be written: {self._reported}; {loss}"
        self._report(f"{self._writing.path}: recording goes on; {text}")
        self._own.append(Note(0, None, time.time_ns(), text))
        self._reported = ""
        self._inbox.reason = TOO_FAST

    def _report_once(self, text: str) -> None:
        if text not in self._problems and len(self._problems) < _MAX_PROBLEMS:
            self._problems.add(text)
            self._report(text)

    def _report(self, text: str) -> None:
        if self._on_problem is not None:
            try:
                self._on_problem(text)
            except Exception:  # noqa: BLE001 - a failed report cannot be reported
                self._on_problem = None


def _yield_to_replies() -> None:
    """Make this thread slightly nicer than the thread that replies to the runtime.

    A busy thread is not always preempted when the replying thread wakes, which would delay a reply
    by milliseconds. A larger difference would be harmful: a thread that rarely runs while holding
    the GIL would delay every reply.
    """
    thread = threading.get_native_id()
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + NICER)


def _problem_of(error: sqlite3.Error | RecordingError) -> str:
    return error.problem if isinstance(error, RecordingError) else error_words(error)
