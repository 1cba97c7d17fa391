# SPDX-License-Identifier: Apache-2.0
"""Create a new recording from all or part of another recording."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from nri_scope.errors import RecordingError
from nri_scope.events import LEFT_OUT, REDACTED, Mark
from nri_scope.recording.bundle.manifest import Counts, subject_of
from nri_scope.recording.file_errors import error_words, writing_hint
from nri_scope.recording.marks.sidecar import marks_of
from nri_scope.recording.reader import Recording
from nri_scope.recording.redacted import is_redacted
from nri_scope.recording.sqlite_text import int64
from nri_scope.recording.writable_file import initialize

from .context_events import updates_by, with_context
from .exchanges import Stopped, exchanges
from .first_pass import learn
from .message_changes import Change, Unchanged
from .row_copies import Copying
from .row_pages import newest_event, pages
from .selected_events import Selection, choose
from .session_tables import Tables
from .sources import IncludedRows

MAX_LISTED = 256
"""Maximum number of holes, each of which becomes a row of ``gap``; neighbours are joined."""
_INSERT = "INSERT INTO left_out (event, seq, count) VALUES (?, ?, ?)"


@dataclass(slots=True)
class Hole:
    """Consecutive omitted events. A hole joined from two may span copied events."""

    from_ns: int
    """Wall clock time of the first omitted event."""
    to_ns: int
    count: int

    def add(self, other: Hole) -> None:
        """Extend this hole by another one."""
        self.from_ns = min(self.from_ns, other.from_ns)
        self.to_ns = max(self.to_ns, other.to_ns)
        self.count += other.count


@dataclass(slots=True)
class Holes:
    """The omitted events, summarized as at most `MAX_LISTED` holes."""

    closed: list[Hole] = field(default_factory=list)
    count: int = 0
    _open: Hole | None = None

    def leave_out(self, at_ns: int) -> None:
        """Add the next omitted event to the open hole."""
        self.count += 1
        if self._open is None:
            self._open = Hole(at_ns, at_ns, 1)
        else:
            self._open.add(Hole(at_ns, at_ns, 1))

    def keep(self) -> None:
        """Close the open hole, as the next event is copied or does not exist."""
        if self._open is None:
            return
        self.closed.append(self._open)
        self._open = None
        if len(self.closed) == 2 * MAX_LISTED:
            self._halve()

    def finish(self) -> None:
        """Close the last hole, and join neighbours if there are too many."""
        self.keep()
        if len(self.closed) > MAX_LISTED:
            self._halve()

    def _halve(self) -> None:
        for first, second in zip(self.closed[::2], self.closed[1::2], strict=False):
            first.add(second)
        self.closed = self.closed[::2]


def find_holes(
    source: Recording,
    connection: sqlite3.Connection,
    kept: Sequence[int] | None,
    until: int,
    on_progress: Callable[[float], None],
) -> Holes:
    """Fill the table ``left_out`` of the new recording; return the holes.

    ``kept`` are the ascending numbers of copied events; None: all. Raises RecordingError and
    sqlite3.Error.
    """
    holes = Holes()
    is_part = bool(source.rows("SELECT 1 FROM left_out LIMIT 1"))
    if kept is None and not is_part:
        return holes
    place = 0
    pending: dict[int, tuple[int, int]] = {}
    """By session: the number of omitted events since its last copied event, and the position of the
    newest omitted event."""
    for page in _pages(source, until):
        made: list[tuple[int, int, int]] = []
        for event, session, seq, at_ns, before_seq, before in page:
            count, newest = pending.pop(session, (0, 0))
            if before:
                # The original is itself an extract.
                count, newest = count + before, before_seq
            if kept is None or (place < len(kept) and kept[place] == event):
                place += 1
                holes.keep()
                if count:
                    made.append((event, newest, int64(count)))
            else:
                holes.leave_out(at_ns)
                pending[session] = (count + 1, seq)
        connection.executemany(_INSERT, made)
        if page:
            on_progress(page[-1][0] / max(until, 1))
    holes.finish()
    return holes


def _pages(source: Recording, until: int) -> Iterator[list[tuple[int, ...]]]:
    query = (
        "SELECT e.id, e.session, e.seq, e.at_ns, coalesce(l.seq, 0), coalesce(l.count, 0) "
        "FROM event AS e LEFT JOIN left_out AS l ON l.event = e.id "
        "WHERE e.id <= ? AND e.id > ? ORDER BY e.id LIMIT ?"
    )
    for page in pages(source, query, until, until=until):
        yield [tuple(number or 0 for number in row) for row in page]


DAMAGED = "the original recording is unreadable from here on"
"""Reason of the gap that replaces unreadable events."""

_Progress = Callable[[float], None]
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
    learned: int = 0
    """Number of the last event from which the `Change` has learned; 0 without a change."""
    events: Sequence[int] | None = None
    """Numbers of the chosen events, ascending; None: all."""


def extract(
    source: Recording,
    output: Path,
    selection: Selection = _ALL,
    *,
    change: Change | None = None,
    marks: Sequence[Mark] | None = None,
    note: str = "",
    learned: int = 0,
    on_progress: Callable[[float], None] | None = None,
) -> Extracted:
    """Write the events of ``source`` chosen by ``selection``, with context, to a new ``output``.

    Event and session numbers, positions in sessions and times are unchanged. The same input gives
    the same bytes. If the original is damaged, the events before the damage are written, and
    `Extracted.damage` describes it. A recording still being written is read in its current state.

    ``marks`` are the marks of the original; None: use the marks stored in it and beside it. Marks
    of written events are also written. ``note`` is added to the notes. ``learned``:
    `Extracted.learned` of an earlier part that was written with the same ``change``.

    ``on_progress`` is called regularly in the calling thread with the completed fraction, 0 to 1;
    an exception from this callback, or KeyboardInterrupt, stops the work and leaves no file behind.

    Raises NothingSelectedError, UsageError if the selected pod is not in the recording,
    RecordingError if the original is unreadable, or ``output`` exists or cannot be written.
    ``output`` is a draft in a folder of this user: it has its name before it is complete.
    """
    progress = _Steps(on_progress or _ignore_progress)
    with _snapshot(source), _new_file(output) as connection:
        part = _part(source, selection, progress)
        marks = marks_of(source) if marks is None else marks
        if change is not None:
            change.learn_text(note)
            learn(source, part, change, progress.step(0.3), marks, learned)
            learned = part.until
        written = _Extraction(
            source,
            connection,
            part,
            change or Unchanged(),
            marks,
            note,
            subject_of(selection.criteria),
        )
        rebuilt = written.write(output, progress)
    progress.done()
    return replace(rebuilt, learned=learned, events=part.chosen)


def _ignore_progress(_: float) -> None:
    """Ignore progress."""


class _Steps:
    """The overall progress of several steps."""

    def __init__(self, on_progress: _Progress) -> None:
        self._on_progress = on_progress
        self._before = 0.0
        self._reported = 0.0

    def step(self, share: float) -> _Progress:
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
def _new_file(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield an empty recording to fill, readable by its owner only.

    Raises RecordingError, also for sqlite3 errors of the block; after any exception, no file is
    left behind.
    """
    try:
        # Create the file first to set its mode, which SQLite preserves.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with closing(_connect(path)) as connection:
                initialize(connection)
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            os.fsync(descriptor)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
    except (sqlite3.Error, OSError) as error:
        words = error_words(error)
        raise RecordingError(path, f"cannot be written: {words}", writing_hint(words)) from error


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None
    )
    # An incomplete file is deleted, so neither a journal nor intermediate syncs are needed.
    connection.execute("PRAGMA journal_mode = OFF").fetchall()
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
    connection.execute("PRAGMA trusted_schema = OFF")
    # Overwrite unused bytes: they would differ between runs, or contain data from memory.
    connection.execute("PRAGMA secure_delete = ON").fetchall()
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


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
    return with_context(source, chosen, progress.step(0.15), bare=selection.bare)


