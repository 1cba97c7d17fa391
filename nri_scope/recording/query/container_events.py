# SPDX-License-Identifier: Apache-2.0
"""Find the events from which a container's history follows, and what precedes them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from nri_scope.events import ASIDE, Container, Event
from nri_scope.nri.events import CREATE, UNSOLICITED, UPDATE, VALIDATE

from ..file.blobs import ObjectKind
from ..file.sqlite_text import number_list
from ..reading.reader import Recording
from ..reading.sqlite_errors import query_column, query_numbers
from .coverage import Coverage, life_coverage
from .lookup import events_about
from .subject_queries import under_each_name

_AROUND = 200
"""Maximum distance, in event ids, between events of one round."""
_TOGETHER = 100
"""Maximum number of events of one query."""
_NEXT_MAX = 1_000
"""Maximum distance, in event ids, to the runtime's next event."""
_FIRST_LISTING = "SELECT object, event FROM state WHERE container = ? ORDER BY event LIMIT 1"


@dataclass(frozen=True, slots=True)
class HistoryEvents:
    """The events of a recording from which the histories of some containers follow."""

    recording: Recording
    containers: Sequence[Container]
    numbers: Sequence[int]
    """Ids of the events, in order."""
    listed: Sequence[tuple[Container, bytes]]
    """The containers that a Synchronize request lists before their own events, with its message."""
    coverage: Coverage | None = None
    """What was observed of the life of a single container; None if that was not asked for."""


def history_events(recording: Recording, container: Container) -> HistoryEvents:
    """Return the events of one container's history, and what was observed of its life.

    Raises RecordingError.
    """
    return events_of_histories(recording, [container], coverage=life_coverage(recording, container))


def events_of_histories(
    recording: Recording,
    containers: Sequence[Container],
    others: Iterable[int] = (),
    coverage: Coverage | None = None,
) -> HistoryEvents:
    """Return the events of containers' histories, and ``others``. Raises RecordingError."""
    numbers = {*others}
    listed: list[tuple[Container, bytes]] = []
    for container in under_each_name(recording, [container.key for container in containers]):
        own = events_for(recording, container)
        # The next request, about any subject, shows that a creation's or update's chain had ended.
        own += next_after(recording, container, (CREATE, UPDATE), sorted(ASIDE))
        for number, event in query_numbers(recording, _FIRST_LISTING, container.key):
            kind, content = recording.object(number)
            if kind == ObjectKind.CONTAINER and event <= min(own, default=event):
                listed.append((container, content))
        numbers.update(own)
    return HistoryEvents(recording, containers, sorted(numbers), listed, coverage)


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


_OF_NO_CHAIN = ", ".join(f"'{name}'" for name in sorted(ASIDE | {VALIDATE}))
_NEXT_EVENT = (
    "SELECT (SELECT o.id FROM event AS o WHERE o.id BETWEEN e.id + 1 AND e.id + ? "
    "AND (o.container IS NOT e.container OR o.event != e.event) AND o.event NOT IN "
    f"(SELECT id FROM name WHERE text IN ({_OF_NO_CHAIN})) ORDER BY o.id LIMIT 1) AS next "
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
    if not rows or rows[0][0] == event.seq - 1:
        return True
    query = "SELECT 1 FROM left_out WHERE event = ? AND seq = ?"
    return bool(query_numbers(recording, query, event.id, event.seq - 1))


def is_part(recording: Recording) -> bool:
    """Return whether events were left out, so that sequence numbers do not show what is missing."""
    return bool(query_numbers(recording, "SELECT 1 FROM left_out LIMIT 1"))
