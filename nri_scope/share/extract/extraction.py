# SPDX-License-Identifier: Apache-2.0
"""Create a new recording from all or part of another recording."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from nri_scope.entries import (
    Began,
    EarlierState,
    Ended,
    Entry,
    OperationFate,
    OperationOutcome,
    RecordedCall,
)
from nri_scope.errors import RecordingError
from nri_scope.events import REDACTED, Container, Event, Gap, Note, Pod, Session, UserMark
from nri_scope.recorder.complete_recording import complete_recording
from nri_scope.recording.bundle.manifest import Counts, subject_of
from nri_scope.recording.marks.sidecar import marks_of
from nri_scope.recording.query.creation_outcomes import OPERATION_EVENTS, Creations
from nri_scope.recording.query.event_times import is_redacted
from nri_scope.recording.reading.entries import (
    IncludedRows,
    Stopped,
    calls_by_metrics,
    earlier_states,
    exchanges,
    printed_in,
    subjects,
)
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.row_pages import is_among, newest_event
from nri_scope.recording.reading.rows import optional_numbers_of
from nri_scope.recording.reading.sqlite_errors import recording_errors
from nri_scope.recording.reading.work_budget import OnShare, ignore_share

from ..redacted_entries import note_names, redacted
from ..redaction import Redactor
from .context_events import with_context
from .omitted_events import OmittedEvents
from .selected_events import Selection, choose

DAMAGED = "the original recording is unreadable from here on"
"""Reason of the gap that replaces unreadable events."""

_States = Callable[[Session], Iterator[EarlierState]]
_ALL = Selection()


@dataclass(frozen=True, slots=True)
class Extracted:
    """A new recording and what it contains."""

    path: Path
    counts: Counts
    first_ns: int | None
    """Wall clock time of the first chosen event, or None without events."""
    last_ns: int | None
    damage: str = ""
    """Description of the original's damage, after which no events are copied; "" if undamaged."""
    events: Sequence[int] | None = None
    """Numbers of the chosen events, ascending; None: all."""


def extract(
    source: Recording,
    output: Path,
    selection: Selection = _ALL,
    *,
    redactor: Redactor | None = None,
    marks: Sequence[UserMark] | None = None,
    note: str = "",
    on_progress: OnShare | None = None,
) -> Extracted:
    """Write the events of ``source`` chosen by ``selection``, with context, to a new ``output``.

    Event and session numbers, positions in sessions and times are unchanged. The same input gives
    the same bytes. If the original is damaged, the events before the damage are written, and
    `Extracted.damage` describes it. A recording still being written is read in its current state.

    ``marks`` are the marks of the original; None: use the marks stored in it and beside it. Marks
    of written events are also written. ``note`` is added to the notes.

    ``on_progress`` is called regularly in the calling thread with the completed fraction, 0 to 1;
    an exception from this callback, or KeyboardInterrupt, stops the work and leaves no file behind.

    Raises NothingSelectedError, UsageError if the selected pod is not in the recording,
    RecordingError if the original is unreadable, or ``output`` exists or cannot be written.
    ``output`` is a draft in a folder of this user: it has its name before it is complete.
    """
    progress = _Steps(on_progress or ignore_share)
    with _snapshot(source):
        part = _part(source, selection, progress)
        marks = marks_of(source) if marks is None else marks
        if redactor is not None:
            note_names(redactor, source)
        entries = _PartOfRecording(
            source,
            part,
            sorted(marks),
            note,
            subject_of(selection.criteria),
            is_redacted=redactor is not None or is_redacted(source),
        )
        with complete_recording(output, is_draft=True) as recording:
            for entry in entries.read(progress.step(0.9)):
                recording.put(entry if redactor is None else redacted(redactor, entry))
    progress.done()
    assert entries.counts is not None
    return Extracted(
        output,
        entries.counts,
        entries.first_ns,
        entries.last_ns,
        "" if part.damage is None else part.damage.problem,
        part.chosen,
    )


