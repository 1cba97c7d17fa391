# SPDX-License-Identifier: Apache-2.0
"""Collect the context of chosen events, without which an extract would give wrong results.

For every pod and container of a chosen event, all earlier events are copied, too: a plugin's
changes are visible in later events, and if some of these were missing, the wrong plugin would be
blamed. Rounds are copied as a whole for the same reason: a connection whose event is missing would
seem not to have taken part.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from nri_scope.events import CONTAINER_STATUS
from nri_scope.nri import v01
from nri_scope.nri.events import (
    CONFIGURE,
    CREATE,
    POST_CREATE,
    POST_START,
    POST_UPDATE,
    REGISTER,
    SHUTDOWN,
    START,
    UNSOLICITED,
    VALIDATE,
)
from nri_scope.recording.file.sqlite_text import number_list
from nri_scope.recording.reading.entries import IncludedRows, updates_by
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.row_pages import ascending, is_among, joined, pages
from nri_scope.recording.reading.rows import optional_numbers_of
from nri_scope.recording.reading.sqlite_errors import recording_errors
from nri_scope.recording.reading.work_budget import OnShare

from .selected_events import Chosen

_MAX_SAME_ID = 8
"""Maximum number of pods or containers with the same id; a recorder distinguishes no more."""
_ROUND_EVENTS = 100
"""Number of events to search for the end of a round; more than a round has connections."""
_COLUMNS = "id, session, event, pod, container, at_ns"
_NOTIFICATIONS = (POST_CREATE, START, POST_START, POST_UPDATE)
"""Events that may occur between a change of a container and the CRI's status of it."""
_OUTSIDE_ROUNDS = (
    *(REGISTER, CONFIGURE, UNSOLICITED, CONTAINER_STATUS, SHUTDOWN),
    *v01.INVOCATIONS,
)
"""Calls that concern one connection only, which may occur during a round."""

_Row = tuple[int | None, ...]
_Subject = tuple[bool, int]
"""Whether the subject is a container (else a pod), and its key."""


def with_context(source: Recording, chosen: Chosen, on_progress: OnShare) -> IncludedRows:
    """Return the rows of the new recording. Raises RecordingError."""
    context = _Context(source, chosen)
    context.collect(on_progress)
    context.add_witnesses()
    # Configure has the plugin's configuration, which may name other namespaces.
    shared = () if chosen.namespaces else chosen.setup
    setup = (event for event, session in shared if session in context.sessions)
    context.events.extend(event for event in setup if not is_among(chosen.events, event))
    kept = joined(chosen.events, ascending(context.events))
    containers = {key for is_container, key in context.required if is_container}
    pods = {key for is_container, key in context.required if not is_container}
    return IncludedRows(
        until=chosen.until,
        chosen=chosen.events,
        kept=kept,
        sessions=context.sessions,
        pods=pods,
        containers=containers,
        whole_states=() if chosen.namespaces else chosen.synchronized,
        damage=chosen.damage,
        only_subjects=bool(chosen.namespaces),
    )


