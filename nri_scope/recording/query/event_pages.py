# SPDX-License-Identifier: Apache-2.0
"""Find the events of a recording, all or those that pass a filter, in short steps."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from nri_scope.errors import RecordingError
from nri_scope.events import Container, Event, Gap, Pod, Role, Session
from nri_scope.filter import Filter

from ..file import row_limits
from ..reading.connection import Value
from ..reading.opening import is_settled
from ..reading.reader import Recording
from ..reading.rows import EVENT_COLUMNS, RowError, event_of, optional_numbers_of
from ..reading.sqlite_errors import query_column, query_numbers, query_rows, recording_errors
from .event_times import is_redacted

_TableRows = list[tuple[object, ...]]
_STRETCH = 20_000
"""Number of events examined in one step."""
_AMONG = 500
"""Maximum number of events listed individually in one query."""
_STEP_SECONDS = 0.012
"""Target duration of a filter's step, which delays the reading of pages."""
_LEAST, _MOST = 500, 100_000
"""Minimum and maximum number of events in one step of a filter."""


class SessionTables:
    """Cache of sessions and gaps, which are read again only if a table has changed.

    With a thousand reconnects, checking for a change takes a fifth of the time of reading them. Not
    thread-safe.
    """

    def __init__(self) -> None:
        self.sessions: tuple[Session, ...] = ()
        """Sessions, oldest first; the same object until the table changes."""
        self.gaps: tuple[Gap, ...] = ()
        """Gaps, ordered by start; the same object until a table changes."""
        self._session_rows: _TableRows | None = None
        self._gap_rows: _TableRows | None = None
        self._counted = (0, 0, 0)
        """Oldest event, newest counted event, and number of CRI answers up to it."""

    def cri_answers(self, recording: Recording, oldest: int, newest: int) -> int:
        """Return the number of events that are CRI answers; several calls count them all."""
        sessions = [str(session.id) for session in self.sessions if session.role == Role.CRI]
        first, last, count = self._counted
        if not sessions or first != oldest:
            # A recorder has removed old events.
            last = count = 0
        until = min(newest, max(last, oldest - 1) + _MOST)
        if sessions and until > last:
            # The list of events shows what cannot be read.
            with suppress(RecordingError):
                ((more,),) = query_numbers(
                    recording,
                    f"SELECT count(*) FROM event WHERE id > {last} AND id <= {until} "
                    f"AND session IN ({', '.join(sessions)})",
                )
                last, count = until, count + more
        self._counted = (oldest, last, count)
        return count

    def read(self, recording: Recording) -> None:
        """Update sessions and gaps if the tables have changed. Raises RecordingError."""
        # The rows are read first, so that the next call detects a concurrent change.
        sessions, gaps = _rows(recording, "session"), _rows(recording, "gap")
        changed = sessions != self._session_rows
        if changed:
            self.sessions = tuple(recording.sessions())
            self._session_rows = sessions
        # Gaps between sessions depend on the sessions, too.
        if changed or gaps != self._gap_rows:
            self.gaps = tuple(recording.gaps())
            self._gap_rows = gaps


def _rows(recording: Recording, table: str) -> _TableRows:
    return query_rows(recording, f"SELECT * FROM {table} ORDER BY id LIMIT {row_limits.MAX_ROWS}")


@dataclass(frozen=True, slots=True)
class RecordingState:
    """State of a recording at one moment, without its events."""

    sessions: tuple[Session, ...]
    gaps: tuple[Gap, ...]
    oldest: int
    """Id of the oldest event; 0 if there is none."""
    newest: int
    """Id of the newest event; 0 if there is none, or it cannot be read."""
    cri_answers: int
    """Number of events that are answers of the CRI; more may be found later."""
    first_ns: int
    last_ns: int
    growing: bool
    """Whether a recorder is writing to it, or was killed."""
    redacted: bool
    size: int
    """Size of the file in bytes."""


def look(recording: Recording, tables: SessionTables) -> RecordingState:
    """Return a recording's current state. Raises RecordingError for unreadable sessions or gaps."""
    tables.read(recording)
    oldest, first_ns = _end(recording, "ASC")
    newest, last_ns = _end(recording, "DESC")
    cri_answers = tables.cri_answers(recording, oldest, newest)
    return RecordingState(
        sessions=tables.sessions,
        gaps=tables.gaps,
        oldest=oldest,
        newest=newest,
        cri_answers=cri_answers,
        first_ns=first_ns,
        last_ns=last_ns,
        growing=_is_growing(recording, tables.sessions),
        redacted=is_redacted(recording),
        size=size_of(recording),
    )


def _is_growing(recording: Recording, sessions: Sequence[Session]) -> bool:
    # The log beside the file exists while it is being read, even after the writer has exited; but a
    # writer ends its sessions before a regular exit.
    is_open = not sessions or any(session.ended_ns is None for session in sessions)
    return is_open and not recording.is_copy and not is_settled(recording.path.resolve())


def size_of(recording: Recording) -> int:
    """Return the size of all pages in bytes, including those in the log beside the file."""
    pages = query_numbers(
        recording, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
    )
    return pages[0][0]


