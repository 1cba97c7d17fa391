# SPDX-License-Identifier: Apache-2.0
"""Query single pods and containers, their events, and names, without reading all rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from nri_scope.events import PASSIVE_ROLES, Container, Event, Pod, Role
from nri_scope.filter import Filter
from nri_scope.nri.events import CREATE, REMOVE, REMOVE_POD, RUN_POD, SYNCHRONIZE, EventKind
from nri_scope.specs import label

from ..file.sqlite_text import characters_sql, number_list
from ..reading.connection import Value
from ..reading.reader import Recording
from ..reading.rows import (
    CONTAINER_COLUMNS,
    RowError,
    ascending,
    containers_of,
    optional_numbers_of,
    pod_of,
)
from ..reading.sqlite_errors import query_column, query_numbers, query_rows, recording_errors
from .event_pages import sql_of

_MAX_CANDIDATES = 500
"""Maximum number of candidates for one field."""
_MAX_NAME = 253
"""Maximum number of characters of a name, as in Kubernetes."""
_MAX_EVENTS = 50_000
"""Number of newest events whose lists of changes and owners are read."""
_MAX_LISTS = 2_000
"""Maximum number of different lists that are decoded."""
_MAX_LIST_CHARACTERS = 20_000
"""Maximum number of characters of a list that is decoded."""
_MAX_PATH = 200
"""Maximum number of characters of a path or owner."""

_COMPLETE_LIST = (
    "SELECT 1 FROM session AS s WHERE (s.mask = 0 OR s.mask & ?) AND EXISTS (SELECT 1 FROM event "
    f"AS e JOIN name AS n ON n.id = e.event WHERE n.text = '{SYNCHRONIZE}' AND e.session = s.id "
    "AND e.id < ?) LIMIT 1"
)
_KNOWN_CONTAINER = (
    "SELECT 1 FROM container AS c WHERE substr(c.id, 1, ?) = ? AND (EXISTS (SELECT 1 FROM event "
    "AS e WHERE e.container = c.key AND e.id <= ?) OR EXISTS (SELECT 1 FROM state AS s "
    "WHERE s.container = c.key AND s.event <= ?)) LIMIT 1"
)
"""Finds no container that was only the target of a request, which does not prove its existence."""


def absence_test(recording: Recording) -> Callable[[str, Event], bool]:
    """Return a function of an id prefix and an event: whether no such container existed by then.

    That is certain only if a connection received the list of all containers before, and no event
    was lost.
    """

    def is_absent(container_id: str, event: Event) -> bool:
        if any(not gap.is_left_out for gap in recording.gaps()):
            return False
        if not query_rows(recording, _COMPLETE_LIST, EventKind.CreateContainer.bit, event.id):
            return False
        values = len(container_id), container_id, event.id, event.id
        return not query_rows(recording, _KNOWN_CONTAINER, *values)

    return is_absent


T = TypeVar("T")
_CONTAINERS = f"SELECT {CONTAINER_COLUMNS} FROM container AS c LEFT JOIN pod AS p ON p.key = c.pod"
_PODS = "SELECT key, id, namespace, name, uid FROM pod"


# -- pods and containers ------------------------------------------------------------------------


def container_of_event(recording: Recording, event_id: int) -> Container | None:
    """Return the container of an event; None if it has none. Raises RecordingError."""
    of_event = "c.key = (SELECT container FROM event WHERE id = ?)"
    return next(iter(_containers(recording, of_event, event_id)), None)


def pod_of_event(recording: Recording, event_id: int) -> Pod | None:
    """Return the pod of an event; None if it has none. Raises RecordingError."""
    of_event = "key = (SELECT pod FROM event WHERE id = ?)"
    return next(iter(_pods(recording, of_event, event_id)), None)


def containers_by_key(recording: Recording, keys: Iterable[int]) -> list[Container]:
    """Return existing containers with these keys, in order. Raises RecordingError."""
    return _containers(recording, f"c.key IN {number_list(keys)} ORDER BY c.key")


def under_each_name(recording: Recording, keys: Iterable[int]) -> list[Container]:
    """Return containers under each of their names, in order. Raises RecordingError.

    A plugin can change the annotation that containerd takes the name from.
    """
    same = f"c.id IN (SELECT id FROM container WHERE key IN {number_list(keys)})"
    return _containers(recording, f"{same} ORDER BY c.key")


def pods_by_key(recording: Recording, keys: Iterable[int]) -> list[Pod]:
    """Return existing pods with these keys, in order. Raises RecordingError."""
    return _pods(recording, f"key IN {number_list(keys)} ORDER BY key")


def keys_named(recording: Recording, text: str) -> tuple[frozenset[int], frozenset[int]]:
    """Return the keys of pods and of containers with ``text`` in their names or ids, ignoring ASCII
    case. Raises RecordingError.
    """
    pods, containers = (
        frozenset(
            key
            for (key,) in query_rows(
                recording,
                f"SELECT key FROM {table} WHERE instr(lower({name}), lower(?)) "
                "OR instr(id, lower(?))",
                text,
                text,
            )
        )
        for table, name in (("pod", "namespace || '/' || name"), ("container", "name"))
    )
    return pods, containers


def state_in(recording: Recording, object_id: int) -> str:
    """Return the state of the container in an object; "" if none. Raises RecordingError."""
    ((encoded,),) = query_rows(recording, "SELECT nri_object(?)", object_id)
    state = _decoded(encoded, dict).get("state")
    return state if isinstance(state, str) else ""


def texts(encoded: object) -> list[str]:
    """Return the texts in a JSON array; none if it is not an array."""
    return [text for text in _decoded(encoded, list) if isinstance(text, str)]


# -- their events -------------------------------------------------------------------------------


def life_of(recording: Recording, subject: Pod | Container) -> tuple[int | None, ...]:
    """Return the times in ns at which a pod or container was created, first seen, and removed.

    None without such an event. Raises RecordingError.
    """
    column = column_of(subject)
    first, last = (RUN_POD, REMOVE_POD) if isinstance(subject, Pod) else (CREATE, REMOVE)
    rows = query_rows(
        recording,
        "SELECT min(e.at_ns) FILTER (WHERE n.text = ?), min(e.at_ns), (SELECT min(coalesce("
        "o.synced_ns, o.started_ns)) FROM state AS s JOIN session AS o ON o.id = s.session "
        f"WHERE s.{column} = ?), max(e.at_ns) FILTER (WHERE n.text = ?) FROM event AS e "
        f"JOIN name AS n ON n.id = e.event WHERE e.{column} = ?",
        *(first, subject.key, last, subject.key),
    )
    with recording_errors(recording):
        created, *first_times, removed = optional_numbers_of(rows[0])
    return created, created or min(filter(None, first_times), default=None), removed


class EventPoint(NamedTuple):
    """Event with its time, for a timeline."""

    at_ns: int
    event: int
    name: str
    problem: str
    """A `Problem`; "" for none."""
    changed: bool
    """Whether evidence shows that it changed its own container."""


def events_of_container(
    recording: Recording, container: int, after: int, where: Filter | None
) -> list[int]:
    """Return the ids of a container's matching events after ``after``. Raises RecordingError."""
    text, values = sql_of(where)
    with recording_errors(recording):
        rows = recording.connection.execute(
            "SELECT id FROM events WHERE id IN (SELECT id FROM event WHERE container = ? "
            f"AND id > ?) AND ({text}) ORDER BY id",
            (container, after, *values),
        )
        return [number for (number,) in ascending(rows, (after,))]