@dataclass(slots=True)
class _Context:
    source: Recording
    chosen: Chosen
    events: array[int] = field(default_factory=lambda: array("q"))
    """Events of the context, in any order, with duplicates."""
    sessions: set[int] = field(default_factory=set)
    """Sessions of the chosen events and their context, and sessions that only show an absence."""
    required: dict[_Subject, int] = field(default_factory=dict)
    """Subjects, each with the last event up to which all of its events are required."""
    _times: array[int] = field(default_factory=lambda: array("q"))
    _done: dict[_Subject, int] = field(default_factory=dict)
    _pending: list[_Subject] = field(default_factory=list)
    _outside_rounds: list[int] = field(init=False)
    """Row ids of names of methods, or in the fields below, of methods and events."""
    _notifications: list[int] = field(init=False)
    _cri_answers: list[int] = field(init=False)
    _creation_rounds: tuple[int | None, int | None] = field(init=False)
    _allowed: set[int] | None = None
    """Keys of the pods of the namespaces that are selected; None for all namespaces."""

    def __post_init__(self) -> None:
        self._outside_rounds = self._names_of(_OUTSIDE_ROUNDS)
        self._creation_rounds = self._name(CREATE), self._name(VALIDATE)
        self._notifications = self._names_of(_NOTIFICATIONS)
        self._cri_answers = self._names_of((CONTAINER_STATUS,))
        self.sessions |= self.chosen.sessions
        if self.chosen.namespaces:
            pods = self.source.pods()
            self._allowed = {pod.key for pod in pods if pod.namespace in self.chosen.namespaces}

    def collect(self, on_progress: OnShare) -> None:
        """Add subjects and events until none are missing."""
        for is_container, subjects in ((True, self.chosen.containers), (False, self.chosen.pods)):
            for key, until in subjects.items():
                self._require((is_container, key), until)
        self._require_synchronized()
        self._require_updated(self.chosen.events)
        finished = 0
        while self._pending:
            self._visit(self._pending.pop())
            finished += 1
            if finished % 100 == 0:
                on_progress(finished / (finished + len(self._pending)))

    def add_witnesses(self) -> None:
        """Add sessions that were open but got none of the events: they show where a chain ended."""
        times = sorted({*self.chosen.times, *self._times})
        for number, session in self.chosen.known.items():
            at = bisect_left(times, session.started_ns)
            was_open = at < len(times) and (
                session.ended_ns is None or times[at] <= session.ended_ns
            )
            if was_open and session.is_connection:
                self.sessions.add(number)

    def _is_allowed(self, pod: int | None, container: int | None) -> bool:
        if self._allowed is None:
            return True
        if pod is None and container is not None:
            pod = self._pod_of(container)
        return pod in self._allowed

    def _require(self, subject: _Subject, until: int) -> None:
        is_container, key = subject
        is_allowed = self._is_allowed(*((None, key) if is_container else (key, None)))
        if is_allowed and self.required.get(subject, -1) < until:
            self.required[subject] = until
            self._pending.append(subject)

    def _require_synchronized(self) -> None:
        """Add the pods and containers listed in chosen Synchronize requests."""
        query = (
            "SELECT position, pod, container FROM state WHERE event = ? "
            "AND session = (SELECT session FROM event WHERE id = ?) AND position > ? "
            "ORDER BY position LIMIT ?"
        )
        for event in self.chosen.synchronized:
            for page in pages(self.source, query, event, event, after=-1):
                for _, pod, container in page:
                    self._require_both(pod, container, event)

    def _require_both(self, pod: int | None, container: int | None, until: int) -> None:
        if container is not None:
            self._require((True, container), until)
        if pod is not None:
            self._require((False, pod), until)

    def _require_updated(self, events: array[int]) -> None:
        """Add the containers that these events update."""
        for container, event in updates_by(self.source, events):
            self._require((True, container), event)

    def _visit(self, subject: _Subject) -> None:
        until, after = self.required[subject], self._done.get(subject, 0)
        if until <= after:
            return
        self._done[subject] = until
        is_container, key = subject
        if after == 0:
            self._require_same_id(subject, until)
        if is_container and (pod := self._pod_of(key)) is not None:
            self._require((False, pod), until)
        found = list(self._events_of(subject, after, until))
        # A round is only complete with all of its connections.
        found += self._rest_of_round(subject, until)
        if is_container:
            found += self._updates_by_others(key, after, until)
            found += self._cri_answer(key, until)
        new = array("q")
        for number, session, _, pod, container, at_ns in found:
            if number is None or session is None or number > self.chosen.until:
                continue
            if session not in self.chosen.known:
                continue
            # Neither of an event without a pod, which may concern any.
            if not self._is_allowed(pod, container):
                continue
            self.sessions.add(session)
            if at_ns is not None:
                self._times.append(at_ns)
            if not is_among(self.chosen.events, number):
                new.append(number)
            self._require_both(pod, container, number)
        self.events.extend(new)
        self._require_updated(ascending(new))

    def _require_same_id(self, subject: _Subject, until: int) -> None:
        # Messages identify subjects by id, so rows with the same id belong together.
        is_container, key = subject
        table = "container" if is_container else "pod"
        rows = self.source.rows(
            f"SELECT key FROM {table} WHERE key <> ? AND id <> '' "
            f"AND id = (SELECT id FROM {table} WHERE key = ?) ORDER BY key LIMIT ?",
            (key, key, _MAX_SAME_ID),
        )
        for same_id in self._numbers(rows):
            if same_id is not None and (is_container, same_id) not in self._done:
                self._require((is_container, same_id), until)

    def _pod_of(self, container: int) -> int | None:
        rows = self.source.rows("SELECT pod FROM container WHERE key = ?", (container,))
        return next(iter(self._numbers(rows)), None)

    def _events_of(self, subject: _Subject, after: int, until: int) -> Iterator[_Row]:
        query = (
            f"SELECT {_COLUMNS} FROM event WHERE {_condition(subject)} AND id <= ? AND id > ? "
            "ORDER BY id LIMIT ?"
        )
        found = pages(self.source, query, subject[1], until, after=after, until=until)
        return chain.from_iterable(found)

    def _rest_of_round(self, subject: _Subject, until: int) -> Iterator[_Row]:
        """Yield later events of the same round, and the validation after a creation round."""
        before = self._neighbours(subject, f"id <= {int(until)}", "DESC")
        if not before:
            return
        kind = before[0][2]
        seen = {row[1] for row in _newest_round(before, kind)}
        for row in self._neighbours(subject, f"id > {int(until)}", "ASC"):
            if row[2] != kind:
                if (kind, row[2]) != self._creation_rounds:
                    return
                # Validators are called directly after the creation round.
                kind, seen = row[2], set()
            if row[1] in seen:
                return
            seen.add(row[1])
            yield row

    def _neighbours(self, subject: _Subject, where: str, order: str) -> list[_Row]:
        rows = self.source.rows(
            f"SELECT {_COLUMNS} FROM event WHERE {_condition(subject)} AND {where} "
            f"AND id <= ? AND method NOT IN {number_list(self._outside_rounds)} "
            f"ORDER BY id {order} LIMIT ?",
            (subject[1], self.chosen.until, _ROUND_EVENTS),
        )
        with recording_errors(self.source):
            return [optional_numbers_of(row) for row in rows]

    def _cri_answer(self, container: int, until: int) -> Iterator[_Row]:
        """Yield the CRI's next answer about a container, if no change can have come in between.

        The CRI is queried once a container runs. Its answer is evidence of what plugins' changes
        resulted in.
        """
        if not self._cri_answers:
            return
        rows = self.source.rows(
            f"SELECT {_COLUMNS}, method FROM event WHERE container = ? AND id > ? AND id <= ? "
            "ORDER BY id LIMIT ?",
            (container, until, self.chosen.until, _ROUND_EVENTS),
        )
        with recording_errors(self.source):
            found = [optional_numbers_of(row) for row in rows]
        for *row, method in found:
            if method in self._cri_answers:
                number = row[0] or 0
                if not any(True for _ in updates_of(self.source, container, until, number)):
                    yield tuple(row)
                return
            if row[2] not in self._notifications:
                return

    def _updates_by_others(self, container: int, after: int, until: int) -> Iterator[_Row]:
        """Yield events about other containers that requested an update of ``container``."""
        for event in updates_of(self.source, container, after, until):
            rows = self.source.rows(f"SELECT {_COLUMNS} FROM event WHERE id = ?", (event,))
            with recording_errors(self.source):
                yield from map(optional_numbers_of, rows)

    def _names_of(self, texts: Iterable[str]) -> list[int]:
        return [number for text in texts if (number := self._name(text)) is not None]

    def _name(self, text: str) -> int | None:
        return next(
            iter(self._numbers(self.source.rows("SELECT id FROM name WHERE text = ?", (text,)))),
            None,
        )

    def _numbers(self, rows: list[tuple[object, ...]]) -> list[int | None]:
        with recording_errors(self.source):
            return [optional_numbers_of(row)[0] for row in rows]


def updates_of(source: Recording, container: int, after: int, until: int) -> Iterator[int]:
    """Yield events that update a container, numbered above ``after`` and up to ``until``.

    Raises RecordingError.
    """
    query = (
        "SELECT event FROM effect WHERE container = ? AND event <= ? AND event > ? "
        "ORDER BY event LIMIT ?"
    )
    for page in pages(source, query, container, until, after=after, until=until):
        yield from (event for (event,) in page if event is not None)


def _condition(subject: _Subject) -> str:
    return "container = ?" if subject[0] else "pod = ? AND container IS NULL"


def _newest_round(rows: list[_Row], kind: int | None) -> Iterator[_Row]:
    """Yield the first rows, newest first, that are the same event at different connections."""
    seen: set[int | None] = set()
    for row in rows:
        if row[2] != kind or row[1] in seen:
            return
        seen.add(row[1])
        yield row
