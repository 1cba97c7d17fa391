# SPDX-License-Identifier: Apache-2.0
"""Read a recording, or a part of it, as entries."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from google.protobuf.message import DecodeError

from nri_scope._gen.nri.api_pb2 import SynchronizeRequest
from nri_scope.entries import CallsByMetrics, EarlierState, RecordedCall, SubjectKeys
from nri_scope.errors import RecordingError
from nri_scope.events import Container, Pod, Printed, Session
from nri_scope.nri.events import SYNCHRONIZE

from ..file.blobs import ObjectKind
from ..file.schema_check import repair_hint
from ..file.sqlite_text import number_list
from .event_messages import synchronize
from .plugin_calls import plugin_calls
from .reader import MAX_REQUEST, Recording
from .row_pages import CHUNK, Numbers, chunks, is_among, pages
from .rows import RowError, number_of, optional_numbers_of
from .sqlite_errors import recording_errors
from .tap_tables import printed, tapped
from .work_budget import Allowance

_PAGE_BYTES = 8 << 20
"""Number of bytes of messages after which a page is yielded, even if it has few events."""
BUDGET_FACTOR = 9
"""Factor for the usual decoding budget (see `Recording.allowance`): copies must be complete."""


@dataclass(slots=True)
class IncludedRows:
    """Rows of a recording, by number. None instead of a collection means all rows."""

    until: int
    """The last event that was examined; later events are unknown."""
    chosen: Sequence[int] | None = None
    """Numbers of the chosen events, ascending like `kept`."""
    kept: Sequence[int] | None = None
    """Numbers of the chosen events and their context."""
    sessions: Collection[int] | None = None
    pods: Collection[int] | None = None
    containers: Collection[int] | None = None
    whole_states: Sequence[int] = field(default_factory=lambda: array("q"))
    """Chosen Synchronize requests, whose whole state is copied."""
    damage: RecordingError | None = None
    """The reason why `until` is not the last event."""
    only_subjects: bool = False
    """Whether entries that may be about other pods than those of the part are left out."""

    def is_chosen(self, event: int) -> bool:
        """Return whether a kept event was chosen; otherwise it is context."""
        return self.chosen is None or is_among(self.chosen, event)

    def is_kept(self, event: int) -> bool:
        """Return whether the part has this event."""
        return event <= self.until and (self.kept is None or is_among(self.kept, event))

    def has_session(self, session: int | None) -> bool:
        """Return whether the part has a row's session; True for a row without one."""
        return session is None or self.sessions is None or session in self.sessions

    def has_whole_state(self, event: int) -> bool:
        """Return whether the part has all pods and containers of a Synchronize request."""
        return self.pods is None or self.containers is None or is_among(self.whole_states, event)

    def stop(self, before: int, damage: RecordingError) -> None:
        """Exclude a damaged event and all later ones."""
        self.until = min(self.until, before - 1)
        self.damage = self.damage or damage


class Stopped(Exception):
    """Signal that an event of the original is unreadable; all earlier events were yielded."""

    def __init__(self, event: int, cause: RecordingError) -> None:
        super().__init__(event, cause)
        self.event = event
        self.cause = cause


def exchanges(
    source: Recording,
    part: IncludedRows,
    *,
    after: int = 0,
    together: int = CHUNK,
) -> Iterator[list[RecordedCall]]:
    """Yield the kept events of a part ``after`` a number, in pages of at most ``together``.

    Raises Stopped.
    """
    allowance = source.allowance(BUDGET_FACTOR, is_copy=True)
    every = (
        _numbers_of(source, until=part.until, after=after, together=together)
        if part.kept is None
        else chunks(part.kept)
    )
    while True:
        try:
            page = next(every, None)
        except RecordingError as error:
            raise Stopped(after + 1, error) from error
        if page is None or page[0] > part.until:
            return
        some = [number for number in page if number <= part.until]
        after = some[-1]
        try:
            for readable in _paged(source, some, part, allowance):
                some = [number for number in some if number > readable[-1].event.id]
                yield readable
        except RecordingError:
            for number in some:
                try:
                    yield from _paged(source, [number], part, allowance)
                except RecordingError as error:
                    raise Stopped(number, error) from error


