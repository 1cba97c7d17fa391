# SPDX-License-Identifier: Apache-2.0
"""Find an event, a pod or a container by number, name or id."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from nri_scope.errors import THE_RECORDING, UsageError, nearest_word
from nri_scope.events import CONTAINER_STATUS, Container, Event, Pod
from nri_scope.nri.events import CONFIGURE, REGISTER, SHUTDOWN, SYNCHRONIZE, UNSOLICITED, VALIDATE
from nri_scope.text.quantities import SHORT_ID, moment

from .blobs import ObjectKind
from .coverage import coverage
from .node_files import NUMBERS
from .reader import Recording
from .sqlite_errors import query_column, query_numbers, query_rows
from .sqlite_text import number_list
from .subject_queries import column_of

Found = Event | Pod | Container

_LISTED = 5
_EVENT_DIGITS = 8
"""Minimum number of digits of an id prefix; a shorter number is always an event id."""
_LEAST_PREFIX = 4
"""Minimum number of characters of an id prefix; a shorter one could match by accident."""
_AROUND = 200
"""Maximum distance, in event ids, between events of one round."""
_TOGETHER = 100
"""Maximum number of events of one query."""
_COMPARED = 5_000
"""Maximum number of names that are compared for a suggestion, each in about 20 µs."""
_HEXADECIMAL = re.compile("[0-9a-f]+")
"""Text that may be the beginning of an id."""
_NEXT_MAX = 1_000
"""Maximum distance, in event ids, to the runtime's next event."""


def find(
    recording: Recording,
    what: str,
    note: Callable[[str], None] | None = None,
    *,
    or_path: bool = False,
) -> Found:
    """Return the event, pod or container for ``42``, ``ns/pod``, ``ns/pod/container`` or an id
    prefix.

    A number is an event id; without such an event, at least eight digits can be an id prefix.
    After ``ns/pod/``, both are also accepted for what concerns that pod. A name means the newest
    of several pods or containers; ``note`` is called with a line that says so and names the others.
    Raises UsageError, which lists the candidates or the nearest name, and RecordingError.
    ``or_path``: whether ``what`` could also be a changed path, for the error.
    """
    if event := _event(recording, what):
        return event
    pods, containers = recording.pods(), recording.containers()
    subjects: list[Pod | Container] = [*pods, *containers]
    matches: list[Pod | Container]
    if "/" not in what:
        matches = _by_id(subjects, what)
    elif named := [subject for subject in subjects if subject_name(subject) == what]:
        return newest_of(recording, named, note)
    else:
        name, _, part = what.rpartition("/")
        matches = [pod for pod in pods if pod_name(pod) == name]
        if matches and (event := _event(recording, part, of_pod=name)):
            return event
        keys = {pod.key for pod in matches}
        matches += [one for one in containers if one.pod is not None and one.pod.key in keys]
        matches = _by_id(matches, part)
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise _ambiguous(recording, what, matches)
    raise _nothing(recording, what, subjects, or_path=or_path)


def newest_of(
    recording: Recording,
    named: Sequence[Pod | Container],
    note: Callable[[str], None] | None = None,
) -> Pod | Container:
    """Return the newest of pods or containers with one name; ``note``: see `find`."""
    # Keys are in the order of first appearances, also as existing; first events are not, as an old
    # container may be removed after the new one was created.
    *earlier, newest = sorted(named, key=lambda subject: subject.key)
    if note is not None and earlier:
        length = _distinct_length([subject.id for subject in named])
        pod = newest if isinstance(newest, Pod) else newest.pod
        above = "" if pod is None else f"{pod_name(pod)}/"
        listed = earlier[:-_LISTED:-1]
        others = ", ".join(f"{above}{one.id[:length]}{_seen(recording, one)}" for one in listed)
        more = len(earlier) - len(listed)
        kind = "pods" if isinstance(newest, Pod) else "containers"
        note(
            f"the recording has {len(named):,} {kind} called {subject_name(newest)}; this is the "
            f"newest, {newest.id[:length]}{_seen(recording, newest)}; "
            f"before it: {others}{f' and {more:,} more' if more else ''}"
        )
    return newest


