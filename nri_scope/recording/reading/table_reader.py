# SPDX-License-Identifier: Apache-2.0
"""Read the rows of a recording: sessions, gaps, notes, pods, containers and events."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from operator import itemgetter
from time import time_ns
from typing import NamedTuple

from nri_scope.events import EVENT_TEXTS, Container, Event, Gap, Note, Pod, Session
from nri_scope.filter import Filter

from ..file.blobs import Objects
from ..file.heartbeat import read_heartbeat
from ..file.sqlite_text import WORDS_MAX, cut_sql, number_list
from .connection import RecordingConnection, Value
from .rows import (
    CONTAINER_COLUMNS,
    EVENT_COLUMNS,
    EVENT_FIELDS,
    LISTS,
    SESSION_COLUMNS,
    Row,
    ascending,
    containers_of,
    event_of,
    gap_of,
    note_of,
    number_of,
    pod_of,
    session_of,
)
from .sessions import (
    LATE_SYNCHRONIZE_QUERY,
    gap_until,
    gaps_after_synchronize,
    gaps_between,
    unobserved,
    with_failure_policies,
)

_PAGE = 500
"""Number of events per query; small, so that a writer can reuse its log during a slow iteration."""
PAGE_CHARACTERS = 2 << 20
"""Number of characters of long texts above which a page ends."""
_long_texts = itemgetter(*map(EVENT_FIELDS.index, EVENT_TEXTS), *LISTS)


def _two_numbers(row: Row) -> tuple[int, int]:
    return number_of(row[:1]), number_of(row[1:])


class EventCondition(NamedTuple):
    """An SQL condition on events, with its values."""

    text: str
    values: Sequence[Value]

    @classmethod
    def of(
        cls, where: Filter | None = None, since_ns: int | None = None, until_ns: int | None = None
    ) -> EventCondition:
        """Return the condition for the arguments of `TableReader.events`."""
        conditions: list[str] = ["1"]
        values: list[Value] = []
        if since_ns is not None:
            conditions.append("at_ns >= ?")
            values.append(since_ns)
        if until_ns is not None:
            conditions.append("at_ns < ?")
            values.append(until_ns)
        if where is not None:
            text, filter_values = where.to_sql()
            conditions.append(f"({text})")
            values += filter_values
        return cls(" AND ".join(conditions), values)

    def among(self, ids: Sequence[int]) -> EventCondition:
        """Return the condition for only some events."""
        # A parameter would need an SQL function, which a user's query may forbid.
        return self._replace(text=f"{self.text} AND id IN {number_list(ids)}")


class TableReader(RecordingConnection):
    """Reader of rows. All methods raise RecordingError for a faulty file."""

    def _connect(self) -> None:
        super()._connect()
        self._objects = Objects(self._connection)

    # -- contents ---------------------------------------------------------------------------

    def sessions(self) -> list[Session]:
        """Return all sessions, oldest first."""
        return self._while_unchanged(self._read_sessions)

    def _read_sessions(self) -> list[Session]:
        self._check_size("session", "''")
        query = f"SELECT {SESSION_COLUMNS} FROM session ORDER BY id"
        sessions = self._table(session_of, query)

        def content(object_id: int) -> bytes:
            return self._objects.get(object_id)[1]

        return self._read(lambda: with_failure_policies(sessions, self._connection, content))

    def gaps(self) -> list[Gap]:
        """Return all gaps, from the table, between sessions and up to now, ordered by start."""
        gaps = self._while_unchanged(self._read_gaps)
        heartbeat = read_heartbeat(self.path)
        if heartbeat is not None and heartbeat.trouble(time_ns()):
            newest = max((event.at_ns for event in self.events(last=1)), default=0)
            gaps.append(gap_until(time_ns(), heartbeat, self.sessions(), newest))
        return sorted(gaps, key=lambda gap: gap.from_ns)

    def _read_gaps(self) -> list[Gap]:
        self._check_size("gap", "reason")
        gaps = self._table(
            gap_of,
            f"SELECT id, session, from_ns, to_ns, {cut_sql('reason', WORDS_MAX)}, lost FROM gap "
            "ORDER BY id",
        )
        sessions = self.sessions()
        gaps = unobserved(gaps, sessions)
        late = dict(self._table(_two_numbers, LATE_SYNCHRONIZE_QUERY))
        return [*gaps, *gaps_after_synchronize(late, sessions, gaps), *gaps_between(sessions, gaps)]

    def notes(self) -> list[Note]:
        """Return all notes, ordered by time."""
        self._check_size("note", "text")
        notes = self._table(
            note_of,
            f"SELECT id, session, at_ns, {cut_sql('text', WORDS_MAX)} FROM note ORDER BY id",
        )
        return sorted(notes, key=lambda note: note.at_ns)

    def pods(self) -> list[Pod]:
        """Return all pods of events and Synchronize requests."""
        return self._table(pod_of, "SELECT key, id, namespace, name, uid FROM pod ORDER BY key")

    def containers(self) -> list[Container]:
        """Return all containers of events and Synchronize requests."""
        query = (
            f"SELECT {CONTAINER_COLUMNS} FROM container AS c LEFT JOIN pod AS p ON p.key = c.pod "
            "ORDER BY c.key"
        )
        return self._read(lambda: containers_of(ascending(self._connection.execute(query), (0,))))

    # -- events -----------------------------------------------------------------------------

    def events(
        self,
        *,
        where: Filter | None = None,
        since_ns: int | None = None,
        until_ns: int | None = None,
        after_id: int = 0,
        last: int | None = None,
        among: Sequence[int] | None = None,
    ) -> Iterator[Event]:
        """Yield events in recorded order, including events written during the iteration.

        Wall clock times are from ``since_ns`` (included) to ``until_ns`` (excluded). ``last``:
        maximum number of events, the newest; ``among``: their ids.
        """
        condition = EventCondition.of(where, since_ns, until_ns)
        for page in self._pages(condition, after_id, among, last):
            yield from page

    def event(self, event_id: int) -> Event | None:
        """Return the event with this id, or None."""
        events = self._all(event_of, f"SELECT {EVENT_COLUMNS} FROM events WHERE id = ?", [event_id])
        return events[0] if events else None

    def _pages(
        self,
        condition: EventCondition,
        after_id: int = 0,
        among: Sequence[int] | None = None,
        last: int | None = None,
    ) -> Iterator[list[Event]]:
        for chunk in _parts_or_all(among):
            part = condition if chunk is None else condition.among(chunk)
            yield from self._pages_of(part, after_id, last)

    def _pages_of(
        self, condition: EventCondition, after_id: int, last: int | None
    ) -> Iterator[list[Event]]:
        if last is not None:
            if last <= 0:
                return
            # Find the id before the first event, instead of collecting a long list.
            before = self._all(
                number_of,
                f"SELECT id FROM events WHERE {condition.text} AND id > ? "
                "ORDER BY id DESC LIMIT 1 OFFSET ?",
                [*condition.values, after_id, min(last, sys.maxsize)],
            )
            after_id = before[0] if before else after_id
        while True:
            page, is_last = self._page(condition, after_id)
            yield page
            if is_last:
                return
            after_id = page[-1].id

    def _page(self, condition: EventCondition, after_id: int) -> tuple[list[Event], bool]:
        """Return the next page of events, and whether it is the last."""
        newest = after_id

        def read() -> tuple[list[Event], bool]:
            nonlocal newest
            page: list[Event] = []
            characters = 0
            newest = after_id
            rows = self._connection.execute(
                f"SELECT {EVENT_COLUMNS} FROM events WHERE {condition.text} AND id > ? "
                f"ORDER BY id LIMIT {_PAGE}",
                [*condition.values, after_id],
            )
            for row in ascending(rows, (after_id,)):
                page.append(event_of(row))
                newest = page[-1].id
                characters += sum(map(len, _long_texts(row)))
                if characters > PAGE_CHARACTERS:
                    return page, False
            return page, len(page) < _PAGE

        return self._read(read, lambda: f"from event {newest + 1} on")


def _parts_or_all(numbers: Sequence[int] | None) -> Iterator[Sequence[int] | None]:
    """Yield event ids in ascending pages; for None, all events, yield a single None."""
    if numbers is None:
        yield None
        return
    ordered = sorted(numbers)
    for start in range(0, len(ordered), _PAGE):
        yield ordered[start : start + _PAGE]
