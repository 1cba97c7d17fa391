# SPDX-License-Identifier: Apache-2.0
"""Read the values of all events needed for statistics, once and in steps."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from nri_scope.events import Container, Pod, Role
from nri_scope.filter import Filter
from nri_scope.nri.events import REGISTER, UNSOLICITED

from ..reading.connection import Value
from ..reading.reader import Recording
from ..reading.rows import Row, RowError, ascending
from ..reading.sqlite_errors import query_rows, recording_errors
from .event_pages import sql_of
from .subject_queries import column_of, texts

_OWN_CALLS = f"SELECT id FROM name WHERE text IN ('{REGISTER}', '{UNSOLICITED}')"

T = TypeVar("T")


SubjectEvent = tuple[int, int, int, int | None, int | None, bool, bool]
"""Event by its keys: id, time in ns, name, pod, container, whether ok, whether it is an answer of
the CRI."""


class Call(NamedTuple):
    """Event as a call in one session."""

    number: int
    session: int
    took_ns: int
    deadline_ns: int
    """Deadline in ns; 0 if there is none."""
    ok: bool
    owners: Sequence[str]
    """Owners of its requests."""
    changed_by: Sequence[str]
    """Owners of its changes."""
    own: bool
    """Whether the plugin made the call."""


class EventScan:
    """Position in a recording from which events are read. Methods raise RecordingError. Not
    thread-safe.
    """

    def __init__(self) -> None:
        self.newest = 0
        """Id of the newest event that was read."""
        self.outdated = False
        """Whether the scan must be restarted: the ring has removed events since, or the changes of
        events have changed (`Recording.attach`)."""
        self._state: tuple[int, int] | None = None
        self._newest_state = (0, 0, -1)
        self._newest_pod = 0
        """Key of the newest row of a pod, also of one that `subjects` leaves out."""

    def subject_events(self, recording: Recording, most: int) -> list[SubjectEvent]:
        """Return up to ``most`` next events."""
        return self._read(
            recording,
            _subject_event,
            "SELECT e.id, e.at_ns, e.event, e.pod, e.container, c.problem = 'failed', "
            "e.session IN (SELECT id FROM session WHERE role = ?) "
            "FROM event AS e JOIN changes AS c ON c.id = e.id "
            f"WHERE e.id > ? ORDER BY e.id LIMIT {most}",
            Role.CRI,
            self.newest,
        )

    def calls(
        self, recording: Recording, most: int, where: Filter | None, about: Pod | Container | None
    ) -> tuple[list[Call], bool]:
        """Read up to ``most`` next events; return matching ones, and whether there may be more."""
        with recording_errors(recording):
            looked, last = recording.connection.execute(
                "SELECT count(*), coalesce(max(id), ?) FROM "
                f"(SELECT id FROM event WHERE id > ? ORDER BY id LIMIT {most})",
                (self.newest, self.newest),
            ).fetchone()
            if type(looked) is not int or type(last) is not int or last < self.newest:
                raise RowError("its rows are out of order")
        condition, values = "", list[Value]()
        if about is not None:
            condition += f" AND e.{column_of(about)} = ?"
            values.append(about.key)
        if where is not None:
            text, more = sql_of(where)
            condition += (
                f" AND e.id IN (SELECT id FROM events WHERE ({text}) AND id > ? AND id <= ?)"
            )
            values += [*more, self.newest, last]
        calls = self._read(
            recording,
            _call,
            "SELECT e.id, e.session, e.took_ns, e.timeout_ns, e.status_code, c.owners, "
            "c.changed_by, "
            f"e.method IN ({_OWN_CALLS}) AND e.mark IS NOT 'unknown' "
            "FROM event AS e JOIN changes AS c ON c.id = e.id "
            f"WHERE e.id > ? AND e.id <= ?{condition} ORDER BY e.id",
            self.newest,
            last,
            *values,
        )
        self.newest = last
        return calls, looked == most

    def subjects(
        self, recording: Recording, newest_container: int
    ) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
        """Return the keys of new pods, the keys of new containers, and their pods' keys (0: none).

        Returns arrays, as there may be hundreds of thousands. A pod that is only another message
        about a container (`Event.is_alone`) is none.
        """
        with recording_errors(recording):
            rows = recording.connection.execute(
                "SELECT key, EXISTS (SELECT 1 FROM container AS c WHERE c.id = p.id AND "
                "c.pod = p.key) FROM pod AS p WHERE key > ? ORDER BY key",
                (self._newest_pod,),
            )
            pods = array("q")
            for key, is_alone in ascending(rows, (self._newest_pod,)):
                self._newest_pod = key
                if not is_alone:
                    pods.append(key)
            containers = recording.connection.execute(
                "SELECT key, pod FROM container WHERE key > ? ORDER BY key", (newest_container,)
            )
            keys, of_pods = array("q"), array("q")
            for key, pod in ascending(containers, (newest_container,)):
                keys.append(key)
                of_pods.append(pod if type(pod) is int else 0)
            return pods, keys, of_pods

    def new_states(self, recording: Recording) -> list[tuple[int | None, int | None, int, int]]:
        """Return new rows of Synchronize: pod, container, object, and the session's start in ns."""
        with recording_errors(recording):
            rows = recording.connection.execute(
                "SELECT t.session, t.event, t.position, t.pod, t.container, t.object, s.started_ns "
                "FROM state AS t JOIN session AS s ON s.id = t.session "
                "WHERE (t.session, t.event, t.position) > (?, ?, ?) "
                "ORDER BY t.session, t.event, t.position",
                self._newest_state,
            )
            states = []
            for row in ascending(rows, self._newest_state):
                self._newest_state = row[:3]
                pod, container, object_id, at_ns = row[3:]
                key = pod if container is None else container
                if type(key) is not int or type(object_id) is not int or type(at_ns) is not int:
                    raise RowError("a state has values of a wrong type")
                states.append((pod, container, object_id, at_ns))
            return states

    def _read(
        self, recording: Recording, made_of: Callable[[Row], T], query: str, *values: Value
    ) -> list[T]:
        with recording_errors(recording):
            (oldest,) = recording.connection.execute(
                "SELECT coalesce(min(id), 0) FROM event"
            ).fetchone()
            state = oldest, recording.attached
            self.outdated = self.outdated or (self._state is not None and state != self._state)
            self._state = self._state or (state if oldest else None)
            rows = recording.connection.execute(query, values).fetchall()
            records = [made_of(row) for row in ascending(rows, (self.newest,))]
        if rows:
            self.newest = rows[-1][0]
        return records