@dataclass(slots=True)
class _Counts:
    chosen: int = 0
    context: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    newest_ns: int = 0
    """Wall clock time of the last event written."""


class _Extraction:
    def __init__(
        self,
        source: Recording,
        connection: sqlite3.Connection,
        part: IncludedRows,
        change: Change,
        marks: Sequence[Mark],
        note: str,
        subject: str,
    ) -> None:
        self._source = source
        self._note = note
        self._subject = subject
        self._marks = marks
        self._connection = connection
        self._part = part
        self._redacts = not isinstance(change, Unchanged)
        self._tables = Tables(source, connection, part, change)
        self._copying = Copying(connection, change)

    def write(self, output: Path, progress: _Steps) -> Extracted:
        part, tables = self._part, self._tables
        pods, containers = tables.subjects()
        sessions = tables.sessions()
        self._copying.begin_stretch(part.kept[0] if part.kept else 1)
        for session in self._source.sessions_with_state(sessions):
            self._states(session.id)
        counts = self._events(progress.step(0.8))
        if part.damage is not None and not counts.chosen:
            raise part.damage
        holes = find_holes(
            self._source, self._connection, part.kept, part.until, progress.step(0.9)
        )
        gaps = tables.gaps(self._gaps(holes, counts))
        tables.notes(
            [*_notes(holes, counts, self._note, self._subject), *self._redaction_note(counts)]
        )
        tables.marks(self._marks)
        tables.outcomes()
        tables.output()
        tables.plugin_calls()
        return Extracted(
            path=output,
            counts=Counts(
                events=counts.chosen,
                context=counts.context,
                left_out=holes.count,
                sessions=len(sessions),
                pods=pods,
                containers=containers,
                gaps=gaps,
            ),
            first_ns=counts.first_ns,
            last_ns=counts.last_ns,
            damage="" if part.damage is None else part.damage.problem,
        )

    def _redaction_note(self, counts: _Counts) -> Iterator[tuple[int, str]]:
        if counts.first_ns is None or not (self._redacts or is_redacted(self._source)):
            return
        if not any(note.text == REDACTED for note in self._source.notes()):
            yield counts.first_ns, REDACTED

    def _states(self, session: int) -> None:
        try:
            self._tables.states(session, self._copying.objects)
        except RecordingError as error:
            self._part.damage = self._part.damage or error
            # The state is incomplete.
            self._connection.execute("UPDATE session SET synced_ns = NULL WHERE id = ?", (session,))

    def _events(self, on_progress: _Progress) -> _Counts:
        part, counts = self._part, _Counts()
        try:
            for page in exchanges(self._source, part.kept, until=part.until):
                numbers = [exchange.event.id for exchange in page]
                effects = (
                    (container, event)
                    for container, event in updates_by(self._source, numbers)
                    if part.containers is None or container in part.containers
                )
                self._copying.events(page, effects)
                self._tables.tapped(numbers)
                for exchange in page:
                    counts.newest_ns = exchange.event.at_ns
                    if not part.is_chosen(exchange.event.id):
                        counts.context += 1
                        continue
                    counts.chosen += 1
                    counts.last_ns = exchange.event.at_ns
                    if counts.first_ns is None:
                        counts.first_ns = exchange.event.at_ns
                if page:
                    on_progress(page[-1].event.id / max(part.until, 1))
        except Stopped as stopped:
            part.stop(stopped.event, stopped.cause)
        return counts

    def _gaps(self, holes: Holes, counts: _Counts) -> Iterator[tuple[int, int, str, int | None]]:
        for hole in holes.closed:
            yield hole.from_ns, hole.to_ns, LEFT_OUT, hole.count
        if self._part.damage is not None:
            at_ns = max([counts.newest_ns, *(hole.to_ns for hole in holes.closed[-1:])])
            yield at_ns, at_ns, DAMAGED, None


BY_USER = "note by the user: "
"""Beginning of a note that a user wrote for a part of a recording."""


def _notes(holes: Holes, counts: _Counts, note: str, subject: str) -> Iterator[tuple[int, str]]:
    if note and counts.first_ns is not None:
        yield counts.first_ns, f"{BY_USER}{note}"
    if holes.count and counts.first_ns is not None:
        copied = counts.chosen + counts.context
        of_subject = f" ({subject})" if subject else ""
        yield (
            counts.first_ns,
            f"This is a part of a recording: {counts.chosen:,} of its {copied + holes.count:,} "
            f"events were selected{of_subject}, and {counts.context:,} are their context.",
        )
