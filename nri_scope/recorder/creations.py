# SPDX-License-Identifier: Apache-2.0
"""What became of the creations of a recording, by the events that came after them.

A runtime tells PostCreateContainer of every container that it created, and of no other. containerd
undoes a creation that failed by StopContainer and RemoveContainer (``UndoCreateContainer`` in
internal/cri/nri); CRI-O tells nothing more of one that failed after the chain (both tried).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import Event as NriEvent
from nri_scope.nri.subject import decode_request
from nri_scope.nri.versions import runtime_title
from nri_scope.recorder.model import Event, Session
from nri_scope.recorder.reader import Recording
from nri_scope.recorder.rows import number_of
from nri_scope.recorder.sound import sound

_POST_CREATE = NriEvent.PostCreateContainer
_SHOWS = (
    "PostCreateContainer",
    "StartContainer",
    "PostStartContainer",
    "UpdateContainer",
    "PostUpdateContainer",
    "ContainerStatus",
)
"""Events that a container has only when it was created."""
_ENDS = ("StopContainer", "RemoveContainer")
_POD_ENDS = ("StopPodSandbox", "RemovePodSandbox")
_ROWS_MAX = 200
"""Events of one container that are looked at: those of sixteen connections, a few times over."""
_RANGE_MAX = 100_000
"""Events, of whatever session, among which lost ones are looked for; 10 ms."""
_RANGES_MAX = 500
"""Times that this is done in one recording, which may be a stranger's."""


class CreationFate(Enum):
    """What became of a creation."""

    CREATED = "created"
    FAILED = "failed"
    OPEN = "open"
    """The session ended before anything told."""
    UNKNOWN = "unknown"
    """Nothing tells, or not yet."""


class Outcome(NamedTuple):
    """What became of a creation, and what shows it."""

    fate: CreationFate
    words: str = ""
    """Why, for FAILED and OPEN."""
    after_ns: int = 0
    """For OPEN: how long the session went on after CreateContainer."""


CREATED = Outcome(CreationFate.CREATED)
UNKNOWN = Outcome(CreationFate.UNKNOWN)


class _Row(NamedTuple):
    id: int
    session: int
    name: str