def _end(recording: Recording, order: str) -> tuple[int, int]:
    try:
        rows = query_numbers(recording, f"SELECT id, at_ns FROM event ORDER BY id {order} LIMIT 1")
    except RecordingError:
        # `walk` reports up to which event the file can be read.
        return 0, 0
    return (rows[0][0], rows[0][1]) if rows else (0, 0)


def span_of(recording: Recording) -> dict[int, tuple[int, int | None]]:
    """Return the first and last event id of each session; the last is None for an open session."""
    with recording_errors(recording):
        rows = recording.connection.execute("SELECT id, first_event, last_event FROM session")
        spans = {}
        for row in rows:
            number, first, last = optional_numbers_of(row)
            if number is None or first is None:
                raise RowError("a session has no number")
            spans[number] = first, last
        return spans


def first_event_at(recording: Recording, at_ns: int, first: int, newest: int) -> int:
    """Return the first event id, from ``first`` on, at ``at_ns`` or later; else ``newest + 1``.

    If the clock was set back between events, the result is one of several candidates.
    """
    low, high = first, newest + 1
    while low < high:
        middle = (low + high) // 2
        rows = query_numbers(
            recording,
            "SELECT id, at_ns FROM event WHERE id >= ? AND id < ? ORDER BY id LIMIT 1",
            middle,
            high,
        )
        if not rows or rows[0][1] >= at_ns:
            # There is no event between the middle and this one.
            high = middle
        else:
            low = max(middle, rows[0][0]) + 1
    return low


# -- all events -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NumberRuns:
    """Events found by `walk`: ranges of consecutive ids, ``(first, last)``."""

    runs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Damage:
    """Damage after event ``after``; no later event can be read."""

    after: int
    words: str