def _event(recording: Recording, number: str, of_pod: str = "") -> Event | None:
    """Return the event of this number; None if it can only be the beginning of an id.

    Raises UsageError if there is no such event, or if it concerns another pod than ``of_pod``.
    """
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        return None
    event = recording.event(int(number))
    if event is not None and of_pod and event.pod and f"{event.namespace}/{event.pod}" != of_pod:
        raise UsageError(f"event {number} is about {event.namespace}/{event.pod}, not {of_pod}")
    if event is None and len(number) < _EVENT_DIGITS:
        raise _no_event(recording, number)
    return event


def pod_name(pod: Pod) -> str:
    """Return ``ns/pod``."""
    return f"{pod.namespace}/{pod.name}"


def container_name(container: Container) -> str:
    """Return ``ns/pod/container``, without unknown parts."""
    return f"{pod_name(container.pod)}/{container.name}" if container.pod else container.name


def subject_name(subject: Pod | Container) -> str:
    """Return ``ns/pod`` or ``ns/pod/container``, without unknown parts."""
    return pod_name(subject) if isinstance(subject, Pod) else container_name(subject)


def _by_id(subjects: Sequence[Pod | Container], prefix: str) -> list[Pod | Container]:
    whole = [subject for subject in subjects if prefix and subject.id == prefix]
    if whole or len(prefix) < _LEAST_PREFIX:
        return whole
    return [subject for subject in subjects if subject.id.startswith(prefix)]


def _ambiguous(recording: Recording, what: str, matches: Sequence[Pod | Container]) -> UsageError:
    length = _distinct_length([match.id for match in matches])
    words = []
    for match in matches[:_LISTED]:
        kind = "pod" if isinstance(match, Pod) else "container"
        words.append(f"{match.id[:length]} ({kind} {subject_name(match)}{_seen(recording, match)})")
    more = f" and {len(matches) - _LISTED} more" if len(matches) > _LISTED else ""
    return UsageError(
        f'"{what}" matches {len(matches)} pods and containers', f"use {' or '.join(words)}{more}"
    )


def _seen(recording: Recording, subject: Pod | Container) -> str:
    seen = first_event_time(recording, subject)
    return "" if seen is None else f" first seen {moment(seen)[:19]}"


def _distinct_length(ids: Iterable[str]) -> int:
    """Return the number of characters that distinguish these ids."""
    ordered = sorted(set(ids))
    common = (_in_common(one, other) for one, other in pairwise(ordered))
    return max(SHORT_ID, max(common, default=0) + 1)


def _in_common(one: str, other: str) -> int:
    """Return the length of the common prefix."""
    for at, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return at
    return min(len(one), len(other))


def _no_event(recording: Recording, what: str) -> UsageError:
    first, last = event_range(recording)
    problem = f"event {what} is not in {THE_RECORDING}"
    hint = f"it has {first} to {last}" if first != last else f"it has {first}"
    if not last:
        hint = "it has no events"
    elif last >= NUMBERS and int(what) < NUMBERS:
        query = "SELECT id FROM event WHERE id % ? = ? LIMIT 3"
        rows = query_numbers(recording, query, NUMBERS, int(what))
        if rows:
            named = " or ".join(str(row[0]) for row in rows)
            hint = f"in a later recording of the node, it is {named}"
    return UsageError(problem, hint, recording.path)


def _nothing(
    recording: Recording, what: str, subjects: Sequence[Pod | Container], *, or_path: bool
) -> UsageError:
    shown = what if len(what) <= 80 else f"{what[:80]}…"
    kinds = "event, pod, container or changed path" if or_path else "event, pod or container"
    problem = coverage(recording).limited(f'no {kinds} "{shown}" in {THE_RECORDING}')
    if not subjects:
        hint = "it has no pods and containers"
    elif len(named := [*dict.fromkeys(map(subject_name, _named(what, subjects)))]) > 1:
        more = f" and {len(named) - _LISTED} more" if len(named) > _LISTED else ""
        hint = f"did you mean {' or '.join(named[:_LISTED])}{more}?"
    elif near := _nearest(what, subjects):
        hint = f"the nearest is {near}"
    elif len(what) < _LEAST_PREFIX and _HEXADECIMAL.fullmatch(what):
        hint = f"give at least {_LEAST_PREFIX} characters of an id"
    else:
        hint = f"{'`log` and `diff` show' if or_path else '`log` shows'} what it has"
    return UsageError(problem, hint, recording.path)