class Creations:
    """Tells what became of creations. Raises RecordingError where the file is at fault."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._pods: dict[int, Sequence[_Row]] = {}
        """When each pod was stopped and removed, by its key."""
        self._attempts: dict[tuple[int, str], Sequence[_Row]] = {}
        """The creations of one name in one pod."""
        self._ranges = 0

    def outcome(self, creation: Sequence[tuple[Event, Session]]) -> Outcome:
        """What became of a creation that some connections saw, each with an event of its own."""
        best = UNKNOWN
        for event, session in creation:
            found = self._of(event, session)
            if found.fate is CreationFate.CREATED:
                return found
            if found.fate is CreationFate.FAILED or best.fate is CreationFate.UNKNOWN:
                best = found
        return best

    def _of(self, event: Event, session: Session) -> Outcome:
        if not event.container_id:
            # iSulad: nothing says which container it becomes.
            return UNKNOWN
        later = self._rows(
            "SELECT o.id, o.session, n.text FROM event AS o JOIN name AS n ON n.id = o.event "
            "WHERE o.container = (SELECT container FROM event WHERE id = ?) AND o.id > ? "
            f"ORDER BY o.id LIMIT {_ROWS_MAX}",
            (event.id, event.id),
        )
        end: _Row | None = None
        for row in later:
            if row.name in _SHOWS:
                return CREATED
            if row.session == event.session and (row.name in _ENDS or row.name == event.event):
                end = row
                break
        if len(later) == _ROWS_MAX and end is None:
            return UNKNOWN
        if session.mask and not session.mask & _POST_CREATE.bit:
            return self._by_state(end, session)
        end = end or self._pod_end(event) or self._next_attempt(event)
        if end is not None:
            if not self._is_whole(event, end.id):
                return UNKNOWN
            words = f"PostCreateContainer did not follow, {end.name} did (event {end.id})"
            return Outcome(CreationFate.FAILED, words)
        if session.ended_ns is None or not self._is_whole(event, None):
            return UNKNOWN
        return Outcome(
            CreationFate.OPEN,
            f"PostCreateContainer had not come when session {session.id} ended",
            max(0, session.ended_ns - event.at_ns),
        )

    def _by_state(self, end: _Row | None, session: Session) -> Outcome:
        """By how StopContainer shows the container, to a plugin that is not told of creations.

        containerd undoes a creation with what it has of the container by then, which has no state
        and never had a process; of one that was created it tells the state.
        """
        if end is None or end.name != "StopContainer":
            return UNKNOWN
        if runtime_title(session.runtime_name) != "containerd":
            return UNKNOWN
        for event, request, _ in self._recording.exchanges(among=[end.id]):
            container = decode_request(event.method, request).container
            if container is None or container.state != api.ContainerState.CONTAINER_UNKNOWN:
                break
            if container.pid or container.created_at or container.started_at:
                break
            words = f"StopContainer (event {end.id}) shows a container that was never created"
            return Outcome(CreationFate.FAILED, words)
        return UNKNOWN

    def _pod_end(self, event: Event) -> _Row | None:
        """When the pod of a creation was stopped after it, as its connection was told."""
        key = self._number("SELECT pod FROM event WHERE id = ?", event.id)
        if key is None:
            return None
        if key not in self._pods:
            self._pods[key] = self._rows(
                "SELECT o.id, o.session, n.text FROM event AS o JOIN name AS n ON n.id = o.event "
                "WHERE o.pod = ? AND o.container IS NULL "
                f"AND n.text IN {_POD_ENDS} ORDER BY o.id",
                (key,),
            )
        return _first_after(self._pods[key], event)

    def _next_attempt(self, event: Event) -> _Row | None:
        """When the runtime was asked for the same container of the same pod again."""
        key = self._number("SELECT pod FROM event WHERE id = ?", event.id)
        if key is None or not event.container:
            return None
        if (key, event.container) not in self._attempts:
            self._attempts[key, event.container] = self._rows(
                "SELECT o.id, o.session, n.text FROM container AS c "
                "JOIN event AS o ON o.container = c.key JOIN name AS n ON n.id = o.event "
                "WHERE c.pod = ? AND c.name = ? AND n.text = 'CreateContainer' ORDER BY o.id",
                (key, event.container),
            )
        return _first_after(self._attempts[key, event.container], event)

    def _is_whole(self, event: Event, last: int | None) -> bool:
        """Whether the session of `event` lost nothing from there to the event `last`, and went on
        at least until then; None is its end.
        """
        if last is None:
            last = self._number("SELECT max(id) FROM event") or event.id
        self._ranges += 1
        if last - event.id > _RANGE_MAX or self._ranges > _RANGES_MAX:
            return False
        rows = self._numbers(
            "SELECT seq FROM event WHERE session = ? AND id BETWEEN ? AND ? ORDER BY id",
            (event.session, event.id, last),
        )
        return bool(rows) and rows[-1] - rows[0] == len(rows) - 1

    # -- SQL ----------------------------------------------------------------------------------

    def _rows(self, query: str, values: Sequence[int | str]) -> list[_Row]:
        with sound(self._recording):
            return [
                _Row(number_of((one,)), number_of((session,)), str(name))
                for one, session, name in self._recording.connection.execute(query, values)
            ]

    def _numbers(self, query: str, values: Sequence[int | str]) -> list[int]:
        with sound(self._recording):
            return [number_of(row) for row in self._recording.connection.execute(query, values)]

    def _number(self, query: str, *values: int) -> int | None:
        with sound(self._recording):
            row = self._recording.connection.execute(query, values).fetchone()
            return None if row is None or row[0] is None else number_of(row)


def _first_after(rows: Sequence[_Row], event: Event) -> _Row | None:
    return next((one for one in rows if one.id > event.id and one.session == event.session), None)