def walk(recording: Recording, after: int) -> Iterator[NumberRuns | Damage]:
    """Yield the ids of all readable events after ``after``, in steps of milliseconds."""
    limit = _STRETCH
    while True:
        try:
            runs = _stretch(recording, after, limit)
        except RecordingError as error:
            if limit == 1:
                yield Damage(after, error.problem)
                return
            limit = max(1, limit // 4)
            continue
        if not runs:
            return
        after = runs[-1][1]
        yield NumberRuns(runs)


def _stretch(recording: Recording, after: int, limit: int) -> tuple[tuple[int, int], ...]:
    some = f"SELECT id FROM event WHERE id > {after} ORDER BY id LIMIT {limit}"
    ((count, first, last),) = query_numbers(
        recording, f"SELECT count(*), coalesce(min(id), 0), coalesce(max(id), 0) FROM ({some})"
    )
    if not count:
        return ()
    with recording_errors(recording):
        if not after < first <= last:
            raise RowError("its rows are out of order")
        if last - first + 1 == count:
            return ((first, last),)
        runs: list[tuple[int, int]] = []
        for number in query_column(recording, some):
            if number <= after:
                raise RowError("its rows are out of order")
            if runs and number == after + 1:
                runs[-1] = (runs[-1][0], number)
            else:
                runs.append((number, number))
            after = number
        return tuple(runs)


def validations(
    recording: Recording, after: int, until: int, most: int, aside: Sequence[str]
) -> tuple[int, list[tuple[int, ...]]]:
    """Look at up to ``most`` events after ``after`` for validations of the creation just before.

    Events after ``until`` are not looked at. ``aside``: methods outside the chain.

    Returns the id of the last event looked at, and pairs of ids: the validation, and the creation
    of the same container, which is the event before it in the chain.
    """
    some = f"SELECT id FROM event WHERE id > {after} AND id <= {until} ORDER BY id LIMIT {most}"
    ((newest,),) = query_numbers(recording, f"SELECT coalesce(max(id), {after}) FROM ({some})")
    methods = ", ".join("?" * len(aside))
    before = (
        "SELECT b.id FROM event AS b WHERE b.id < v.id "
        f"AND b.method NOT IN (SELECT id FROM name WHERE text IN ({methods})) ORDER BY b.id DESC"
    )
    return newest, query_numbers(
        recording,
        f"SELECT v.id, c.id FROM event AS v JOIN event AS c ON c.id = ({before} LIMIT 1) "
        f"WHERE v.id > {after} AND v.id <= {newest} AND c.container = v.container "
        "AND v.event = (SELECT id FROM name WHERE text = 'ValidateContainerAdjustment') "
        "AND c.event = (SELECT id FROM name WHERE text = 'CreateContainer') ORDER BY v.id",
        *aside,
    )


def of_methods(
    recording: Recording, after: int, until: int, methods: Sequence[str]
) -> list[tuple[int, ...]]:
    """Return ids and sessions of the events of some methods after ``after`` up to ``until``."""
    names = f"SELECT id FROM name WHERE text IN ({', '.join('?' * len(methods))})"
    return query_numbers(
        recording,
        f"SELECT id, session FROM event WHERE id > {after} AND id <= {until} "
        f"AND method IN ({names}) ORDER BY id",
        *methods,
    )


# -- some of them ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Question:
    """Selection of events that pass a filter and are about a pod or container."""

    where: Filter | None
    about: Pod | Container | None = None


@dataclass(frozen=True, slots=True)
class MatchingEvents:
    """Matching events of one step, which examined all events up to ``looked_at``."""

    numbers: array[int]
    looked_at: int


def matching(
    recording: Recording, question: Question, after: int, until: int
) -> Iterator[MatchingEvents | Damage]:
    """Yield the matching events after ``after`` up to ``until``, in steps of milliseconds."""
    count = 2_000
    while after < until:
        begin = time.perf_counter()
        try:
            matches = _matches(recording, question, after, until, count)
        except RecordingError as error:
            if count == 1:
                yield Damage(after, error.problem)
                return
            count = max(1, count // 4)
            continue
        after = matches.looked_at
        yield matches
        took = time.perf_counter() - begin
        if took < _STEP_SECONDS / 2:
            count = min(_MOST, count * 2)
        elif took > _STEP_SECONDS * 2:
            count = max(_LEAST, count // 2)


def _matches(
    recording: Recording, question: Question, after: int, until: int, count: int
) -> MatchingEvents:
    if question.about is not None:
        return _matches_about(recording, question, question.about, after, until)
    upto = min(until, after + count)
    # For a range, SQLite also reads the row after its end, which may be damaged.
    which = "id > ? AND id <= ?" if count > 1 else "id > ? AND id = ?"
    numbers = _filtered(recording, question, which, (after, upto), (after, upto))
    if not numbers and upto < until:
        # There may be a large range without events: skip it in one step.
        following = query_numbers(
            recording, "SELECT id FROM event WHERE id > ? ORDER BY id LIMIT 1", upto
        )
        upto = min(until, max(upto, following[0][0] - 1)) if following else until
    return MatchingEvents(numbers, upto)


def _matches_about(
    recording: Recording, question: Question, about: Pod | Container, after: int, until: int
) -> MatchingEvents:
    column = "pod" if isinstance(about, Pod) else "container"
    limit = _AMONG if question.where is not None else _STRETCH
    with recording_errors(recording):
        ids = query_column(
            recording,
            f"SELECT id FROM event WHERE {column} = ? AND id > ? AND id <= ? "
            f"ORDER BY id LIMIT {limit}",
            about.key,
            after,
            until,
        )
        numbers = _in_order(ids, (after, until))
    upto = numbers[-1] if len(numbers) == limit else until
    if numbers and question.where is not None:
        numbers = _filtered(recording, question, AMONG, (listed(numbers),), (after, upto))
    return MatchingEvents(numbers, upto)


def _filtered(
    recording: Recording,
    question: Question,
    which: str,
    values: tuple[Value, ...],
    bounds: tuple[int, int],
) -> array[int]:
    condition, parameters = sql_of(question.where)
    with recording_errors(recording):
        # As one row: after each row, this thread would have to wait for the GIL.
        ((ids,),) = recording.connection.execute(
            "SELECT group_concat(id) FROM "
            f"(SELECT id FROM events WHERE ({condition}) AND {which} ORDER BY id)",
            [*parameters, *values],
        )
        return _in_order(map(_as_number, ids.split(",")) if ids else (), bounds)


def sql_of(where: Filter | None) -> tuple[str, Sequence[Value]]:
    """Return a filter as an SQL condition on the view "events", with its values."""
    return where.to_sql() if where is not None else ("1", ())


def _as_number(text: str) -> int:
    if not text.isdecimal():
        raise RowError("a number has a value of a wrong type")
    return int(text)


def _in_order(numbers: Iterable[int], bounds: tuple[int, int]) -> array[int]:
    """Return ``numbers``. Raises RowError unless they ascend from above the first bound to the
    second.
    """
    after, until = bounds
    ordered = array("q")
    for number in numbers:
        if not after < number <= until:
            raise RowError("its rows are out of order")
        ordered.append(number)
        after = number
    return ordered


AMONG = "id IN (SELECT value FROM json_each(?))"
"""SQL condition for events whose ids are `listed` in its parameter. A query with ids as literals
would be prepared each time, and then cached by the connection with up to 50 KiB."""


def listed(numbers: Sequence[int]) -> str:
    """Return the parameter of `AMONG` for events with these ids."""
    return f"[{','.join(map(str, numbers))}]"


# -- whole events ---------------------------------------------------------------------------


def events_of(recording: Recording, numbers: Sequence[int]) -> dict[int, Event | RecordingError]:
    """Return the existing events with these ids; for an unreadable event, the error."""
    events: dict[int, Event | RecordingError] = {}
    for start in range(0, len(numbers), _AMONG):
        some = numbers[start : start + _AMONG]
        try:
            events.update(_events(recording, some))
        except RecordingError:
            for number in some:
                try:
                    events.update(_events(recording, [number]))
                except RecordingError as error:
                    events[number] = error
    return events


def _events(recording: Recording, numbers: Sequence[int]) -> dict[int, Event]:
    with recording_errors(recording):
        rows = recording.connection.execute(
            f"SELECT {EVENT_COLUMNS} FROM events WHERE {AMONG}", (listed(numbers),)
        ).fetchall()
        return {event.id: event for event in map(event_of, rows)}
