# SPDX-License-Identifier: Apache-2.0
"""The recorder: queues captured exchanges without blocking, and writes them in its own thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from nri_scope.errors import UsageError
from nri_scope.events import CapturedCall, Event, Gap, Note, Printed, SessionStart
from nri_scope.recording.writable_file import RecordingFile

from .folder_budget import FolderBudget
from .inbox import Begin, ControlEntry, End, Inbox, RecorderCounters, Resume
from .ring import MIN_SIZE, Ring
from .transactions import BatchResult, TransactionWriter
from .worker import Worker

if TYPE_CHECKING:
    from .inbox import EntryRedaction


_GRACE_SECONDS = 5.0
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


class Recorder:
    """Recording that is being written.

    After `open`, no method but `close` blocks, and none raises. Except for `close`, call all
    methods from one thread.
    """

    def __init__(self, worker: Worker, inbox: Inbox, next_session: int) -> None:
        """Not for callers: use `open`."""
        self._worker = worker
        self._inbox = inbox
        self._next_session = next_session
        self._closed = False
        self._abandoned = 0

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
        ring = _ring(limits)
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
        worker = Worker(inbox, writing, limits.batch_seconds, on_event, on_problem, on_written)
        if limits.max_folder_bytes is not None:
            worker.folder_budget = FolderBudget(file.path, limits.max_folder_bytes)
        recorder = cls(worker, inbox, writing.next_session)
        worker.start()
        return recorder

    @property
    def is_writing(self) -> bool:
        """Whether the writer thread is running. Without an internal error, only `close` ends it."""
        return not self._worker.join(0)

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

    def end_session(self, session: int, reason: str, at_ns: int) -> None:
        """Record that the session's connection is closed."""
        self._inbox.put_control(End(session, reason, at_ns))

    def note_gap(
        self, session: int | None, from_ns: int, to_ns: int, reason: str, lost: int | None
    ) -> None:
        """Record an interval that was not observed. ``lost``: number of lost events; None if
        unknown.
        """
        self._inbox.put_control(Gap(0, session, from_ns, to_ns, reason, lost))

    def put_control(self, entry: ControlEntry) -> None:
        """Queue an entry other than an event, with this recorder's session numbers."""
        self._inbox.put_control(entry)

    def note(self, session: int | None, at_ns: int, text: str) -> None:
        """Record a note."""
        self._inbox.put_control(Note(0, session, at_ns, text))

    def printed(self, session: int, at_ns: int, stream: str, text: str) -> None:
        """Record a line printed by a plugin. A full queue drops it without counting it."""
        self._inbox.put_control(Printed(0, session, at_ns, stream, text))

    @property
    def counters(self) -> RecorderCounters:
        """The current counters."""
        counters = self._worker.counters
        return replace(
            counters,
            lost=counters.lost + self._inbox.lost + self._abandoned,
            bytes_on_wire=self._inbox.bytes_on_wire,
            removed=self._worker.removed,
        )

    def close(self, timeout: float = 10.0) -> RecorderCounters:
        """Write all queued entries and close the file; return the final counters.

        Events that cannot be written within ``timeout`` seconds are lost, and recorded as a gap.
        """
        if not self._closed:
            self._closed = True
            self._inbox.flush_gaps()
            self._inbox.shut()
            self._worker.finish(time.monotonic() + timeout)
            self._worker.join(timeout + _GRACE_SECONDS)
            # Zero unless the thread is blocked in the file system or has died.
            self._abandoned = self._inbox.events_waiting + self._worker.pending_events
        return self.counters


def _ring(limits: WriterLimits) -> Ring:
    if limits.max_size is not None and limits.max_size < MIN_SIZE:
        raise UsageError(f"a recording of at most {limits.max_size} bytes is too small", "use 1M")
    if limits.max_age_seconds is not None and limits.max_age_seconds <= 0:
        raise UsageError("the maximum age of a recording must be positive")
    return Ring(limits.max_size, limits.max_age_seconds)