def _named(what: str, subjects: Sequence[Pod | Container]) -> Iterator[Pod | Container]:
    """Return the pods and containers with this name, in any namespace and pod."""
    return (subject for subject in subjects if subject.name == what)


def _nearest(what: str, subjects: Sequence[Pod | Container]) -> str:
    """Return the most similar name or id; "" if none is similar."""
    # A name without a namespace is compared with the names of pods and containers.
    for subject in _named(what, subjects):
        return subject_name(subject)
    if "/" not in what:
        best = max(subjects, key=lambda subject: _in_common(subject.id, what))
        if _in_common(best.id, what) >= _LEAST_PREFIX:
            return f"{best.id[:SHORT_ID]} ({subject_name(best)})"
    names = list(dict.fromkeys(subject_name(subject) for subject in subjects))[:_COMPARED]
    return nearest_word(what, names)


@dataclass(frozen=True, slots=True)
class ShownSubject:
    """Pod or container in a message."""

    content: bytes
    event: int
    """Id of the event with the message."""


def history(recording: Recording, subject: Pod | Container) -> Iterator[Event]:
    """Yield all events about a pod and its containers, or about a container."""
    for number in events_about(recording, subject):
        event = recording.event(number)
        # The ring may have removed the event in the meantime.
        if event is not None:
            yield event


def effects_on(recording: Recording, container: Container) -> list[int]:
    """Return the ids of events about others that requested a change of a container, in order.

    They include unsolicited requests without recorded targets, as earlier recorders did not store
    evictions.
    """
    events = query_column(
        recording, "SELECT event FROM effect WHERE container = ? ORDER BY event", container.key
    )
    if query_numbers(recording, f"SELECT id FROM name WHERE text = '{UNSOLICITED}'"):
        events += query_column(
            recording,
            "SELECT e.id FROM event AS e WHERE e.container IS NULL "
            f"AND e.method = (SELECT id FROM name WHERE text = '{UNSOLICITED}') "
            "AND NOT EXISTS (SELECT 1 FROM effect AS f WHERE f.event = e.id)",
        )
        events.sort()
    return events


def events_for(recording: Recording, container: Container) -> list[int]:
    """Return the ids of the events with the history of a container, in order.

    These are the container's own events, the rounds in which a change of it was requested, and the
    events that list it as existing.
    """
    effects = effects_on(recording, container)
    query = "SELECT DISTINCT event FROM state WHERE container = ?"
    listing = query_column(recording, query, container.key)
    own = events_about(recording, container)
    # The next event shows that the chain had ended, and that the runtime has applied the request.
    rounds = [*effects, *_for_each(recording, effects, _NEXT_EVENT)]
    return sorted({*own, *listing, *rounds, *_for_each(recording, rounds, _IN_ROUND)})


_NEXT_EVENT = (
    "SELECT (SELECT o.id FROM event AS o WHERE o.id BETWEEN e.id + 1 AND e.id + ? "
    "AND (o.container IS NOT e.container OR o.event != e.event) AND o.event NOT IN (SELECT id FROM "
    f"name WHERE text IN ('{REGISTER}', '{CONFIGURE}', '{SYNCHRONIZE}', '{UNSOLICITED}', "
    f"'{CONTAINER_STATUS}', '{SHUTDOWN}', '{VALIDATE}')) ORDER BY o.id LIMIT 1) AS next "
    "FROM event AS e WHERE next IS NOT NULL"
)
"""For an event, the next event of another round, if it is near."""
_IN_ROUND = (
    "SELECT o.id FROM event AS e JOIN event AS o ON o.id BETWEEN e.id - ?1 AND e.id + ?1 "
    "WHERE o.container = e.container AND (o.event = e.event OR o.event IN "
    "(SELECT id FROM name WHERE text IN ('CreateContainer', 'ValidateContainerAdjustment')))"
)
"""For an event, the nearby events that may belong to the same round.

Only the events of all connections show whether the chain of a round was completed.
"""