def slowest_event(recording: Recording, container: int) -> Event | None:
    """Return the event of a container with the longest reply time of a plugin; None if no plugin's
    time was observed. Raises RecordingError.
    """
    roles = sorted(PASSIVE_ROLES | {Role.CRI})
    numbers = query_numbers(
        recording,
        f"SELECT id FROM event WHERE container = {container} AND took_ns > 0 AND session NOT IN "
        f"(SELECT id FROM session WHERE role IN ({', '.join('?' * len(roles))})) "
        "ORDER BY took_ns DESC, id LIMIT 1",
        *roles,
    )
    return recording.event(numbers[0][0]) if numbers else None


def events_of_containers(
    recording: Recording, containers: Iterable[int], events: Iterable[int]
) -> dict[int, list[int]]:
    """Return the events of each container, by its key, among ``events``. Raises RecordingError."""
    by_container: dict[int, list[int]] = {}
    for container, event in query_numbers(
        recording,
        f"SELECT container, id FROM event WHERE container IN {number_list(containers)} "
        f"AND id IN {number_list(events)}",
    ):
        by_container.setdefault(container, []).append(event)
    return by_container


def points_between(
    recording: Recording,
    subject: tuple[int, int],
    times: tuple[int, int],
    where: Filter | None,
    most: int,
    columns: int = 0,
) -> list[EventPoint]:
    """Return the first ``most`` matching events of a container, or of a pod without its containers.

    ``subject``: keys of pod and container, 0 for none; ``times``: range in ns, without its end;
    ``columns``: number of equal parts of the range of which to return only the first event each.
    Raises RecordingError.
    """
    text, values = sql_of(where)
    about, key = _alone(subject)
    chosen = (
        f"events WHERE id IN (SELECT id FROM event WHERE {about} AND at_ns >= ? AND at_ns < ?) "
        f"AND ({text})"
    )
    values = [key, *times, *values]
    if columns:
        # In floating point: the product may exceed 64 bits.
        column = "CAST((at_ns - ?) * 1.0 * ? / ? AS INTEGER)"
        chosen = f"events WHERE id IN (SELECT min(id) FROM {chosen} GROUP BY {column})"
        values += [times[0], columns, times[1] - times[0]]
    rows = query_rows(
        recording,
        "SELECT at_ns, id, event, problem, (SELECT own_by IS NOT NULL FROM changes AS c "
        f"WHERE c.id = events.id) FROM {chosen} ORDER BY id LIMIT ?",
        *values,
        most,
    )
    with recording_errors(recording):
        if not all(tuple(map(type, row[:3])) == (int, int, str) for row in rows):
            raise RowError("an event has values of a wrong type")
    # Share the strings, as thousands of events have few different names.
    names: dict[str, str] = {}
    return [
        EventPoint(at_ns, number, names.setdefault(name, name), problem, bool(changed))
        for at_ns, number, name, problem, changed in rows
    ]