def _subject_event(row: Row) -> SubjectEvent:
    number, at_ns, name, pod, container, code, is_answer = row
    if not (isinstance(number, int) and isinstance(at_ns, int) and isinstance(name, int)):
        raise RowError("an event has values of a wrong type")
    pod = pod if isinstance(pod, int) else None
    container = container if isinstance(container, int) else None
    return number, at_ns, name, pod, container, not code, bool(is_answer)


def _call(row: Row) -> Call:
    number, session, took_ns, deadline_ns, code, owners, changed_by, own = row
    if type(session) is not int or type(took_ns) is not int:
        raise RowError("an event has values of a wrong type")
    deadline = deadline_ns if type(deadline_ns) is int else 0
    of_requests, of_changes = (
        tuple(dict.fromkeys(texts(raw))) if raw is not None else () for raw in (owners, changed_by)
    )
    return Call(number, session, took_ns, deadline, not code, of_requests, of_changes, bool(own))


def subjects_of_matches(
    recording: Recording, where: Filter, after: int, last: int
) -> list[tuple[int | None, int | None]]:
    """Return the keys of pod and container of each matching event after ``after`` up to ``last``.

    Raises RecordingError.
    """
    text, values = sql_of(where)
    with recording_errors(recording):
        rows = recording.connection.execute(
            "SELECT id, pod, container FROM event WHERE id IN "
            f"(SELECT id FROM events WHERE ({text}) AND id > ? AND id <= ?) ORDER BY id",
            (*values, after, last),
        )
        return [(pod, container) for _, pod, container in ascending(rows, (after,))]


def name_of(recording: Recording, key: int) -> str:
    """Return the event name with this key; "" if it does not exist. Raises RecordingError."""
    rows = query_rows(recording, "SELECT text FROM name WHERE id = ?", key)
    return rows[0][0] if rows and isinstance(rows[0][0], str) else ""