def _for_each(recording: Recording, events: Sequence[int], query: str) -> list[int]:
    """Return the results of a query for each of some events ``e``."""
    found: list[int] = []
    for start in range(0, len(events), _TOGETHER):
        some = number_list(events[start : start + _TOGETHER])
        found += query_column(recording, f"{query} AND e.id IN {some}", _AROUND)
    return found


def events_about(recording: Recording, subject: Pod | Container) -> list[int]:
    """Return the ids of all events about a container, or a pod and its containers, in order."""
    return query_column(
        recording, f"SELECT id FROM event WHERE {column_of(subject)} = ? ORDER BY id", subject.key
    )


def next_after(
    recording: Recording, container: Container, events: Sequence[str], aside: Sequence[str]
) -> list[int]:
    """Return the id of the next event after each of a container's events with these names.

    Events whose method is in ``aside`` are skipped.
    """
    return query_column(
        recording,
        "SELECT DISTINCT next FROM (SELECT (SELECT o.id FROM event AS o WHERE o.id > e.id "
        f"AND o.id <= e.id + {_NEXT_MAX} AND o.method NOT IN {_ids_of(aside)} "
        "ORDER BY o.id LIMIT 1) "
        f"AS next FROM event AS e WHERE e.container = ? AND e.event IN {_ids_of(events)}) "
        "WHERE next IS NOT NULL",
        *aside,
        container.key,
        *events,
    )


def last_events(recording: Recording, name: str, before: int, most: int) -> list[int]:
    """Return the ids of the last ``most`` events of this name before an event, newest first."""
    query = (
        f"SELECT id FROM event WHERE event IN {_ids_of([name])} AND id < ? ORDER BY id DESC LIMIT ?"
    )
    return query_column(recording, query, name, before, most)


def has_event_before(
    recording: Recording,
    session: int,
    event: int,
    methods: Collection[str],
    *,
    others: bool = False,
    within: int | None = None,
) -> bool:
    """Return whether a session has an earlier event of one of ``methods``.

    ``others``: of any other method instead. ``within``: maximum distance in event ids.
    """
    rows = query_numbers(
        recording,
        "SELECT 1 FROM event WHERE session = ? AND id < ? AND id >= ? "
        f"AND method {'NOT ' if others else ''}IN {_ids_of(methods)} "
        "ORDER BY id DESC LIMIT 1",
        session,
        event,
        0 if within is None else event - within,
        *methods,
    )
    return bool(rows)


def first_events(
    recording: Recording, methods: Sequence[str], *, others: bool = False
) -> dict[int, int]:
    """Return each session's first event of one of ``methods``, or of any other (``others``)."""
    rows = query_numbers(
        recording,
        "SELECT session, min(id) FROM event "
        f"WHERE method {'NOT ' if others else ''}IN {_ids_of(methods)} GROUP BY session",
        *methods,
    )
    return {row[0]: row[1] for row in rows}


def _ids_of(names: Collection[str]) -> str:
    """Return a subquery for the ids of names, which are its values."""
    return f"(SELECT id FROM name WHERE text IN ({', '.join('?' * len(names))}))"


def has_recorded_predecessor(recording: Recording, event: Event) -> bool:
    """Return whether the previous event of the same session was recorded.

    True for a session's first event in the recording. Events that were omitted when a part of a
    recording was extracted count as recorded.
    """
    rows = query_numbers(
        recording,
        "SELECT seq FROM event WHERE session = ? AND id < ? ORDER BY id DESC LIMIT 1",
        event.session,
        event.id,
    )
    return not rows or rows[0][0] == event.seq - 1 or _is_left_out(recording, event)


def is_part(recording: Recording) -> bool:
    """Return whether events were left out, so that sequence numbers do not show what is missing."""
    return bool(query_numbers(recording, "SELECT 1 FROM left_out LIMIT 1"))


