# SPDX-License-Identifier: Apache-2.0
"""Determine whether creations and updates of containers succeeded, from the events after them.

A runtime sends PostUpdateContainer exactly for the updates that it carried out, and
PostCreateContainer exactly for the containers that it created. containerd undoes a failed creation
by StopContainer and RemoveContainer (``UndoCreateContainer`` in internal/cri/nri);
CRI-O sends no further event about a creation that failed after the chain. Both were verified by
experiment. Docker Engine sends neither; a container in a later Synchronize was created.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.entries import OperationFate, OperationOutcome
from nri_scope.events import CONTAINER_STATUS, Event, Role, Session
from nri_scope.nri.events import (
    CONTAINER_ENDS,
    CREATE,
    CREATED_ONLY_EVENTS,
    POD_ENDS,
    POST_EVENT_OF,
    REMOVE,
    START,
    STOP,
    UPDATE,
    VALIDATE,
)
from nri_scope.nri.request_subject import decode_request
from nri_scope.oci.runtime_rules import runtime_rules_of

from ..reading.reader import Recording
from ..reading.rows import Row, RowError, number_of, optional_numbers_of
from ..reading.sqlite_errors import query_column, query_rows, recording_errors
from .cri_answers import CREATION_SECONDS, container_status

OPERATION_EVENTS = (CREATE, VALIDATE, UPDATE)
"""Events of creations and updates, which have an outcome."""
_ROWS_MAX = 400
"""Maximum number of examined events of one container, a multiple of those of 16 connections."""
_FEW = 24
"""Number of events that are examined first; they show the outcome of most creations."""
_MANY_MAX = 100_000
"""Maximum number of events examined per recording where the first `_FEW` do not show the outcome.
Only a forged recording reaches it, by creating a container repeatedly.
"""
_NEAR = 1_000
"""Maximum distance, in event ids, between two events of one creation: some seconds of events."""
_RANGE_MAX = 100_000
"""Maximum length of a range of events that is searched for lost ones, which takes 10 ms."""
_SEARCHED_MAX = 100 * _RANGE_MAX
"""Maximum total length of these ranges per recording, which may be untrusted."""
_ATTEMPTS_MAX = 500
"""Maximum number of container names per recording whose creations are searched."""


_FATES = {fate.value: fate for fate in OperationFate}
_NAMES = frozenset({"", CREATE, *POST_EVENT_OF, CONTAINER_STATUS, *CONTAINER_ENDS, *POD_ENDS})
"""Names of events that may show a failure; others in an untrusted file are ignored."""
CREATED = OperationOutcome(OperationFate.CREATED)
UNKNOWN = OperationOutcome(OperationFate.UNKNOWN)
INSERT_OUTCOME = (
    "INSERT OR REPLACE INTO outcome (event, fate, shown_by, name, session, after_ns) "
    "VALUES (?, ?, ?, ?, ?, ?)"
)
_STORED = "SELECT event, fate, shown_by, name, session, after_ns FROM outcome"


class _EventRow(NamedTuple):
    id: int
    session: int
    seq: int
    at_ns: int
    name: str


_NAMES_MAX = 8
"""Maximum number of names of one container that are searched."""
_ROW = (int, int, int, int, str)


class Creations:
    """Outcomes of a recording's creations. Methods raise RecordingError for a faulty file."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._sessions: dict[int, Session] = {}
        self._pods: dict[int, Sequence[_EventRow]] = {}
        """Events that stopped and removed each pod, by the pod's key."""
        self._attempts: dict[tuple[int, str], Sequence[_EventRow]] = {}
        """Creations by the pod's key and the container's name."""
        self._searched = self._many = 0
        self._allowance = recording.allowance()
        self._indices: dict[int, str] = {}
        self._keys: dict[str, list[int]] = {}
        """Keys of the containers with an id: a plugin can change a container's name."""

    def outcome(self, event: Event) -> OperationOutcome:
        """Return the outcome of the operation to which ``event`` belongs, from all connections."""
        if event.event in (START, UPDATE):
            return self._stored_outcome(event) or self._outcome_by_post(event)
        if event.event == CREATE and self._is_proven_next(event):
            return CREATED
        asked: list[_EventRow] = []
        later: list[_EventRow] = []
        for most in (_FEW, _ROWS_MAX):
            near = f"{self._of_container(event)} AND o.id > :event - {_NEAR}"
            rows = self._rows(f"{near} ORDER BY o.id LIMIT {most}", event=event.id)
            self._many += len(rows) if most > _FEW else 0
            asked, later = _attempt(rows, event, self._index)
            if any(row.name in CREATED_ONLY_EVENTS for row in later):
                return CREATED
            if (answer := self._answered(asked, later)) is not None:
                return answer
            if len(rows) < most or self._many > _MANY_MAX:
                break
        stored = self._stored_outcome(event)
        if stored is not None:
            return stored
        best = UNKNOWN
        for row in asked:
            outcome = self._seen_by(row, event, later)
            if outcome.fate is OperationFate.FAILED:
                return outcome
            best = outcome if best.fate is OperationFate.UNKNOWN else best
        return best

    def _outcome_by_post(self, event: Event) -> OperationOutcome:
        """Return the outcome of an update or a start, by the events after its first, ``event``."""
        rows = self._rows(
            f"{self._of_container(event)} AND o.id >= :event ORDER BY o.id LIMIT {_ROWS_MAX}",
            event=event.id,
        )
        asked: dict[int, _EventRow] = {}
        for row in rows:
            if row.name != event.event or row.session in asked:
                break
            asked[row.session] = row
        best = UNKNOWN
        for row in asked.values():
            outcome = self._seen_by_post(row, rows)
            if outcome.fate in (OperationFate.CREATED, OperationFate.FAILED):
                return outcome
            best = outcome if best.fate is OperationFate.UNKNOWN else best
        return best

    def _seen_by_post(self, asked: _EventRow, rows: Sequence[_EventRow]) -> OperationOutcome:
        """Return the outcome as seen by the connection of one event, ``asked``."""
        session = self._session(asked.session)
        if session is None or session.role == Role.REPLAY:
            return UNKNOWN
        post = POST_EVENT_OF[asked.name]
        if not session.subscribes_to(post):
            return UNKNOWN
        end: _EventRow | None = None
        running = 1
        for row in rows:
            if row.session != asked.session or row.id <= asked.id:
                continue
            if row.name == post.name:
                running -= 1
            elif row.name == asked.name:
                running += 1
            # Two updates may run at once; their Post events then follow both.
            if not running:
                return CREATED
            if row.name in (asked.name, REMOVE, CREATE):
                end = end or row
            if row.name in (REMOVE, CREATE):
                break
        if end is None and len(rows) < _ROWS_MAX:
            end = self._pod_end(asked)
        return self._by_end(asked, session, end)

    def _by_end(
        self, asked: _EventRow, session: Session, end: _EventRow | None
    ) -> OperationOutcome:
        """Return the outcome by the event that shows a failure, or else by the session's end."""
        if end is not None:
            if not self._is_complete(asked, end.id):
                return UNKNOWN
            return OperationOutcome(OperationFate.FAILED, end.id, end.name)
        if session.ended_ns is None or not self._is_complete(asked, None):
            return UNKNOWN
        after_ns = max(0, session.ended_ns - asked.at_ns)
        return OperationOutcome(OperationFate.OPEN, session=session.id, after_ns=after_ns)

    def _is_proven_next(self, event: Event) -> bool:
        """Return whether the container's next event shows that it was created, as usually."""
        rows = self._rows(
            f"{self._of_container(event)} AND o.id > :event ORDER BY o.id LIMIT 1",
            event=event.id,
        )
        return any(row.name in CREATED_ONLY_EVENTS for row in rows)

    def _answered(
        self, asked: Sequence[_EventRow], later: Sequence[_EventRow]
    ) -> OperationOutcome | None:
        """Return the outcome by the CRI's answers; None if it was not asked in time.

        The answer about a container that was removed before the question shows nothing.
        """
        for row in later:
            if row.name == REMOVE:
                break
            if row.name == CONTAINER_STATUS:
                (chain, _, _), (answer, _, reply) = self._recording.exchanges(
                    among=[asked[-1].id, row.id], allowance=self._allowance
                )
                if not container_status(reply).not_found:
                    return CREATED
                if answer.mono_ns - chain.mono_ns >= CREATION_SECONDS * 1e9:
                    return OperationOutcome(OperationFate.FAILED, row.id, CONTAINER_STATUS)
        return None

    def _stored_outcome(self, event: Event) -> OperationOutcome | None:
        """Return the outcome stored when this part was extracted from a recording; None if none."""
        with recording_errors(self._recording):
            row = self._recording.connection.execute(
                f"{_STORED} WHERE event = ?", (event.id,)
            ).fetchone()
            return None if row is None else _stored(row)

    def _seen_by(
        self, asked: _EventRow, event: Event, later: Sequence[_EventRow]
    ) -> OperationOutcome:
        """Return the outcome as seen by the connection of one CreateContainer, ``asked``."""
        session = self._session(asked.session)
        if session is None or session.role == Role.REPLAY:
            return UNKNOWN
        if not runtime_rules_of(session.runtime_name).shows_outcomes:
            return CREATED if self._is_listed(asked) else UNKNOWN
        mine = (row for row in later if row.session == asked.session)
        end = next((row for row in mine if row.name in (*CONTAINER_ENDS, CREATE)), None)
        if not session.subscribes_to(POST_EVENT_OF[CREATE]):
            return self._by_state(end, session)
        if end is None and len(later) >= _ROWS_MAX // 2:
            return UNKNOWN
        if end is None:
            ends = [self._pod_end(asked)]
            if len(self._attempts) <= _ATTEMPTS_MAX:
                ends.append(self._next_attempt(asked, event))
            elif ends == [None]:
                return UNKNOWN
            # The first one, so that later events do not change the outcome.
            end = min((end for end in ends if end is not None), default=None)
        return self._by_end(asked, session, end)

    def _by_state(self, end: _EventRow | None, session: Session) -> OperationOutcome:
        """Return the outcome from StopContainer, for a plugin without PostCreateContainer.

        After a failed creation, containerd sends the container without state and process.
        """
        if end is None or end.name != STOP:
            return UNKNOWN
        if not runtime_rules_of(session.runtime_name).clears_uncreated_state:
            return UNKNOWN
        for event, request, _ in self._recording.exchanges(
            among=[end.id], allowance=self._allowance
        ):
            container = decode_request(event.method, request).container
            if container is None or container.state != api.ContainerState.CONTAINER_UNKNOWN:
                break
            if container.pid or container.created_at or container.started_at:
                break
            return OperationOutcome(OperationFate.FAILED, end.id)
        return UNKNOWN

    def _is_listed(self, asked: _EventRow) -> bool:
        """Return whether a later Synchronize has the container."""
        query = (
            "SELECT 1 FROM state WHERE event > ? "
            "AND container = (SELECT container FROM event WHERE id = ?) LIMIT 1"
        )
        return self._number(query, asked.id, asked.id) is not None

    def _pod_end(self, asked: _EventRow) -> _EventRow | None:
        """Return the event that stopped the container's pod later, on the same connection."""
        key = self._number("SELECT pod FROM event WHERE id = ?", asked.id)
        if key is None:
            return None
        if key not in self._pods:
            self._pods[key] = self._rows(
                f"o.pod = :pod AND o.container IS NULL AND n.text IN {POD_ENDS} ORDER BY o.id",
                pod=key,
            )
        return _first_after(self._pods[key], asked)

    def _next_attempt(self, asked: _EventRow, event: Event) -> _EventRow | None:
        """Return the next CreateContainer for the same container name in the same pod."""
        key = self._number("SELECT pod FROM event WHERE id = ?", asked.id)
        if key is None or not event.container:
            return None
        if (key, event.container) not in self._attempts:
            self._attempts[key, event.container] = self._rows(
                "o.container IN (SELECT key FROM container WHERE pod = :pod AND name = :name) "
                f"AND n.text = '{CREATE}' ORDER BY o.id",
                pod=key,
                name=event.container,
            )
        return _first_after(self._attempts[key, event.container], asked)

    def _is_complete(self, asked: _EventRow, last: int | None) -> bool:
        """Return whether no event of the session was lost between ``asked`` and event ``last``.

        ``last``: None for the end of the session.
        """
        if last is None:
            last = self._number("SELECT max(id) FROM event") or asked.id
        self._searched += last - asked.id
        if last - asked.id > _RANGE_MAX or self._searched > _SEARCHED_MAX:
            return False
        query = (
            "SELECT count(*), min(seq), max(seq) FROM event "
            "WHERE session = ? AND id BETWEEN ? AND ?"
        )
        (row,) = query_rows(self._recording, query, asked.session, asked.id, last)
        count, first, newest = optional_numbers_of(row)
        if not count or first is None or newest is None:
            return False
        return newest - first == count - 1

    def _of_container(self, event: Event) -> str:
        """Return the condition for all events of an event's container, under each of its names."""
        keys = self._keys.get(event.container_id)
        if keys is None:
            query = "SELECT key FROM container WHERE id = ? LIMIT ?"
            keys = query_column(self._recording, query, event.container_id, _NAMES_MAX)
            self._keys[event.container_id] = keys
        if len(keys) < 2:
            # Without IN the rows are read in order, up to the limit.
            return "o.container = (SELECT container FROM event WHERE id = :event)"
        return f"o.container IN ({', '.join(map(str, keys))})"

    # -- the file -----------------------------------------------------------------------------

    def _session(self, number: int) -> Session | None:
        """Return a session, in its newest state: an open one may have ended."""
        cached = self._sessions.get(number)
        if cached is None or (
            cached.ended_ns is None
            and self._number("SELECT ended_ns FROM session WHERE id = ?", number) is not None
        ):
            self._sessions = {session.id: session for session in self._recording.sessions()}
        return self._sessions.get(number)

    def _index(self, number: int) -> str:
        """Return the plugin index of a session: two digits, or "" if it shows no order."""
        if number not in self._indices:
            session = self._session(number)
            is_ordered = (
                session is not None and runtime_rules_of(session.runtime_name).has_ordered_chain
            )
            self._indices[number] = session.plugin_index if session and is_ordered else ""
        return self._indices[number]

    def _rows(self, condition: str, **values: int | str) -> list[_EventRow]:
        query = (
            "SELECT o.id, o.session, o.seq, o.at_ns, n.text FROM event AS o "
            f"JOIN name AS n ON n.id = o.event WHERE {condition}"
        )
        with recording_errors(self._recording):
            return [_row_of(row) for row in self._recording.connection.execute(query, values)]

    def _number(self, query: str, *values: int) -> int | None:
        with recording_errors(self._recording):
            row = self._recording.connection.execute(query, values).fetchone()
            return None if row is None or row[0] is None else number_of(row)


