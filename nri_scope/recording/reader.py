# SPDX-License-Identifier: Apache-2.0
"""Read the sessions, events and messages of a recording, which is untrusted input."""

from __future__ import annotations

import errno
import sqlite3
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Self, TypeVar, cast

from google.protobuf.message import Message

from nri_scope._gen.nri.api_pb2 import Container as ContainerMessage
from nri_scope._gen.nri.api_pb2 import PodSandbox
from nri_scope.errors import RecordingCut, RecordingError
from nri_scope.events import Container, Event, Gap, Note, Pod, Session, State
from nri_scope.filter import Filter
from nri_scope.nri.element_limits import MAX_ELEMENTS, MAX_STRINGS, UNCUT_BYTES, Elements, bounded
from nri_scope.nri.request_subject import kind_of_reply, kind_of_request

from . import event_messages, row_limits
from .blobs import ContentError, ObjectKind, Objects
from .cache import RecentlyUsed
from .event_messages import has_parts
from .file_errors import code_of, error_words, is_damage, reading_hint
from .opening import attach, connect, fingerprint, to_recording_error
from .rows import (
    CONTAINER_COLUMNS,
    EVENT_COLUMNS,
    SESSION_COLUMNS,
    Row,
    ascending,
    containers_of,
    event_of,
    gap_of,
    note_of,
    number_of,
    optional_numbers_of,
    pod_of,
    session_of,
)
from .schema_check import repair_hint
from .sessions import gaps_between, with_failure_policies
from .sql_functions import register
from .sqlite_text import WORDS_MAX, characters_sql, cut_sql
from .work_budget import Allowance, QueryBudget

MAX_REQUEST = 16 << 20
"""Maximum number of bytes of one reassembled request. On the wire, requests have at most 4 MiB."""
MAX_STATE = 256 << 20
"""Maximum number of bytes of all pods and containers at the start of a session."""
MAX_STATE_ELEMENTS = 1_500_000
"""Maximum number of elements in these: 1,000 containers with 1,500 variables each reach it."""
_ATTEMPTS = 5
"""Maximum number of attempts to open a file that is written in the meantime."""
_PAGE = 500
"""Number of events per query; small, so that a writer can reuse its log during a slow iteration."""
_PAGE_CHARACTERS = 2 << 20
"""Number of characters of errors, paths and owners above which a page ends."""
_TOGETHER = 1 << 20
"""Bytes of messages that are read together."""
_SYNCHRONIZE = "Synchronize"
# Positions in a row of `EVENT_COLUMNS`; the last three columns are lists as JSON.
_ERROR = [column.name for column in fields(Event)].index("status_message")

_KEPT_BYTES = 2 << 20
"""Bytes of the cache of messages that were checked for truncation, and of that of requests."""
_MESSAGES: dict[int, type[Message]] = {
    ObjectKind.POD: PodSandbox,
    ObjectKind.CONTAINER: ContainerMessage,
}
_Request = tuple[int | None, int | None, int | None]
"""Object ids of a request: pod, container and rest."""
_Parts = tuple[int | None, int | None, int | None, int | None]
"""Object ids of a request, as in `_Request`, and of the reply."""
_KINDS: tuple[Callable[[str, str], type[Message] | None], ...] = (
    lambda *_: PodSandbox,
    lambda *_: ContainerMessage,
    kind_of_request,
    kind_of_reply,
)
"""The class of the message of each of `_Parts`, by method and mark."""

T = TypeVar("T")
Value = str | int