def _numbers_of(
    source: Recording, *, until: int, after: int, together: int
) -> Iterator[Sequence[int]]:
    query = "SELECT id FROM event WHERE id <= ? AND id > ? ORDER BY id LIMIT ?"
    for page in pages(source, query, until, after=after, until=until, size=together):
        yield [number for (number,) in page if number is not None]


def _paged(
    source: Recording, numbers: Sequence[int], part: IncludedRows, allowance: Allowance
) -> Iterator[list[RecordedCall]]:
    page: list[RecordedCall] = []
    size = 0
    for exchange in _read(source, numbers, part, allowance):
        page.append(exchange)
        size += len(exchange.request) + len(exchange.reply)
        if size > _PAGE_BYTES:
            yield page
            page, size = [], 0
    if page:
        yield page


def _read(
    source: Recording, numbers: Sequence[int], part: IncludedRows, allowance: Allowance
) -> Iterator[RecordedCall]:
    columns = _columns(source, numbers)
    updated: dict[int, list[int]] = {}
    for container, number in updates_by(source, numbers):
        if part.containers is None or container in part.containers:
            updated.setdefault(number, []).append(container)
    taps = {tap.event: tap for tap in tapped(source, numbers)}
    for event, request, reply in source.exchanges(among=numbers, allowance=allowance):
        service, pod, of_container = columns.get(event.id, ("", None, None))
        if event.method == SYNCHRONIZE and not part.has_whole_state(event.id):
            request = _part_of_state(source, part, event.session, event.id, request)
            if part.only_subjects:
                # Updates of other containers.
                reply, event = b"", replace(event, changed=(), owners=(), outcomes=())
        yield RecordedCall(
            event,
            request,
            reply,
            service,
            taps.get(event.id),
            keys=SubjectKeys(pod, of_container, tuple(updated.get(event.id, ()))),
        )


def _columns(
    source: Recording, numbers: Sequence[int]
) -> dict[int, tuple[str, int | None, int | None]]:
    rows = source.rows(
        "SELECT e.id, e.pod, e.container, coalesce(n.text, '') FROM event AS e "
        f"LEFT JOIN name AS n ON n.id = e.service WHERE e.id IN {number_list(numbers)}"
    )
    columns: dict[int, tuple[str, int | None, int | None]] = {}
    with recording_errors(source):
        for *keys, service in rows:
            number, pod, container = optional_numbers_of(tuple(keys))
            if number is None or not isinstance(service, str):
                raise RowError("an event has values of a wrong type")
            columns[number] = (service, pod, container)
    return columns