def next_event(
    recording: Recording,
    subject: tuple[int, int],
    event: int,
    where: Filter | None = None,
    *,
    forwards: bool,
) -> tuple[int, int] | None:
    """Return id and time of the next or previous matching event of a container, or of a pod without
    its containers; None if there is none. Raises RecordingError.
    """
    text, values = sql_of(where)
    about, key = _alone(subject)
    operator, order = (">", "ASC") if forwards else ("<", "DESC")
    rows = query_numbers(
        recording,
        f"SELECT id, at_ns FROM events WHERE id IN (SELECT id FROM event WHERE {about} "
        f"AND id {operator} ?) AND ({text}) ORDER BY id {order} LIMIT 1",
        key,
        event,
        *values,
    )
    return (rows[0][0], rows[0][1]) if rows else None


def neighbours(
    recording: Recording, first: Event, last: Event, *, of_container: bool
) -> list[Event | None]:
    """Return the event before ``first`` and the one after ``last``; None if there is none.

    ``of_container``: only events of the same container. Raises RecordingError.
    """
    scope = "container = (SELECT container FROM event WHERE id = :id)" if of_container else "1"
    events: list[Event | None] = []
    for which, than, event in (("max", "<", first), ("min", ">", last)):
        with recording_errors(recording):
            row = recording.connection.execute(
                f"SELECT {which}(id) FROM event WHERE id {than} :id AND {scope}", {"id": event.id}
            ).fetchone()
            (number,) = optional_numbers_of(row)
        events.append(None if number is None else recording.event(number))
    return events