class _Steps:
    """The overall progress of several steps."""

    def __init__(self, on_progress: OnShare) -> None:
        self._on_progress = on_progress
        self._before = 0.0
        self._reported = 0.0

    def step(self, share: float) -> OnShare:
        """Begin the next step; ``share`` is its fraction of the remaining work."""
        start, length = self._before, share * (1.0 - self._before)
        self._before += length
        return lambda done: self._report(start + length * min(max(done, 0.0), 1.0))

    def done(self) -> None:
        """Report the end of all steps."""
        self._report(1.0)

    def _report(self, done: float) -> None:
        # A step may go backwards, as the amount of context is unknown until it is collected.
        self._reported = max(self._reported, done)
        self._on_progress(self._reported)


@contextmanager
def _snapshot(source: Recording) -> Iterator[None]:
    """Hold a read transaction for the block, so that a recorder that adds events or removes the
    oldest ones does not change what is read.
    """
    connection = source.connection
    begun = False
    with suppress(sqlite3.Error):
        connection.execute("BEGIN")
        begun = True
    try:
        yield
    finally:
        if begun:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")


def _part(source: Recording, selection: Selection, progress: _Steps) -> IncludedRows:
    if selection.is_all:
        return IncludedRows(until=newest_event(source))
    chosen = choose(source, selection, progress.step(0.15))
    return with_context(source, chosen, progress.step(0.15))


class _PartOfRecording:
    """The entries of a part of a recording. They can be read once."""

    def __init__(
        self,
        source: Recording,
        part: IncludedRows,
        marks: Sequence[UserMark],
        note: str,
        subject: str,
        *,
        is_redacted: bool,
    ) -> None:
        self._source = source
        self._part = part
        self._marks = marks
        self._note = note
        self._subject = subject
        self._is_redacted = is_redacted
        self._omitted = OmittedEvents(source, part)
        is_whole = part.kept is None and not source.rows("SELECT 1 FROM outcome LIMIT 1")
        self._creations = None if is_whole else Creations(source)
        """Outcomes of operations, as events that show them may be omitted; None if none are."""
        self._unread: RecordingError | None = None
        """Why the outcomes of later operations cannot be read."""
        self._newest_ns = 0
        """Wall clock time of the last event."""
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self._chosen = self._context = 0
        """How many events were read."""
        self.counts: Counts | None = None
        """How many entries there are, after the last one."""

    def read(self, on_progress: OnShare) -> Iterator[Entry]:
        """Yield the entries. Raises RecordingError if not even one event can be read."""
        part, source = self._part, self._source
        pods = containers = gaps = 0
        for subject in subjects(source, part):
            pods += isinstance(subject, Pod)
            containers += isinstance(subject, Container)
            yield subject
        # All of them, as their times tell what was observed.
        sessions = source.sessions()
        yield from self._sessions(sessions, on_progress)
        if part.damage is not None and not self._chosen:
            raise part.damage
        self._omitted.finish()
        for gap in self._gaps():
            gaps += 1
            yield gap
        yield from self._notes()
        part.damage = part.damage or self._unread
        for mark in self._marks:
            if part.kept is None or is_among(part.kept, mark.event):
                yield mark
        yield from printed_in(source, part)
        # Calls in the runtime's metrics are not counted by pod.
        if part.kept is None and part.sessions is None:
            yield from calls_by_metrics(source)
        self.counts = Counts(
            events=self._chosen,
            context=self._context,
            left_out=self._omitted.holes.count,
            sessions=len(sessions),
            pods=pods,
            containers=containers,
            gaps=gaps,
        )

    def _sessions(self, sessions: Sequence[Session], on_progress: OnShare) -> Iterator[Entry]:
        """Yield events, and each session's start and end where it was between them."""
        boundaries = _SessionBoundaries(self._source, sessions, self._states)
        for exchange in self._events(on_progress):
            yield from boundaries.advance_to(exchange.event.id)
            yield exchange
        yield from boundaries.finish()

    def _states(self, session: Session) -> Iterator[EarlierState]:
        try:
            yield from earlier_states(self._source, self._part, session)
        except RecordingError as error:
            self._part.damage = self._part.damage or error

    def _events(self, on_progress: OnShare) -> Iterator[RecordedCall]:
        part = self._part
        try:
            for page in exchanges(self._source, part):
                for exchange in page:
                    event = exchange.event
                    try:
                        omitted = self._omitted.advance_to(event.id)
                    except RecordingError as error:
                        raise Stopped(event.id, error) from error
                    self._newest_ns = event.at_ns
                    if part.is_chosen(event.id):
                        self.first_ns = event.at_ns if self.first_ns is None else self.first_ns
                        self.last_ns = event.at_ns
                        self._chosen += 1
                    else:
                        self._context += 1
                    outcome = self._outcome(event)
                    if outcome is None and omitted is None:
                        yield exchange
                    else:
                        yield replace(exchange, outcome=outcome, omitted=omitted)
                on_progress(page[-1].event.id / max(part.until, 1))
        except Stopped as stopped:
            part.stop(stopped.event, stopped.cause)

    def _outcome(self, event: Event) -> OperationOutcome | None:
        if self._creations is None or self._unread or event.event not in OPERATION_EVENTS:
            return None
        try:
            outcome = self._creations.outcome(event)
        except RecordingError as error:
            # The outcome of this and later operations cannot be read.
            self._unread = error
            return None
        return None if outcome.fate is OperationFate.UNKNOWN else outcome

    def _gaps(self) -> Iterator[Gap]:
        gaps = self._source.gaps()
        yield from sorted((gap for gap in gaps if gap.id > 0), key=lambda gap: gap.id)
        # The original has no rows for gaps between sessions.
        yield from (gap for gap in gaps if gap.id <= 0)
        holes = self._omitted.holes.closed
        yield from self._omitted.holes.gaps()
        if self._part.damage is not None:
            at_ns = max([self._newest_ns, *(hole.to_ns for hole in holes[-1:])])
            yield Gap(0, None, at_ns, at_ns, DAMAGED, None)

    def _notes(self) -> Iterator[Note]:
        notes = [
            note
            for note in self._source.notes()
            if self._part.has_session(note.session) and not self._part.only_subjects
        ]
        yield from sorted(notes, key=lambda note: note.id)
        if self.first_ns is None:
            return
        if self._note:
            yield Note(0, None, self.first_ns, f"{BY_USER}{self._note}")
        omitted = self._omitted.holes.count
        if omitted:
            of_subject = f" ({self._subject})" if self._subject else ""
            yield Note(
                0,
                None,
                self.first_ns,
                f"This is a part of a recording: {self._chosen:,} of its "
                f"{self._chosen + self._context + omitted:,} events were selected{of_subject}, "
                f"and {self._context:,} are their context.",
            )
        if self._is_redacted and not any(note.text == REDACTED for note in self._source.notes()):
            yield Note(0, None, self.first_ns, REDACTED)