def stored_outcomes(recording: Recording, events: Sequence[int]) -> dict[int, OperationOutcome]:
    """Return the outcomes that a part of a recording stores for some of its events.

    Raises RecordingError for a faulty file.
    """
    with recording_errors(recording):
        rows = recording.connection.execute(
            f"{_STORED} WHERE event IN (SELECT value FROM json_each(?))", (json.dumps([*events]),)
        )
        outcomes = {number_of((row[0],)): _stored(row) for row in rows}
    return {event: outcome for event, outcome in outcomes.items() if outcome is not None}


def outcome_of(
    fate: str, event: int, name: str, session: int, after_ns: int
) -> OperationOutcome | None:
    """Return the outcome with these fields; None if they are not those of an outcome."""
    if fate not in _FATES or name not in _NAMES:
        return None
    return OperationOutcome(_FATES[fate], event, name, session, after_ns)


def _stored(row: Row) -> OperationOutcome | None:
    """Return the outcome in a row of `_STORED`; None if it has unknown words. Raises RowError."""
    _, fate, shown_by, name, session, after_ns = row
    shown_by, session, after_ns = (number_of((value,)) for value in (shown_by, session, after_ns))
    return outcome_of(str(fate), shown_by, str(name), session, after_ns)


def _row_of(row: Row) -> _EventRow:
    if tuple(map(type, row)) != _ROW:
        raise RowError("an event has values of a wrong type")
    return _EventRow(*row)


def _attempt(
    rows: Sequence[_EventRow], event: Event, index_of: Callable[[int], str]
) -> tuple[list[_EventRow], list[_EventRow]]:
    """Return the events of the creation that includes ``event``, and the container's later events.

    A runtime calls each connection once per creation, in the order of indices. A second call to a
    connection, or to one with a lower index, begins another creation.
    """
    asked: dict[int, _EventRow] = {}
    later: list[_EventRow] = []
    is_mine = False
    newest = ""
    for row in rows:
        index = index_of(row.session)
        if row.name == CREATE and (row.session in asked or later or index < newest):
            if is_mine:
                later.append(row)
                break
            asked, later = {}, []
        is_mine = is_mine or row.id == event.id
        if row.name == CREATE:
            asked[row.session], newest = row, index
        elif asked and row.name != VALIDATE:
            later.append(row)
    return (list(asked.values()), later) if is_mine else ([], [])


def _first_after(rows: Sequence[_EventRow], asked: _EventRow) -> _EventRow | None:
    return next((row for row in rows if row.id > asked.id and row.session == asked.session), None)