def updates_by(source: Recording, events: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield (key of an updated container, event) for the ascending ``events``, ordered by event.

    Raises RecordingError.
    """
    with recording_errors(source):
        for chunk in chunks(events):
            for container, event in source.rows(
                "SELECT container, event FROM effect "
                f"WHERE event IN {number_list(chunk)} ORDER BY event, container"
            ):
                yield number_of((container,)), number_of((event,))


# -- Synchronize -----------------------------------------------------------------------------


def earlier_states(
    source: Recording, part: IncludedRows, session: Session
) -> Iterator[EarlierState]:
    """Yield what a session was sent in Synchronize, as far as the events are not in the part.

    Raises RecordingError.
    """
    query = (
        "SELECT DISTINCT s.event, e.id, n.sync_event, n.synced_ns FROM state AS s "
        "JOIN session AS n ON n.id = s.session LEFT JOIN event AS e ON e.id = s.event "
        "WHERE s.session = ? ORDER BY s.event"
    )
    rows = source.rows(query, (session.id,))
    with recording_errors(source):
        states = [optional_numbers_of(row) for row in rows]
    for number, (event, stored, first, synced_ns) in enumerate(states, 1):
        if event is None or event > part.until or (stored is not None and part.is_kept(event)):
            continue
        content = _part_of_state(source, part, session.id, event, b"")
        is_older = event < (first or 0)
        at_ns = session.started_ns if is_older else synced_ns if number == len(states) else None
        yield EarlierState(session.id, event, at_ns, content)


def _part_of_state(
    source: Recording, part: IncludedRows, session: int, event: int, request: bytes
) -> bytes:
    """Return a Synchronize request with the pods and containers of a part only.

    ``request`` has the other fields. Raises RecordingError.
    """
    contents: dict[ObjectKind, list[bytes]] = {ObjectKind.POD: [], ObjectKind.CONTAINER: []}
    size = 0
    for _, pod, container, number in _state_rows(source, session, event):
        if number is None:
            continue
        if not part.has_whole_state(event):
            pods, containers = part.pods or (), part.containers or ()
            if not (container in containers if container is not None else pod in pods):
                continue
        kind, content = source.object(number)
        size += len(content) + 8
        if size > MAX_REQUEST:
            raise _damaged(source, session, "the Synchronize state is too large")
        target = ObjectKind.POD if kind == ObjectKind.POD else ObjectKind.CONTAINER
        contents[target].append(content)
    pods_sent, containers_sent = contents.values()
    try:
        base = SynchronizeRequest.FromString(request)
        del base.pods[:], base.containers[:]
        whole = synchronize(base.SerializeToString(), pods_sent, containers_sent)
        message = SynchronizeRequest.FromString(whole)
    except (ValueError, DecodeError) as error:
        raise _damaged(source, session, "the Synchronize state cannot be decoded") from error
    if len(message.pods) != len(pods_sent) or len(message.containers) != len(containers_sent):
        raise _damaged(source, session, "the Synchronize state cannot be rewritten")
    return whole


def _state_rows(source: Recording, session: int, event: int) -> Iterator[Numbers]:
    query = (
        "SELECT position, pod, container, object FROM state "
        "WHERE session = ? AND event = ? AND position > ? ORDER BY position LIMIT ?"
    )
    for page in pages(source, query, session, event, after=-1):
        yield from page


def _damaged(source: Recording, session: int, problem: str) -> RecordingError:
    hint = repair_hint(source.path)
    return RecordingError(source.path, f"it is damaged in session {session}: {problem}", hint)


# -- other entries ---------------------------------------------------------------------------


def subjects(source: Recording, part: IncludedRows) -> Iterator[Pod | Container]:
    """Yield the pods and containers of a part. Raises RecordingError."""
    for pod in source.pods():
        if part.pods is None or pod.key in part.pods:
            yield pod
    for container in source.containers():
        if part.containers is None or container.key in part.containers:
            yield container


def calls_by_metrics(source: Recording) -> Iterator[CallsByMetrics]:
    """Yield the calls by the runtime's metrics. Raises RecordingError."""
    calls: dict[tuple[int, int], list[tuple[str, str, int, int, int]]] = {}
    for row in plugin_calls(source):
        calls.setdefault((row.since_ns, row.until_ns), []).append(
            (row.plugin, row.operation, row.counts.calls, row.counts.errors, row.counts.took_ns)
        )
    for (since_ns, until_ns), interval_calls in calls.items():
        yield CallsByMetrics(since_ns, until_ns, tuple(interval_calls))


def printed_in(source: Recording, part: IncludedRows) -> Iterator[Printed]:
    """Yield the part's lines in order. Raises RecordingError.

    A line is assumed to concern the last request to the plugin, so lines after an omitted event are
    omitted, too. Lines before the first event of a session are included.
    """
    if part.only_subjects:
        return
    if part.kept is None and part.damage is None:
        yield from (line for line in printed(source) if part.has_session(line.session))
        return
    newest: dict[int, int] = {}
    events = _NewestEvents(source, newest)
    for line in printed(source):
        if not part.has_session(line.session):
            continue
        events.advance_to(line.at_ns)
        event = newest.get(line.session)
        if event is None or part.is_kept(event):
            yield line


class _NewestEvents:
    """Iteration over events that stores the newest event of each session in ``newest``."""

    def __init__(self, source: Recording, newest: dict[int, int]) -> None:
        self._newest = newest
        self._rows = self._all(source)
        self._next = next(self._rows, None)

    def advance_to(self, at_ns: int) -> None:
        """Process all events up to this time."""
        while self._next is not None:
            number, session, next_ns = self._next
            if next_ns is not None and next_ns > at_ns:
                return
            if number is not None and session is not None:
                self._newest[session] = number
            self._next = next(self._rows, None)

    def _all(self, source: Recording) -> Iterator[Numbers]:
        query = "SELECT id, session, at_ns FROM event WHERE id > ? ORDER BY id LIMIT ?"
        for page in pages(source, query):
            yield from page
