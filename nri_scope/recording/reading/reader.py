# SPDX-License-Identifier: Apache-2.0
"""Read a recording: the rows of its tables, and the messages of its events."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from google.protobuf.message import Message

from nri_scope._gen.nri.api_pb2 import Container as ContainerMessage
from nri_scope._gen.nri.api_pb2 import PodSandbox
from nri_scope.errors import RecordingCut, RecordingError
from nri_scope.events import Event, InitialState, Session
from nri_scope.filter import Filter
from nri_scope.nri.element_limits import MAX_ELEMENTS, MAX_STRINGS, UNCUT_BYTES, Elements, bounded
from nri_scope.nri.events import SYNCHRONIZE
from nri_scope.nri.request_subject import kind_of_reply, kind_of_request

from ..cache import RecentlyUsed
from ..file.blobs import ContentError, ObjectKind
from ..file.sqlite_text import number_list
from . import event_messages
from .event_messages import OBJECT_MESSAGES, has_parts, register
from .opening import attach
from .rows import ascending, number_of, optional_numbers_of
from .table_reader import EventCondition, TableReader
from .work_budget import Allowance

MAX_REQUEST = 16 << 20
"""Maximum number of bytes of one reassembled request. On the wire, requests have at most 4 MiB."""
MAX_STATE = 256 << 20
"""Maximum number of bytes of all pods and containers at the start of a session."""
MAX_STATE_ELEMENTS = 1_500_000
"""Maximum number of elements in these: 1,000 containers with 1,500 variables each reach it."""
_TOGETHER = 1 << 20
"""Bytes of messages that are read together."""
_KEPT_BYTES = 2 << 20
"""Bytes of the cache of messages that were checked for truncation, and of that of requests."""
_Parts = tuple[int | None, int | None, int | None, int | None]
"""Object ids of a request (pod, container and rest) and of the reply."""
_RequestContent = tuple[str, bytes, bytes | None, bytes | None]
"""Method of a request, and the contents of its objects: rest, pod and container."""
_KINDS: tuple[Callable[[str, str], type[Message] | None], ...] = (
    lambda *_: PodSandbox,
    lambda *_: ContainerMessage,
    kind_of_request,
    kind_of_reply,
)
"""The class of the message of each of `_Parts`, by method and mark."""


class Recording(TableReader):
    """Open recording. All methods raise RecordingError for a faulty file.

    Not thread-safe, except for `interrupt`.
    """

    def __init__(self, path: Path) -> None:
        """Not for callers: use `open`."""
        self._kept = RecentlyUsed[tuple[type[Message] | None, bytes], bytes](_KEPT_BYTES)
        """Messages, truncated if they are too large, by class and content."""
        self._requests = RecentlyUsed[_RequestContent, bytes](_KEPT_BYTES)
        self._attribution: Path | None = None
        self.attached = 0
        """Number of calls of `attach`."""
        super().__init__(path)

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

    def _connect(self) -> None:
        super()._connect()
        register(self._connection, self)
        self._attach()

    # -- messages ---------------------------------------------------------------------------

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
        for page in self._pages(EventCondition.of(where), after_id, among):
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
                request = self._assembled(event, parts[event.id])
                reply = self._reply(event, parts[event.id][3])
                exchanges.append((event, request, reply))
                size += len(request) + len(reply)
                if size > together:
                    return

        try:
            self._read(read, lambda: f"at event {events[len(exchanges)].id}")
        except RecordingError as error:
            return exchanges, error
        return exchanges, None

    def allowance(self, times: float = 1, *, is_copy: bool = False) -> Allowance:
        """Return the budget of one command for decoding messages, by the size of the file."""
        return Allowance(self.file_size(), times, is_copy=is_copy)

    def _charge(
        self, allowance: Allowance, exchange: tuple[Event, bytes, bytes], parts: _Parts | tuple[()]
    ) -> None:
        event, request, _ = exchange
        allowance.spend_event(event.method)
        if event.method == SYNCHRONIZE:
            allowance.spend_message(kind_of_request(event.method, event.mark), request, -event.id)
            return
        for position, number in enumerate(parts):
            if number is not None and not allowance.spend_again(number):
                kind_of = _KINDS[position]
                kind = kind_of(event.method, event.mark)
                allowance.spend_message(kind, self._objects.get(number)[1], number)

    def request(self, event_id: int) -> bytes:
        """Return the request of an event, serialised deterministically.

        If the event has a mark, the bytes are those on the wire. A message that is too large is
        truncated, with a warning (`element_limits.bounded`). Raises RecordingError, also for a
        missing event.
        """
        event = self.event(event_id)
        parts = {} if event is None else self._parts_of([event])
        if event is None or not parts:
            raise self._no_event(event_id)
        return self._read(
            lambda: self._assembled(event, parts[event_id]), lambda: f"at event {event_id}"
        )

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
            return kind, self._bounded(OBJECT_MESSAGES.get(kind), content)

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

    def state(self, session_id: int) -> InitialState:
        """Return the pods and containers listed by the session's newest Synchronize."""
        rows = self._all(
            optional_numbers_of,
            "SELECT sync_event, synced_ns FROM session WHERE id = ?",
            [session_id],
        )
        first, synced = rows[0] if rows else (None, None)
        if first is None:
            return InitialState((), (), False)
        state = self._read(
            lambda: self._load_state("session = ? AND event >= ?", session_id, first, MAX_STATE),
            lambda: f"in session {session_id}",
        )
        return InitialState(state.pods, state.containers, synced is not None)

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
        if not is_range:
            which = f"id IN {number_list(event.id for event in events)}"

        def read() -> dict[int, _Parts]:
            rows = self._connection.execute(
                "SELECT id, pod_object, container_object, request, reply FROM event "
                f"WHERE {which} ORDER BY id"
            )
            return {
                row[0]: cast("_Parts", optional_numbers_of(row)[1:])
                for row in ascending(rows, (first - 1,))
            }

        return self._read(read, lambda: f"from event {events[0].id} on")

    def _assembled(self, event: Event, parts: _Parts) -> bytes:
        """Return the request of an event."""
        content = self._objects.content
        pod, container, base = content(parts[0]), content(parts[1]), content(parts[2]) or b""
        if len(base) > UNCUT_BYTES:
            base = self._bounded(kind_of_request(event.method, event.mark), base)
        if not has_parts(event):
            return base
        pod = pod and self._bounded(PodSandbox, pod)
        container = container and self._bounded(ContainerMessage, container)
        if event.method == SYNCHRONIZE:
            state = self._load_state(
                "session = ? AND event = ?", event.session, event.id, MAX_REQUEST
            )
            return event_messages.synchronize(base, state.pods, state.containers)
        # All connections of a round have the same request, unless a plugin changed it.
        key = event.method, base, pod, container
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
        short = self._kept.get((kind, content))
        if short is None:
            short = bounded(kind, content)
            self._kept.put((kind, content), short, len(content))
        if len(short) != len(content):
            most = f"{MAX_ELEMENTS:,} elements or {MAX_STRINGS >> 20} MiB of text"
            self._warn(f"a message in it has more than {most}")
        return short

    def _warn(self, problem: str) -> None:
        warnings.warn(RecordingCut(f"{self.path}: {problem}; the rest is not read"), stacklevel=2)

    def _load_state(self, condition: str, session: int, event: int, limit: int) -> InitialState:
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
            content = self._bounded(OBJECT_MESSAGES.get(kind), content)
            elements.count(OBJECT_MESSAGES.get(kind), content)
            if elements.left < 0:
                self._warn(
                    f"the state in Synchronize has more than {MAX_STATE_ELEMENTS:,} elements"
                )
                return InitialState(tuple(pods), tuple(containers), False)
            (pods if kind == ObjectKind.POD else containers).append(content)
        return InitialState(tuple(pods), tuple(containers), True)

    def _no_event(self, event_id: int) -> RecordingError:
        return RecordingError(self.path, f"it has no event {event_id}", "`log` shows what it has")