class _SessionBoundaries:
    """Starts and ends of the sessions of a part, to be placed between its events."""

    def __init__(self, source: Recording, sessions: Sequence[Session], states: _States) -> None:
        """``states`` yields what follows the start of a session. Raises RecordingError."""
        rows = source.rows("SELECT id, first_event, last_event FROM session")
        with recording_errors(source):
            self._bounds = {row[0]: optional_numbers_of(row[1:]) for row in rows}
        """First and last event by session; None for an unknown one."""
        self._later = sorted(
            sessions, key=lambda session: (self._bounds[session.id][0] or 0, session.id)
        )[::-1]
        """Sessions that have not begun, the next one last."""
        self._open: dict[int, Session] = {}
        self._with_state = {session.id for session in source.sessions_with_state(sessions)}
        self._states = states

    def advance_to(self, event: float) -> Iterator[Entry]:
        """Yield what comes before an event. Call this for ascending events."""
        while self._later and (self._bounds[self._later[-1].id][0] or 0) <= event:
            session = self._later.pop()
            yield Began(session)
            if session.id in self._with_state:
                yield from self._states(session)
            if session.ended_ns is not None or session.end_reason:
                self._open[session.id] = session
        for number in sorted(self._open):
            last = self._bounds[number][1]
            if (inf if last is None else last) < event:
                yield Ended(self._open.pop(number))

    def finish(self) -> Iterator[Entry]:
        """Yield what comes after the last event."""
        yield from self.advance_to(inf)
        yield from map(Ended, self._open.values())


BY_USER = "note by the user: "
"""Beginning of a note that a user wrote for a part of a recording."""
