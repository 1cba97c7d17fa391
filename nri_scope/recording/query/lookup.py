# SPDX-License-Identifier: Apache-2.0
"""Find an event, a pod or a container by number, name or id."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from nri_scope.errors import THE_RECORDING, UsageError, nearest_word
from nri_scope.events import Container, Event, Pod
from nri_scope.specs import path_of
from nri_scope.text.quantities import SHORT_ID, first_names, moment

from ..file.blobs import ObjectKind
from ..node_files import NUMBERS
from ..reading.reader import Recording
from ..reading.sqlite_errors import query_column, query_numbers, query_rows
from .coverage import coverage
from .subject_queries import column_of, container_of_event

Found = Event | Pod | Container

_LISTED = 5
_EVENT_DIGITS = 8
"""Minimum number of digits of an id prefix; a shorter number is always an event id."""
_LEAST_PREFIX = 4
"""Minimum number of characters of an id prefix; a shorter one could match by accident."""
_COMPARED = 5_000
"""Maximum number of names that are compared for a suggestion, each in about 20 µs."""
_HEXADECIMAL = re.compile("[0-9a-f]+")
"""Text that may be the beginning of an id."""


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
    containers = recording.containers()
    ids = {container.id for container in containers}
    # In Docker Engine, a pod is only another message about its container.
    pods = [pod for pod in recording.pods() if pod.id not in ids]
    subjects: list[Pod | Container] = [*pods, *containers]
    matches: list[Pod | Container]
    if named := [subject for subject in subjects if what and subject_name(subject) == what]:
        return newest_of(recording, named, note)
    if "/" not in what:
        matches = _by_id(subjects, what)
    else:
        name, _, part = what.rpartition("/")
        matches = [pod for pod in pods if pod_name(pod) == name]
        if matches and (event := _event(recording, part, of_pod=name)):
            return event
        keys = {pod.key for pod in matches}
        matches += [match for match in containers if match.pod and match.pod.key in keys]
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
        is_alone = isinstance(newest, Container) and newest.is_alone
        above = "" if pod is None or is_alone else f"{pod_name(pod)}/"
        listed = earlier[:-_LISTED:-1]
        others = ", ".join(f"{above}{old.id[:length]}{_seen(recording, old)}" for old in listed)
        more = len(earlier) - len(listed)
        kind = "pods" if isinstance(newest, Pod) else "containers"
        note(
            f"the recording has {len(named):,} {kind} called {subject_name(newest)}; this is the "
            f"newest, {newest.id[:length]}{_seen(recording, newest)}; "
            f"before it: {others}{f' and {more:,} more' if more else ''}"
        )
    return newest


def may_be_path(what: str) -> bool:
    """Return whether a text may name a path, so that searching all changes is worthwhile.

    A number, and a container's name with its two slashes, are none.
    """
    return bool(what) and not what.isdigit() and (path_of(what) is not None or what.count("/") < 2)


def container_of(
    recording: Recording, subject: Found, note: Callable[[str], None] | None = None
) -> Container:
    """Return the container that `subject` is: of an event, or of a pod with only one name.

    ``note``: see `find`. Raises UsageError and RecordingError.
    """
    match subject:
        case Container():
            return subject
        case Event():
            container = container_of_event(recording, subject.id)
            if container is not None:
                return container
            raise UsageError(
                f"event {subject.id} ({subject.event}) does not concern a container",
                "name a container, or an event about one",
            )
        case Pod():
            containers = containers_of(recording, subject)
            if len(containers) == 1:
                return containers[0]
            name = pod_name(subject)
            if not containers:
                problem = f"{THE_RECORDING} has no container of {name}"
                raise UsageError(problem, "`log` shows what it contains", recording.path)
            names = [*dict.fromkeys(container_name(container) for container in containers)]
            if len(names) == 1:
                newest = newest_of(recording, containers, note)
                assert isinstance(newest, Container)
                return newest
            raise UsageError(
                f"{name} has {len(names)} containers",
                f"name one: {first_names(names, _LISTED, ' or ')}",
            )


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
    if container.pod is None or container.is_alone:
        return container.name
    return f"{pod_name(container.pod)}/{container.name}"


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
    names = []
    for match in matches[:_LISTED]:
        kind = "pod" if isinstance(match, Pod) else "container"
        names.append(f"{match.id[:length]} ({kind} {subject_name(match)}{_seen(recording, match)})")
    more = f" and {len(matches) - _LISTED} more" if len(matches) > _LISTED else ""
    return UsageError(
        f'"{what}" matches {len(matches)} pods and containers', f"use {' or '.join(names)}{more}"
    )


def _seen(recording: Recording, subject: Pod | Container) -> str:
    first_ns = first_event_time(recording, subject)
    return "" if first_ns is None else f" first seen {moment(first_ns)[:19]}"


def _distinct_length(ids: Iterable[str]) -> int:
    """Return the number of characters that distinguish these ids."""
    ordered = sorted(set(ids))
    common = (_in_common(identifier, following) for identifier, following in pairwise(ordered))
    return max(SHORT_ID, max(common, default=0) + 1)


def _in_common(left: str, right: str) -> int:
    """Return the length of the common prefix."""
    for position, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return position
    return min(len(left), len(right))


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
    short = what if len(what) <= 80 else f"{what[:80]}…"
    kinds = "event, pod, container or changed path" if or_path else "event, pod or container"
    problem = coverage(recording).limited(f'no {kinds} "{short}" in {THE_RECORDING}')
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
    """Return the pods and containers with this or the nearest name, in any namespace and pod."""
    names = dict.fromkeys(subject.name for subject in subjects)
    name = what
    if what not in names and "/" not in what:
        name = nearest_word(what, list(names)[:_COMPARED])
    return (subject for subject in subjects if name and subject.name == name)


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


def events_about(recording: Recording, subject: Pod | Container) -> list[int]:
    """Return the ids of all events about a container, or a pod and its containers, in order."""
    return query_column(
        recording, f"SELECT id FROM event WHERE {column_of(subject)} = ? ORDER BY id", subject.key
    )


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
    ids = frozenset(str(value) for (value,) in query_rows(recording, query, event, at_most + 1))
    return ids if len(ids) <= at_most else None


def container_count(recording: Recording) -> int:
    """Return the number of containers of events and Synchronize requests. Raises RecordingError."""
    return query_numbers(recording, "SELECT count(*) FROM container")[0][0]


def ids_at_start(recording: Recording, session: int) -> frozenset[str]:
    """Return the ids of the pods and containers listed by Synchronize when ``session`` began.

    Raises RecordingError.
    """
    query = (
        "SELECT DISTINCT c.id FROM state AS s "
        "JOIN container AS c ON c.key = s.container WHERE s.session = ? UNION "
        "SELECT p.id FROM state AS s JOIN pod AS p ON p.key = s.pod WHERE s.session = ?"
    )
    return frozenset(str(value) for (value,) in query_rows(recording, query, session, session))