def containers_touched(recording: Recording, event: Event, own: Sequence[int]) -> list[int]:
    """Return the keys of the containers that an event, or any event of the containers ``own``,
    requested to update or evict. Raises RecordingError.
    """
    keys = query_column(
        recording,
        "SELECT DISTINCT container FROM effect WHERE event = ? ORDER BY container",
        event.id,
    )
    for key in own:
        keys += query_column(
            recording,
            "SELECT DISTINCT f.container FROM event AS e JOIN effect AS f ON f.event = e.id "
            "WHERE e.container = ? ORDER BY f.container",
            key,
        )
    return list(dict.fromkeys(keys))


def same_round_near(recording: Recording, event: Event, within: int) -> list[int]:
    """Return the ids of events, up to ``within`` ids away, that may belong to an event's round.

    Raises RecordingError.
    """
    return query_column(
        recording,
        "SELECT o.id FROM event AS e JOIN event AS o ON o.id BETWEEN e.id - ? AND e.id + ? "
        "AND o.pod IS e.pod AND o.container IS e.container AND o.method IS e.method "
        "WHERE e.id = ? ORDER BY o.id",
        within,
        within,
        event.id,
    )


# -- helpers ------------------------------------------------------------------------------------


def column_of(about: Pod | Container) -> str:
    """Return the name of the event column with the subject's key."""
    return "pod" if isinstance(about, Pod) else "container"


def _alone(subject: tuple[int, int]) -> tuple[str, int]:
    pod, container = subject
    return ("container = ?", container) if container else ("pod = ? AND container IS NULL", pod)


def _containers(recording: Recording, condition: str, *values: Value) -> list[Container]:
    with recording_errors(recording):
        rows = recording.connection.execute(f"{_CONTAINERS} WHERE {condition}", values)
        return containers_of(rows)


def _pods(recording: Recording, condition: str, *values: Value) -> list[Pod]:
    with recording_errors(recording):
        rows = recording.connection.execute(f"{_PODS} WHERE {condition}", values)
        return list(map(pod_of, rows))


def _decoded(encoded: object, kind: type[T]) -> T:
    try:
        value = json.loads(encoded) if isinstance(encoded, str) else None
    except (ValueError, RecursionError):
        return kind()
    return value if isinstance(value, kind) else kind()


def completion_values(recording: Recording) -> dict[str, list[str]]:
    """Return completion candidates by field of the filter language. Raises RecordingError."""
    sessions = recording.sessions()
    return {
        "pod": _names(recording, "name", "pod"),
        "ns": _names(recording, "namespace", "pod"),
        "container": _names(recording, "name", "container"),
        "plugin": _sorted(session.plugin for session in sessions),
        "owner": _listed(recording, "owners"),
        "changed": _sorted(map(label, _listed(recording, "changed"))),
        "index": _sorted(session.plugin_index for session in sessions),
        "runtime": _sorted(session.runtime_name for session in sessions),
        "session": [str(session.id) for session in sessions[-_MAX_CANDIDATES:]],
    }


def _names(recording: Recording, column: str, table: str) -> list[str]:
    # Not from `Recording.containers`, which may return hundreds of thousands.
    return _sorted(
        _strings(
            recording,
            f"SELECT DISTINCT {column} FROM {table} "
            f"WHERE {characters_sql(column)} BETWEEN 1 AND ? LIMIT ?",
            _MAX_NAME,
            _MAX_CANDIDATES,
        )
    )


def _listed(recording: Recording, column: str) -> list[str]:
    """Return the members of the JSON lists in a column of the newest events."""
    lists = _strings(
        recording,
        f"SELECT DISTINCT {column} FROM changes WHERE {column} IS NOT NULL "
        f"AND id > (SELECT max(id) FROM event) - ? AND {characters_sql(column)} <= ? LIMIT ?",
        _MAX_EVENTS,
        _MAX_LIST_CHARACTERS,
        _MAX_LISTS,
    )
    names = {text for encoded in lists for text in texts(encoded) if len(text) <= _MAX_PATH}
    return _sorted(names)


def _strings(recording: Recording, query: str, *values: Value) -> Iterator[str]:
    rows = query_rows(recording, query, *values)
    return (value for (value,) in rows if isinstance(value, str))


def _sorted(names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name})[:_MAX_CANDIDATES]