class Recording:
    """Open recording. All methods raise RecordingError for a faulty file.

    Not thread-safe, except for `interrupt`.
    """

    def __init__(self, path: Path) -> None:
        """Not for callers: use `open`."""
        self.path = path
        try:
            self._real_path = path.resolve()
        except (OSError, RuntimeError) as error:
            # Python 3.13 reports a loop of links only on opening, with the same message.
            words = error_words(OSError(errno.ELOOP, ""))
            raise RecordingError(path, words, reading_hint(words)) from error
        self._kept: RecentlyUsed[tuple[type[Message] | None, bytes], bytes] = RecentlyUsed(
            _KEPT_BYTES
        )
        self._requests: RecentlyUsed[tuple[str, bytes, bytes | None, bytes | None], bytes] = (
            RecentlyUsed(_KEPT_BYTES)
        )
        self._outdated: list[sqlite3.Connection] = []
        self._attribution: Path | None = None
        self.attached = 0
        """Number of calls of `attach`."""
        self._connect()

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open a recording for reading, even while it is being written. Raises RecordingError.

        The file is not modified; files beside it are modified only while it is being written. If
        other users could replace the file or its companions, a private copy is read instead
        (``is_copy``).
        """
        return cls(Path(path))

    def close(self) -> None:
        """Close the file."""
        for connection in (self._connection, *self._outdated):
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def connection(self) -> sqlite3.Connection:
        """Read-only connection with the views "events" and "log", REGEXP and `sql_functions`.

        Use this property for each query, as the file may have been reopened.
        """
        self._refresh()
        self._budget.renew()
        return self._connection

    def attach(self, path: Path) -> None:
        """Read changes, owners and problems of events from an `AttributionFile`, too.

        A file attached before is replaced. Call it again after the file has grown, so that scans
        are restarted. Raises RecordingError.
        """
        self._attribution = path
        self.attached += 1
        self._read(self._attach)

    def _attach(self) -> None:
        if self._attribution is not None:
            attach(self._connection, self._attribution)

    def interrupt(self) -> None:
        """Interrupt the query that is running in another thread."""
        self._connection.interrupt()

    def rows(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        """Return all rows of an internal query, whose types the caller must check."""
        return self._read(lambda: self._connection.execute(sql, values).fetchall())

    # -- contents ---------------------------------------------------------------------------

    def sessions(self) -> list[Session]:
        """Return all sessions, oldest first."""
        self._check_size("session", "''")
        query = f"SELECT {SESSION_COLUMNS} FROM session ORDER BY id"
        sessions = self._table(session_of, query)

        def content(object_id: int) -> bytes:
            return self._objects.get(object_id)[1]

        return self._read(lambda: with_failure_policies(sessions, self._connection, content))

    def gaps(self) -> list[Gap]:
        """Return all gaps, from the table and between sessions, ordered by start."""
        self._check_size("gap", "reason")
        gaps = self._table(
            gap_of,
            f"SELECT id, session, from_ns, to_ns, {cut_sql('reason', WORDS_MAX)}, lost FROM gap "
            "ORDER BY id",
        )
        gaps += gaps_between(self.sessions(), gaps)
        return sorted(gaps, key=lambda gap: gap.from_ns)

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
        for chunk in _parts_or_all(among):
            for page in self._pages(where, since_ns, until_ns, after_id, last, chunk):
                yield from page

    def exchanges(
        self,
        *,
        where: Filter | None = None,
        after_id: int = 0,
        among: Sequence[int] | None = None,
        allowance: Allowance | None = None,
        together: int = _TOGETHER,
        needed: Callable[[Event], bool] = lambda _: True,
    ) -> Iterator[tuple[Event, bytes, bytes]]:
        """Yield events, as `events` does, each with its `request` and `reply`.

        Both are b"" if an event's messages are not ``needed``. Messages are read in batches of
        ``together`` bytes, in half the time of single reads. If they exceed ``allowance``, by
        default that of one command, the iteration ends with a warning; for a copy
        (`Allowance.is_copy`) it raises RecordingError.
        """
        allowance = allowance or self.allowance()
        pages = (
            page
            for chunk in _parts_or_all(among)
            for page in self._pages(where, after_id=after_id, among=chunk)
        )
        for page in pages:
            wanted = [event for event in page if needed(event)]
            parts = self._parts_of(wanted)
            removed = {event.id for event in wanted} - parts.keys()
            remaining = [event for event in page if event.id not in removed]
            while remaining:
                some, error = self._messages_of(remaining, parts, together)
                for exchange in some:
                    self._charge(allowance, exchange, parts.get(exchange[0].id, ()))
                    if allowance.is_over:
                        use = "copying" if allowance.is_copy else "decoding"
                        problem = (
                            f"{use} its messages exceeds the limit for a file of its size, "
                            f"from event {exchange[0].id} on"
                        )
                        if allowance.is_copy:
                            raise RecordingError(self.path, problem)
                        self._warn(problem)
                        return
                    yield exchange
                if error is not None:
                    raise error
                remaining = remaining[len(some) :]

    def _messages_of(
        self, events: Sequence[Event], parts: Mapping[int, _Parts], together: int
    ) -> tuple[list[tuple[Event, bytes, bytes]], RecordingError | None]:
        """Return the first of ``events`` with their messages, and the error of the next event.

        Reads a batch of up to ``together`` bytes, as checking whether the file has changed takes as
        long as reading a message.
        """
        exchanges: list[tuple[Event, bytes, bytes]] = []

        def read() -> None:
            exchanges.clear()
            size = 0
            for event in events:
                if event.id not in parts:
                    exchanges.append((event, b"", b""))
                    continue
                pod, container, rest, reply = parts[event.id]
                request = self._assembled(event, (pod, container, rest))
                exchanges.append((event, request, self._reply(event, reply)))
                size += len(request) + len(exchanges[-1][2])
                if size > together:
                    return

        try:
            self._read(read, lambda: f"at event {events[len(exchanges)].id}")
        except RecordingError as error:
            return exchanges, error
        return exchanges, None

    def file_size(self) -> int:
        """Return the current size of the file in bytes."""
        try:
            return self._real_path.stat().st_size
        except OSError:
            # The file was moved in the meantime.
            return 0

    def allowance(self, times: float = 1, *, is_copy: bool = False) -> Allowance:
        """Return the budget of one command for decoding messages, by the size of the file."""
        return Allowance(self.file_size(), times, is_copy=is_copy)

    def _charge(
        self, allowance: Allowance, exchange: tuple[Event, bytes, bytes], parts: _Parts | tuple[()]
    ) -> None:
        event, request, _ = exchange
        allowance.spend_event(event.method)
        if event.method == _SYNCHRONIZE:
            allowance.spend_message(kind_of_request(event.method, event.mark), request, -event.id)
            return
        for position, number in enumerate(parts):
            if number is not None and not allowance.spend_again(number):
                kind_of = _KINDS[position]
                kind = kind_of(event.method, event.mark)
                allowance.spend_message(kind, self._objects.get(number)[1], number)

    def event(self, event_id: int) -> Event | None:
        """Return the event with this id, or None."""
        events = self._all(event_of, f"SELECT {EVENT_COLUMNS} FROM events WHERE id = ?", [event_id])
        return events[0] if events else None

    def _pages(
        self,
        where: Filter | None = None,
        since_ns: int | None = None,
        until_ns: int | None = None,
        after_id: int = 0,
        last: int | None = None,
        among: Sequence[int] | None = None,
    ) -> Iterator[list[Event]]:
        conditions: list[str] = ["1"]
        values: list[Value] = []
        if since_ns is not None:
            conditions.append("at_ns >= ?")
            values.append(since_ns)
        if until_ns is not None:
            conditions.append("at_ns < ?")
            values.append(until_ns)
        if where is not None:
            text, of_filter = where.to_sql()
            conditions.append(f"({text})")
            values += of_filter
        if among is not None:
            conditions.append(_among(among))
        condition = " AND ".join(conditions)
        if last is not None:
            if last <= 0:
                return
            # Find the id before the first of them, instead of collecting a long list.
            before = self._all(
                number_of,
                f"SELECT id FROM events WHERE {condition} AND id > ? "
                "ORDER BY id DESC LIMIT 1 OFFSET ?",
                [*values, after_id, min(last, sys.maxsize)],
            )
            after_id = before[0] if before else after_id
        while True:
            page, is_last = self._page(condition, values, after_id)
            yield page
            if is_last:
                return
            after_id = page[-1].id

    def _page(
        self, condition: str, values: Sequence[Value], after_id: int
    ) -> tuple[list[Event], bool]:
        """Return the next page of events, and whether it is the last."""
        newest = after_id

        def read() -> tuple[list[Event], bool]:
            nonlocal newest
            page: list[Event] = []
            characters = 0
            newest = after_id
            rows = self._connection.execute(
                f"SELECT {EVENT_COLUMNS} FROM events WHERE {condition} AND id > ? "
                f"ORDER BY id LIMIT {_PAGE}",
                [*values, after_id],
            )
            for row in ascending(rows, (after_id,)):
                page.append(event_of(row))
                newest = page[-1].id
                characters += len(row[_ERROR]) + len(row[-2]) + len(row[-1])
                if characters > _PAGE_CHARACTERS:
                    return page, False
            return page, len(page) < _PAGE

        return self._read(read, lambda: f"from event {newest + 1} on")

    # -- messages ---------------------------------------------------------------------------

    def request(self, event_id: int) -> bytes:
        """Return the request of an event, serialised deterministically.

        If the event has a mark, the bytes are those on the wire. A message that is too large is
        truncated, with a warning (`element_limits.bounded`). Raises RecordingError, also for a
        missing event.
        """
        event = self.event(event_id)
        if event is None:
            raise self._no_event(event_id)
        parts = self._parts_of([event])
        if not parts:
            raise self._no_event(event_id)
        pod, container, rest, _ = parts[event_id]
        return self._request(event, (pod, container, rest))

    def reply(self, event_id: int) -> bytes:
        """Return the payload of an event's reply, as on the wire, with the limits of `request`."""
        event = self.event(event_id)
        rows = self._all(optional_numbers_of, "SELECT reply FROM event WHERE id = ?", [event_id])
        if event is None or not rows:
            raise self._no_event(event_id)
        return self._read(lambda: self._reply(event, rows[0][0]), lambda: f"at event {event_id}")

    def object(self, object_id: int) -> tuple[int, bytes]:
        """Return the kind (`ObjectKind`) and content of an object; pods and containers are
        bounded.
        """

        def read() -> tuple[int, bytes]:
            kind, content = self._objects.get(object_id)
            return kind, self._bounded(_MESSAGES.get(kind), content)

        return self._read(read, lambda: f"at object {object_id}")

    def object_content(self, object_id: int) -> bytes:
        """Return the content of an object, without truncation."""
        return self._read(lambda: self._objects.get(object_id)[1], lambda: f"at object {object_id}")

    def sessions_with_state(self, sessions: Sequence[Session]) -> list[Session]:
        """Return the sessions that may have a `state`, with one query for all of them."""
        try:
            with_state = {number_of(row) for row in self.rows("SELECT DISTINCT session FROM state")}
        except (RecordingError, ValueError):
            return list(sessions)
        return [session for session in sessions if session.id in with_state]

    def state(self, session_id: int) -> State:
        """Return the pods and containers listed by the session's newest Synchronize."""
        rows = self._all(
            optional_numbers_of,
            "SELECT sync_event, synced_ns FROM session WHERE id = ?",
            [session_id],
        )
        first, synced = rows[0] if rows else (None, None)
        if first is None:
            return State((), (), False)
        state = self._read(
            lambda: self._load_state("session = ? AND event >= ?", session_id, first, MAX_STATE),
            lambda: f"in session {session_id}",
        )
        return State(state.pods, state.containers, synced is not None)

    def is_synchronized(self, session_id: int) -> bool:
        """Return whether the session's newest Synchronize is complete, without reading it."""
        rows = self._all(
            optional_numbers_of, "SELECT synced_ns FROM session WHERE id = ?", [session_id]
        )
        return bool(rows) and rows[0][0] is not None

    def _parts_of(self, events: Sequence[Event]) -> dict[int, _Parts]:
        """Return the parts of the ascending ``events`` by event id, without removed events."""
        if not events:
            return {}
        first, last = events[0].id, events[-1].id
        # For a range, SQLite also reads the row after its end, which may be damaged.
        is_range = last - first == len(events) - 1 > 0
        which = f"id BETWEEN {first} AND {last}"

        def read() -> dict[int, _Parts]:
            rows = self._connection.execute(
                "SELECT id, pod_object, container_object, request, reply FROM event "
                f"WHERE {which if is_range else _among([event.id for event in events])} ORDER BY id"
            )
            return {
                row[0]: cast("_Parts", optional_numbers_of(row)[1:])
                for row in ascending(rows, (first - 1,))
            }

        return self._read(read, lambda: f"from event {events[0].id} on")

    def _request(self, event: Event, parts: _Request) -> bytes:
        return self._read(lambda: self._assembled(event, parts), lambda: f"at event {event.id}")

    def _assembled(self, event: Event, parts: _Request) -> bytes:
        content = self._objects.content
        pod, container, rest = content(parts[0]), content(parts[1]), content(parts[2]) or b""
        if len(rest) > UNCUT_BYTES:
            rest = self._bounded(kind_of_request(event.method, event.mark), rest)
        if not has_parts(event):
            return rest
        pod = pod and self._bounded(PodSandbox, pod)
        container = container and self._bounded(ContainerMessage, container)
        if event.method == _SYNCHRONIZE:
            state = self._load_state(
                "session = ? AND event = ?", event.session, event.id, MAX_REQUEST
            )
            return event_messages.synchronize(rest, state.pods, state.containers)
        # All connections of a round have the same request, unless a plugin changed it.
        key = event.method, rest, pod, container
        request = self._requests.get(key)
        if request is None:
            request = event_messages.request(*key)
            self._requests.put(key, request, len(request) + 100)
        return request

    def _reply(self, event: Event, number: int | None) -> bytes:
        content = self._objects.content(number) or b""
        if len(content) <= UNCUT_BYTES:
            return content
        return self._bounded(kind_of_reply(event.method, event.mark), content)

    def _bounded(self, kind: type[Message] | None, content: bytes) -> bytes:
        if len(content) <= UNCUT_BYTES:
            return content
        # Counting elements is slow, and a hostile file may repeat one message in every event.
        kept = self._kept.get((kind, content))
        if kept is None:
            kept = bounded(kind, content)
            self._kept.put((kind, content), kept, len(content))
        if len(kept) != len(content):
            most = f"{MAX_ELEMENTS:,} elements or {MAX_STRINGS >> 20} MiB of text"
            self._warn(f"a message in it has more than {most}")
        return kept

    def _warn(self, problem: str) -> None:
        warnings.warn(RecordingCut(f"{self.path}: {problem}; the rest is not read"), stacklevel=2)

    def _load_state(self, condition: str, session: int, event: int, limit: int) -> State:
        pods: list[bytes] = []
        containers: list[bytes] = []
        rows = self._connection.execute(
            f"SELECT event, position, object FROM state WHERE {condition} ORDER BY event, position",
            (session, event),
        )
        elements = Elements(MAX_STATE_ELEMENTS)
        for row in ascending(rows, (0, -1)):
            kind, content = self._objects.get(number_of(row[2:]))
            limit -= len(content) + 8
            if limit < 0:
                raise ContentError("the state in Synchronize is too large")
            content = self._bounded(_MESSAGES.get(kind), content)
            elements.count(_MESSAGES.get(kind), content)
            if elements.left < 0:
                self._warn(
                    f"the state in Synchronize has more than {MAX_STATE_ELEMENTS:,} elements"
                )
                return State(tuple(pods), tuple(containers), False)
            (pods if kind == ObjectKind.POD else containers).append(content)
        return State(tuple(pods), tuple(containers), True)

    # -- the file ---------------------------------------------------------------------------

    def _connect(self) -> None:
        for attempts_left in reversed(range(_ATTEMPTS)):
            # Determined before connecting, as another process may start writing at any time.
            self._fingerprint = fingerprint(self._real_path)
            try:
                self._connection, self.version, self.is_copy = connect(
                    self._real_path, known=self._fingerprint, shown=self.path
                )
                break
            except RecordingError as error:
                # A settled file is read without locks: it may have been read during a write.
                if not (attempts_left and self._has_changed()):
                    raise RecordingError(self.path, error.problem, error.hint) from error
        if self.is_copy:
            self._fingerprint = None
        self._objects = Objects(self._connection)
        self._budget = QueryBudget(self._connection, _size(self._connection))
        register(self._connection, self)
        self._attach()

    def _refresh(self) -> bool:
        """Reopen the file if it was settled when opened, and has changed; return whether it did."""
        if not self._has_changed():
            return False
        # A caller may still use the old connection.
        self._outdated.append(self._connection)
        self._connect()
        return True

    def _has_changed(self) -> bool:
        """Return whether the file was settled when opened, and has changed."""
        return self._fingerprint is not None and (fingerprint(self._real_path) != self._fingerprint)

    def _read(self, work: Callable[[], T], where: Callable[[], str] = str) -> T:
        while True:
            self._budget.renew()
            try:
                result = work()
            except (sqlite3.Error, ValueError) as error:
                if self._refresh():
                    continue
                raise self._error(error, where()) from error
            # Discard a result from a file that has changed in the meantime.
            if not self._refresh():
                return result

    def _check_size(self, table: str, words: str) -> None:
        """Refuse a table with too many rows, or too much text in its column ``words``, before it is
        read into memory.
        """
        text = f"min(coalesce({characters_sql(words)}, 0), {WORDS_MAX})"
        query = (
            f"SELECT count(*), coalesce(sum({text}), 0) "
            f"FROM (SELECT * FROM {table} LIMIT {row_limits.MAX_ROWS + 1})"
        )
        ((rows, characters),) = self._all(optional_numbers_of, query)
        much = ""
        if (rows or 0) > row_limits.MAX_ROWS:
            much = f"{row_limits.MAX_ROWS:,} {table}s"
        elif (characters or 0) > row_limits.MAX_TEXT:
            much = f"{row_limits.MAX_TEXT:,} characters in its {table}s"
        if much:
            raise RecordingError(
                self.path,
                f"it has more than {much}, and no recorder writes so many",
                "get another copy of it",
            )

    def _table(self, make: Callable[[Row], T], query: str) -> list[T]:
        """Return the values of rows ordered by their key, the first column."""
        return self._read(
            lambda: [make(row) for row in ascending(self._connection.execute(query), (0,))]
        )

    def _all(self, make: Callable[[Row], T], query: str, values: Sequence[Value] = ()) -> list[T]:
        return self._read(lambda: [make(row) for row in self._connection.execute(query, values)])

    def _no_event(self, event_id: int) -> RecordingError:
        return RecordingError(self.path, f"it has no event {event_id}", "`log` shows what it has")

    def _error(self, error: Exception, where: str) -> RecordingError:
        if isinstance(error, sqlite3.Error) and code_of(error) == sqlite3.SQLITE_INTERRUPT:
            if not self._budget.is_over:
                # A signal interrupted the query, which sqlite3 reports as this error.
                raise KeyboardInterrupt from error
            return RecordingError(
                self.path, "it is damaged: reading it would never end", "get another copy of it"
            )
        if isinstance(error, UnicodeError) or (
            isinstance(error, sqlite3.Error) and not is_damage(error)
        ):
            recording_error = to_recording_error(self._real_path, error)
            return RecordingError(self.path, recording_error.problem, recording_error.hint)
        reason = "" if isinstance(error, sqlite3.Error) else f": {error}"
        return RecordingError(
            self.path, f"it is damaged{where and ' ' + where}{reason}", repair_hint(self.path)
        )


def _among(numbers: Sequence[int]) -> str:
    # As literals: a list parameter would need an SQL function, which a user's query may forbid.
    return f"id IN ({', '.join(str(int(number)) for number in numbers)})"


def _parts_or_all(numbers: Sequence[int] | None) -> Iterator[Sequence[int] | None]:
    """Yield event ids in ascending pages; for None, all events, yield a single None."""
    if numbers is None:
        yield None
        return
    ordered = sorted(numbers)
    for start in range(0, len(ordered), _PAGE):
        yield ordered[start : start + _PAGE]


def _size(connection: sqlite3.Connection) -> int:
    """Return the size of an open recording in bytes, even if it was removed; 0 if unknown."""
    try:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (page,) = connection.execute("PRAGMA page_size").fetchone()
    except sqlite3.Error:
        return 0
    return int(pages) * int(page)