def _is_left_out(recording: Recording, event: Event) -> bool:
    """Return whether the previous event of the session was omitted from a part of a recording."""
    query = "SELECT 1 FROM left_out WHERE event = ? AND seq = ?"
    return bool(query_numbers(recording, query, event.id, event.seq - 1))


def listed_at_start(recording: Recording, container: Container) -> ShownSubject | None:
    """Return the container from the first Synchronize that lists it; None if none does."""
    rows = query_numbers(
        recording,
        "SELECT object, event FROM state WHERE container = ? ORDER BY event LIMIT 1",
        container.key,
    )
    for number, event in rows:
        kind, content = recording.object(number)
        if kind == ObjectKind.CONTAINER:
            return ShownSubject(content, event)
    return None


def newest_message(recording: Recording, subject: Pod | Container) -> ShownSubject | None:
    """Return the newest message with the pod or container; None if there is none.

    A message with an id alone, as in iSulad's StopContainer, is returned only if there is no other.
    """
    table = column_of(subject)
    only_pods = "AND container IS NULL" if isinstance(subject, Pod) else ""
    rows = query_numbers(
        recording,
        f"SELECT object, event FROM ("
        f"SELECT {table}_object AS object, id AS event FROM event "
        f"WHERE {table} = ? AND {table}_object IS NOT NULL "
        f"UNION ALL SELECT object, event FROM state WHERE {table} = ? {only_pods}"
        f") ORDER BY event DESC LIMIT 100",
        subject.key,
        subject.key,
    )
    best: ShownSubject | None = None
    least = 2 * len(subject.id) if subject.name else 0
    for number, event in rows:
        kind, content = recording.object(number)
        if kind != (ObjectKind.POD if isinstance(subject, Pod) else ObjectKind.CONTAINER):
            continue
        shown = ShownSubject(content, event)
        best = best or shown
        if len(content) > least:
            return shown
    return best


def containers_of(recording: Recording, pod: Pod) -> list[Container]:
    """Return the containers of a pod."""
    return [
        container
        for container in recording.containers()
        if container.pod is not None and container.pod.key == pod.key
    ]


def first_event_time(recording: Recording, subject: Pod | Container) -> int | None:
    """Return the time of the first event of a pod or container, in ns; None if it has none."""
    rows = query_numbers(
        recording,
        f"SELECT at_ns FROM event WHERE {column_of(subject)} = ? ORDER BY id LIMIT 1",
        subject.key,
    )
    return rows[0][0] if rows else None


def event_range(recording: Recording) -> tuple[int, int]:
    """Return the ids of the oldest and the newest event; zeros if there is none."""
    # A plain ``min(id), max(id)`` would make SQLite read every event.
    rows = query_numbers(
        recording,
        "SELECT coalesce((SELECT min(id) FROM event), 0), coalesce((SELECT max(id) FROM event), 0)",
    )
    return rows[0][0], rows[0][1]


def containers_with(recording: Recording, event: str, at_most: int) -> frozenset[str] | None:
    """Return the ids of the containers with an event of this name; None for more than ``at_most``.

    Raises RecordingError.
    """
    query = (
        "SELECT DISTINCT c.id FROM event AS e JOIN container AS c ON c.key = e.container "
        "WHERE e.event = (SELECT id FROM name WHERE text = ?) LIMIT ?"
    )
    found = frozenset(str(one) for (one,) in query_rows(recording, query, event, at_most + 1))
    return found if len(found) <= at_most else None


def container_count(recording: Recording) -> int:
    """Return the number of containers of events and Synchronize requests. Raises RecordingError."""
    return query_numbers(recording, "SELECT count(*) FROM container")[0][0]


def things_at_start(recording: Recording, session: int) -> frozenset[str]:
    """Return the ids of the pods and containers listed by Synchronize when ``session`` began.

    Raises RecordingError.
    """
    query = (
        "SELECT DISTINCT c.id FROM state AS s "
        "JOIN container AS c ON c.key = s.container WHERE s.session = ? UNION "
        "SELECT p.id FROM state AS s JOIN pod AS p ON p.key = s.pod WHERE s.session = ?"
    )
    return frozenset(str(one) for (one,) in query_rows(recording, query, session, session))
