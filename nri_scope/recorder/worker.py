# SPDX-License-Identifier: Apache-2.0
"""The writer's thread: when to write, and how to handle a file that cannot be written."""

from __future__ import annotations

import ctypes
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from nri_scope.errors import RecordingError
from nri_scope.events import CapturedCall, Event
from nri_scope.recording.file_errors import LOCKED, error_words

from .inbox import TOO_FAST, Entry, GapEntry, Inbox, NoteEntry
from .transactions import LATE, BatchResult, TransactionWriter

# Limits of one transaction. Larger ones save little, and a killed process loses uncommitted events.
_BATCH_EVENTS = 500
_BATCH_BYTES = 8 << 20
_EVERYTHING = 1 << 62
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 0.5
# Other programs, such as the sqlite3 shell, may lock the file for a moment; that is not reported.
_PATIENCE = 0.5
# Limit of the ring's work between two batches.
_TIDY_SECONDS = 0.01
# Limit at the end, while the user waits; the next recorder removes the rest.
_LAST_TIDY_SECONDS = 2.0
_COMPLAINTS = 20
_PR_SET_TIMERSLACK = 29
NICER = 5
"""Difference in niceness between the writer's thread and the one that answers."""


@dataclass(slots=True)
class Tally:
    """Counts so far; changed by the writer's thread alone."""

    recorded: int = 0
    filtered: int = 0
    lost: int = 0
    gaps: int = 0


