# SPDX-License-Identifier: Apache-2.0
"""Outcomes of a recording's creations, derived from the events that followed them.

A runtime sends PostCreateContainer for every container that it created, and for no other.
containerd undoes a failed creation by StopContainer and RemoveContainer (``UndoCreateContainer`` in
internal/cri/nri); CRI-O sends no further event of a creation that failed after the chain (both
tried).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import Event, Role, Session
from nri_scope.nri.events import Event as NriEvent
from nri_scope.nri.request_subject import decode_request
from nri_scope.oci.runtime_rules import runtime_rules_of

from .reader import Recording
from .rows import Row, RowError, number_of, optional_numbers_of
from .schema_check import has_outcomes
from .sqlite_errors import recording_errors

_POST_CREATE = NriEvent.PostCreateContainer
_SHOWS = (
    "PostCreateContainer",
    "StartContainer",
    "PostStartContainer",
    "UpdateContainer",
    "PostUpdateContainer",
    "ContainerStatus",
)
"""Events that a container has only if it was created."""
_CREATE, _VALIDATE = "CreateContainer", "ValidateContainerAdjustment"
_ENDS = ("StopContainer", "RemoveContainer")
_POD_ENDS = ("StopPodSandbox", "RemovePodSandbox")
NO_POST = "PostCreateContainer did not follow"
NO_STATE = "the container never came to be"
_ROWS_MAX = 400
"""Maximum number of examined events of one container: several times those of 16 connections."""
_FEW = 24
"""Number of events that show the outcome of most creations."""
_MANY_MAX = 100_000
"""Maximum number of events that are examined if `_FEW` do not show the outcome. A container is
created repeatedly only in a forged recording.
"""
_NEAR = 1_000
"""Maximum distance between the first event of a creation and another: events of some seconds."""
_RANGE_MAX = 100_000
"""Maximum number of events, of all sessions, that are searched for lost ones; 10 ms."""
_SEARCHED_MAX = 100 * _RANGE_MAX
"""Maximum number of events in all these searches of one recording, which may be untrusted."""
_ATTEMPTS_MAX = 500
"""Maximum number of names whose creations are searched in it."""


class CreationFate(Enum):
    """The fate of a creation."""

    CREATED = "created"
    FAILED = "failed"
    OPEN = "open"
    """The session ended before any event showed the outcome."""
    UNKNOWN = "unknown"
    """No event shows the outcome, or not yet."""


class Outcome(NamedTuple):
    """The outcome of a creation, and the evidence."""

    fate: CreationFate
    event: int = 0
    """For FAILED: the event that shows the failure."""
    name: str = ""
    """Name of that event; "" if StopContainer's container shows the failure."""
    session: int = 0
    """For OPEN: the session that ended."""
    after_ns: int = 0
    """For OPEN: how long the session lasted after CreateContainer."""

    @property
    def words(self) -> str:
        """The reason, for FAILED and OPEN."""
        match self.fate:
            case CreationFate.FAILED if self.name:
                return f"{NO_POST}, {self.name} did (event {self.event})"
            case CreationFate.FAILED:
                return f"{NO_STATE}, as StopContainer shows it (event {self.event})"
            case CreationFate.OPEN:
                return f"PostCreateContainer had not come when session {self.session} ended"
        return ""


_FATES = {one.value: one for one in CreationFate}
_NAMES = frozenset({"", _CREATE, *_ENDS, *_POD_ENDS})
"""Names of events that may show a failure; others in an untrusted file are ignored."""
CREATED = Outcome(CreationFate.CREATED)
UNKNOWN = Outcome(CreationFate.UNKNOWN)


class _Row(NamedTuple):
    id: int
    session: int
    seq: int
    at_ns: int
    name: str


_ROW = (int, int, int, int, str)


class Creations:
    """Determines the outcome of creations. Raises RecordingError for a faulty file."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._sessions: dict[int, Session] = {}
        self._pods: dict[int, Sequence[_Row]] = {}
        """Events that stopped and removed each pod, by the pod's key."""
        self._attempts: dict[tuple[int, str], Sequence[_Row]] = {}
        """The creations of each name in each pod."""
        self._searched = self._many = 0
        self._allowance = recording.allowance()
        self._indices: dict[int, str] = {}

    def outcome(self, event: Event) -> Outcome:
        """Return the outcome of the creation that `event` is a part of, from all connections."""
        if not event.container_id:
            # iSulad: nothing shows which container this becomes.
            return UNKNOWN
        asked: list[_Row] = []
        later: list[_Row] = []
        for most in (_FEW, _ROWS_MAX):
            rows = self._rows(
                "o.container = (SELECT container FROM event WHERE id = ?) AND o.id > ? - ? "
                f"ORDER BY o.id LIMIT {most}",
                (event.id, event.id, _NEAR),
            )
            self._many += len(rows) if most > _FEW else 0
            asked, later = _attempt(rows, event, self._index)
            if any(row.name in _SHOWS for row in later):
                return CREATED
            if len(rows) < most or self._many > _MANY_MAX:
                break
        told = self._told(event)
        if told is not None:
            return told
        best = UNKNOWN
        for row in asked:
            found = self._of(row, event, later)
            if found.fate is CreationFate.FAILED:
                return found
            best = found if best.fate is CreationFate.UNKNOWN else best
        return best

    def _told(self, event: Event) -> Outcome | None:
        """Return the outcome stored when this part was extracted from the whole recording."""
        with recording_errors(self._recording):
            connection = self._recording.connection
            if not has_outcomes(connection):
                return None
            row = connection.execute(
                "SELECT fate, shown_by, name, session, after_ns FROM outcome WHERE event = ?",
                (event.id,),
            ).fetchone()
        if row is None or row[0] not in _FATES or row[2] not in _NAMES:
            return None
        with recording_errors(self._recording):
            numbers = [number_of((one,)) for one in (row[1], *row[3:])]
        return Outcome(_FATES[row[0]], numbers[0], row[2], *numbers[1:])

    def _of(self, asked: _Row, event: Event, later: Sequence[_Row]) -> Outcome:
        """Return the outcome that the connection of one of the events shows."""
        session = self._session(asked.session)
        if session is None or session.role == Role.REPLAY:
            return UNKNOWN
        mine = (row for row in later if row.session == asked.session)
        end = next((row for row in mine if row.name in (*_ENDS, _CREATE)), None)
        if session.mask and not session.mask & _POST_CREATE.bit:
            return self._by_state(end, session)
        if end is None and len(later) >= _ROWS_MAX // 2:
            return UNKNOWN
        end = end or self._pod_end(asked)
        if end is None:
            if len(self._attempts) > _ATTEMPTS_MAX:
                return UNKNOWN
            end = self._next_attempt(asked, event)
        if end is not None:
            if not self._is_whole(asked, end.id):
                return UNKNOWN
            return Outcome(CreationFate.FAILED, end.id, end.name)
        if session.ended_ns is None or not self._is_whole(asked, None):
            return UNKNOWN
        after_ns = max(0, session.ended_ns - asked.at_ns)
        return Outcome(CreationFate.OPEN, session=session.id, after_ns=after_ns)

    def _by_state(self, end: _Row | None, session: Session) -> Outcome:
        """Judge by the container in StopContainer, for a plugin that does not get creations.

        After a failed creation containerd sends the container without state and process. A
        container that was created has its state.
        """
        if end is None or end.name != "StopContainer":
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
            return Outcome(CreationFate.FAILED, end.id)
        return UNKNOWN

    def _pod_end(self, asked: _Row) -> _Row | None:
        """Return the event that stopped the creation's pod after it, on the same connection."""
        key = self._number("SELECT pod FROM event WHERE id = ?", asked.id)
        if key is None:
            return None
        if key not in self._pods:
            self._pods[key] = self._rows(
                f"o.pod = ? AND o.container IS NULL AND n.text IN {_POD_ENDS} ORDER BY o.id", (key,)
            )
        return _first_after(self._pods[key], asked)

    def _next_attempt(self, asked: _Row, event: Event) -> _Row | None:
        """Return the runtime's next request to create the same container of the same pod."""
        key = self._number("SELECT pod FROM event WHERE id = ?", asked.id)
        if key is None or not event.container:
            return None
        if (key, event.container) not in self._attempts:
            self._attempts[key, event.container] = self._rows(
                "o.container IN (SELECT key FROM container WHERE pod = ? AND name = ?) "
                f"AND n.text = '{_CREATE}' ORDER BY o.id",
                (key, event.container),
            )
        return _first_after(self._attempts[key, event.container], asked)

    def _is_whole(self, asked: _Row, last: int | None) -> bool:
        """Return whether a session lost no event from a creation to the event `last`, and lasted at
        least until then; None is the session's end.
        """
        if last is None:
            last = self._number("SELECT max(id) FROM event") or asked.id
        self._searched += last - asked.id
        if last - asked.id > _RANGE_MAX or self._searched > _SEARCHED_MAX:
            return False
        with recording_errors(self._recording):
            row = self._recording.connection.execute(
                "SELECT count(*), min(seq), max(seq) FROM event "
                "WHERE session = ? AND id BETWEEN ? AND ?",
                (asked.session, asked.id, last),
            ).fetchone()
        count, first, newest = optional_numbers_of(row)
        if not count or first is None or newest is None:
            return False
        return newest - first == count - 1

    # -- the file -----------------------------------------------------------------------------

    def _session(self, number: int) -> Session | None:
        """Return the current state of a session: an open one may have ended meanwhile."""
        known = self._sessions.get(number)
        if known is None or known.ended_ns is None:
            self._sessions = {one.id: one for one in self._recording.sessions()}
        return self._sessions.get(number)

    def _index(self, number: int) -> str:
        """Return the plugin index of a session: two digits, or ""."""
        if number not in self._indices:
            session = self._session(number)
            self._indices[number] = "" if session is None else session.plugin_index
        return self._indices[number]

    def _rows(self, condition: str, values: Sequence[int | str]) -> list[_Row]:
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


def _row_of(row: Row) -> _Row:
    if tuple(map(type, row)) != _ROW:
        raise RowError("an event has values of a wrong type")
    return _Row(*row)


def _attempt(
    rows: Sequence[_Row], event: Event, index_of: Callable[[int], str]
) -> tuple[list[_Row], list[_Row]]:
    """Return the events of the creation that `event` is a part of, and the container's later ones.

    A runtime asks each connection once, in the order of their indices; if it asks one again, or one
    before the last, that is another creation.
    """
    asked: dict[int, _Row] = {}
    later: list[_Row] = []
    is_mine = False
    newest = ""
    for row in rows:
        index = index_of(row.session)
        if row.name == _CREATE and (row.session in asked or later or index < newest):
            if is_mine:
                later.append(row)
                break
            asked, later = {}, []
        is_mine = is_mine or row.id == event.id
        if row.name == _CREATE:
            asked[row.session], newest = row, index
        elif asked and row.name != _VALIDATE:
            later.append(row)
    return (list(asked.values()), later) if is_mine else ([], [])


def _first_after(rows: Sequence[_Row], asked: _Row) -> _Row | None:
    return next((one for one in rows if one.id > asked.id and one.session == asked.session), None)