class Worker:
    """Moves entries from the inbox to the file until `finish` is called."""

    def __init__(
        self,
        inbox: Inbox,
        writing: TransactionWriter,
        batch_seconds: float,
        on_event: Callable[[Event, CapturedCall], None] | None,
        on_problem: Callable[[str], None] | None,
        on_written: Callable[[BatchResult], None] | None = None,
    ) -> None:
        self.tally = Tally()
        self._inbox = inbox
        self._writing = writing
        writing.is_too_late = self._is_too_late
        # The window collects a batch; the rest of the time is for writing it.
        self._window = batch_seconds * 0.7
        self._on_event = on_event
        self._on_problem = on_problem
        self._on_written = on_written
        self._thread = threading.Thread(target=self._run, name="nri-scope-writer", daemon=True)
        self._finishing = False
        self._deadline = 0.0
        # Gaps and notes of the worker itself, for the next batch.
        self._own: list[Entry] = []
        self._tidies = True
        self.pending_events = 0
        """Number of events taken from the inbox that are neither written nor given up yet."""
        self._told = ""
        self._complained: set[str] = set()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def finish(self, deadline: float) -> None:
        """Write the queued entries and stop; those not written by ``deadline`` (monotonic) become a
        gap.
        """
        self._deadline = deadline
        self._finishing = True
        self._inbox.ring()

    def join(self, timeout: float) -> bool:
        """Wait for the end of the thread; return whether it ended."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def removed(self) -> int:
        """Number of events that the ring removed."""
        return self._writing.removed

    def _run(self) -> None:
        _yield_to_replies()
        _sleep_precisely()
        try:
            self._work()
        except BaseException as error:
            # No known error leads here. If one does, report that recording has ended.
            self._inbox.reason = f"internal error: {type(error).__name__}: {error}"
            self._inbox.shut()
            self._say(f"{self._writing.path}: recording has ended: {self._inbox.reason}")
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
                inbox.sleep_while_empty(0.0 if tidying else self._writing.idle_seconds)
                if inbox and not self._finishing:
                    inbox.sleep(self._window)
            if self._is_too_late():
                entries = inbox.take(_EVERYTHING, _EVERYTHING)
            else:
                entries = inbox.take(_BATCH_EVENTS, _BATCH_BYTES)
            if entries or self._own:
                self.pending_events = sum(type(entry) is tuple for entry in entries)
                self._write(entries)
                self.pending_events = 0
                inbox.done(entries)
            if self._finishing and not inbox and not self._own:
                self._tidy(_LAST_TIDY_SECONDS)
                return
            tidying = self._tidy(_TIDY_SECONDS)

    # -- writing ----------------------------------------------------------------------------

    def _write(self, entries: list[Entry]) -> None:
        failed_at: float | None = None
        lost_before = self._inbox.lost
        pause = _FIRST_PAUSE
        while True:
            try:
                written = self._writing.write([*self._own, *entries])
                break
            except (sqlite3.OperationalError, RecordingError) as error:
                words = _words(error)
            except Exception as error:  # noqa: BLE001 - a dead recorder would lose all later events
                if type(error) is not sqlite3.DatabaseError:
                    self._give_up(entries, f"internal error: {type(error).__name__}: {error}")
                    return
                words = error_words(error)
            now = time.monotonic()
            failed_at = failed_at or now
            if self._is_too_late():
                self._give_up(entries, words)
                return
            if words != LOCKED or now - failed_at > _PATIENCE:
                self._tell_once(words)
            self._inbox.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        self._own = []
        self._count(written)
        if self._told and failed_at is not None:
            self._resume(time.monotonic() - failed_at, self._inbox.lost - lost_before)

    def _is_too_late(self) -> bool:
        return self._finishing and time.monotonic() >= self._deadline

    def _count(self, written: BatchResult) -> None:
        tally = self.tally
        if written.late:
            tally.lost += written.late
            self._say(f"{written.late} events could not be written: {LATE}")
        tally.recorded += written.recorded
        tally.filtered += written.filtered
        tally.lost += written.lost
        tally.gaps += written.gaps
        for complaint in written.complaints:
            self._complain(complaint)
        if self._on_written is not None:
            self._on_written(written)
        if self._on_event is not None:
            for event, item in written.events:
                try:
                    self._on_event(event, item)
                except Exception as error:  # noqa: BLE001 - the caller's fault, not the recording's
                    self._complain(f"showing an event failed: {type(error).__name__}: {error}")

    def _give_up(self, entries: list[Entry], words: str) -> None:
        if self._finishing:
            # The queued entries could not be written either.
            waiting = self._inbox.take(_EVERYTHING, _EVERYTHING)
            self._inbox.done(waiting)
            entries = [*entries, *waiting]
        lost: dict[int, list[int]] = {}
        # Gaps of events given up earlier are kept until they are written.
        others: list[Entry] = [entry for entry in self._own if isinstance(entry, GapEntry)]
        for entry in entries:
            if type(entry) is tuple:
                lost.setdefault(entry[0], []).append(entry[1].wall_ns)
            else:
                others.append(entry)
        count = sum(map(len, lost.values()))
        self.tally.lost += count
        gaps = [
            GapEntry(session, times[0], times[-1], words, len(times), len(times))
            for session, times in lost.items()
        ]
        self._own = [*others, *gaps] if gaps else []
        unsaid = ""
        if self._finishing:
            unsaid = "" if self._write_last() else "; the file has no gap for them"
        if count:
            self._say(f"{count} events could not be written: {words}{unsaid}")

    def _write_last(self) -> bool:
        """Write at least the worker's gaps and notes, which need less space than events."""
        own, self._own = self._own, []
        try:
            self._count(self._writing.write(own))
        except Exception:  # noqa: BLE001 - also without memory, the caller says that it failed
            return False
        return True

    # -- the ring ---------------------------------------------------------------------------

    def _tidy(self, seconds: float) -> bool:
        if not self._tidies:
            return False
        until = time.monotonic() + seconds
        try:
            while self._writing.tidy():
                if time.monotonic() > until:
                    return True
        except (sqlite3.Error, RecordingError):
            # The next batch gets the same error and reports it; this work can wait.
            return False
        except Exception as error:  # noqa: BLE001 - a damaged row must not end the recording
            self._tidies = False
            self._complain(f"old events stay: internal error: {type(error).__name__}: {error}")
        return False

    # -- reports ----------------------------------------------------------------------------

    def _tell_once(self, words: str) -> None:
        self._inbox.reason = words
        if words != self._told:
            self._told = words
            self._say(f"{self._writing.path}: {words}; events wait in memory")

    def _resume(self, seconds: float, lost: int) -> None:
        loss = f"{lost} events were lost" if lost else "nothing was lost"
        text = f"for {seconds:.1f} s nothing could be written: {self._told}; {loss}"
        self._say(f"{self._writing.path}: recording goes on; {text}")
        self._own.append(NoteEntry(None, time.time_ns(), text))
        self._told = ""
        self._inbox.reason = TOO_FAST

    def _complain(self, text: str) -> None:
        if text not in self._complained and len(self._complained) < _COMPLAINTS:
            self._complained.add(text)
            self._say(text)

    def _say(self, text: str) -> None:
        if self._on_problem is not None:
            try:
                self._on_problem(text)
            except Exception:  # noqa: BLE001 - a failed report cannot be reported
                self._on_problem = None


def _yield_to_replies() -> None:
    """Make this thread slightly nicer than the one that answers the runtime.

    A busy thread is not always preempted when the answering one wakes, which then waits for
    milliseconds. A larger difference would be harmful: a thread that rarely gets the processor
    while it holds the interpreter's lock would delay every answer.
    """
    thread = threading.get_native_id()
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + NICER)


def _sleep_precisely() -> None:
    """Set the timer slack so that short sleeps are short: Linux adds 50 µs to group wake-ups."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1000, 0, 0, 0)


def _words(error: sqlite3.Error | RecordingError) -> str:
    return error.problem if isinstance(error, RecordingError) else error_words(error)
