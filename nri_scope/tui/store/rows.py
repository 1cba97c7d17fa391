# SPDX-License-Identifier: Apache-2.0
"""Rows of the list of events: the text of each column, safe to show."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from nri_scope.entries import Began, Ended
from nri_scope.errors import RecordingError
from nri_scope.events import SET_UP, Container, Event, Gap, Pod, Problem, Session, Status, is_set_up
from nri_scope.nri.events import VALIDATE
from nri_scope.nri.request_subject import UNKNOWN
from nri_scope.recording import display
from nri_scope.recording.query.event_pages import events_of
from nri_scope.recording.reading.records import deadline_ms
from nri_scope.specs import label
from nri_scope.text.escape import safe
from nri_scope.text.quantities import clock, duration, response_time

from .markers import ConnectionMarker, DamageMarker, EntryMarker, RowKey, RowMarker, ViewEntry

if TYPE_CHECKING:
    from nri_scope.differ.operations import Operation
    from nri_scope.recording.reading.reader import Recording
    from nri_scope.text.styled_text import StyledLine


class RowKind(StrEnum):
    """The kind of a row."""

    EVENT = "event"
    GAP = "gap"
    BEGAN = "began"
    """A session began."""
    ENDED = "ended"
    """A session ended."""
    DAMAGED = "damaged"
    """An event, or everything after this row, cannot be read."""
    GONE = "gone"
    """An event that has been removed, for example by a ring."""
    LINE = "line"
    """A line of another view without an event; only the detail pane shows it."""


class RowStyle(StrEnum):
    """The style of a row; themes define its look."""

    PLAIN = "plain"
    CHANGED = "changed"
    SLOW = "slow"
    """Took more than half of the deadline."""
    TIMEOUT = "timeout"
    ERROR = "error"
    ODD = "odd"
    """Malformed, or of an unknown method."""
    GAP = "gap"
    SESSION = "session"
    DAMAGED = "damaged"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class ListColumn:
    """One column of the list."""

    name: str
    title: str
    short: str = ""
    """Title for a narrow column; "" if the title always fits."""
    right: bool = False
    """Whether it is aligned to the right."""
    dim: bool = False
    """Whether its cells are drawn dim."""
    of_one_event: bool = False
    """Whether no single event has the value that an operation shows."""


COLUMNS: tuple[ListColumn, ...] = (
    ListColumn("id", "#", right=True, dim=True),
    ListColumn("time", "Time", dim=True),
    ListColumn("delta", "Delta", right=True, dim=True),
    ListColumn("elapsed", "Elapsed", right=True, dim=True),
    ListColumn("event", "Event"),
    ListColumn("subject", "Pod/container"),
    ListColumn("changed", "Changed", "Δ"),
    ListColumn("plugin", "Plugin", "Pl", of_one_event=True),
    ListColumn("took", "Took", right=True, of_one_event=True),
    ListColumn("deadline", "Of", right=True, dim=True),
    ListColumn("status", "Status"),
)
"""Columns in the order of `ListRow.cells`. "time" is the local time of day, "delta" counts from the
event before in the view, "elapsed" from the recording's first event."""
POSITION: dict[str, int] = {column.name: at for at, column in enumerate(COLUMNS)}


@dataclass(frozen=True, slots=True)
class ListRow:
    """One row. All texts have passed `escape.safe`, and are cut to a few hundred columns."""

    kind: RowKind
    key: RowKey
    """Position in the order of all rows; also the row's identity."""
    cells: tuple[str, ...]
    """One text for each of `COLUMNS`; at most id and time if the row is not an event."""
    text: str
    """Text shown instead of the cells if the row is not an event."""
    style: RowStyle
    event: Event | None = None
    gap: Gap | None = None
    session: Session | None = None
    marked: bool = False
    events: tuple[Event, ...] = ()
    """All events of an operation of several events; ``event`` is a summary of them."""
    slowest: str = ""
    """The longest time of that operation, and whose it was; "" if none was observed in a chain."""
    summary: Callable[[Recording, int], Iterable[StyledLine]] | None = None
    """Reads the lines of the Summary tab, laid out for a width; only for places in the chain."""
    subject: Pod | Container | None = None
    """The pod or container of a line of the tree or the timeline."""

    @property
    def event_id(self) -> int | None:
        """The event's number; None if the row is not an event."""
        return self.event.id if self.event is not None else None

    def cell(self, name: str) -> str:
        """Return the cell of a column by name."""
        return self.cells[POSITION[name]]

    def mark(self, marked: bool) -> ListRow:
        """Return the row with its mark set or removed."""
        return self if marked == self.marked else replace(self, marked=marked)


SLOW_BEFORE = "↑slow"
"""Status of an event that arrived late: plugins before this connection were slow."""
FAILED_AFTER = "↓failed"
"""Status of an event that was answered, and whose operation failed later."""
OPEN, CLOSED = "▾", "▸"
"""Signs of operations, with and without rows for their events."""
_WIDTH = 200
"""Maximum columns of a text; Kubernetes names have at most 253 characters."""
_WORDS_WIDTH = 400
_JOINED_OWNERS = 10
"""Maximum number of owners in the cell of an operation."""
_MAX_OWNERS = 2
"""Maximum number of owners listed by name."""
_PATH_WIDTH = 60


def event_row(event: Event, first_ns: int, before_ns: int | None = None) -> ListRow:
    """Return the row of an event.

    ``first_ns``: time of the recording's first event; ``before_ns``: of the event before in the
    view, None if there is none.
    """
    cells = (
        str(event.id),
        clock(event.at_ns),
        "" if before_ns is None else _elapsed(event.at_ns - before_ns),
        _elapsed(event.at_ns - first_ns),
        _cut(event.event, 64),
        _subject(event),
        changed_in_short(event),
        _cut(event.plugin, 64),
        response_time(max(0, event.took_ns)),
        _deadline(event.timeout_ns),
        _status(event),
    )
    return ListRow(RowKind.EVENT, RowKey.of_event(event.id), cells, "", _style(event), event=event)


def operation_row(
    operation: Operation, first_ns: int, before_ns: int | None = None, *, is_open: bool
) -> ListRow:
    """Return the row of an operation of several events; see `event_row`."""
    row = event_row(operation.summary(), first_ns, before_ns)
    owners = operation.summary().main_owners[:_JOINED_OWNERS]
    names = {
        "event": f"{OPEN if is_open else CLOSED} {row.cell('event')}",
        "plugin": ", ".join(_cut(owner, 64) for owner in owners),
    }
    slowest = _cut(operation.slowest_words, 64)
    if is_set_up(operation.events):
        slowest = ""
        names |= {
            "event": f"{OPEN if is_open else CLOSED} session {operation.first.session}",
            "subject": row.cell("plugin"),
            "plugin": row.cell("plugin"),
        }
    if row.cell("status") in (SLOW_BEFORE, FAILED_AFTER):
        names["status"] = operation.summary().problem
    return replace(row, cells=_with(row, names), events=operation.events, slowest=slowest)


def connection_row(event: Event, first_ns: int) -> ListRow:
    """Return the row of what one connection saw of an operation, below the operation's row."""
    shown = replace(event, problem="") if _is_failed_later(event) else event
    row = replace(event_row(shown, first_ns), event=event)
    names = {"event": f"  {row.cell('plugin')}", "subject": "", "plugin": ""}
    if event.method in SET_UP:
        names["event"] = f"  {row.cell('event')}"
    elif event.event == VALIDATE:
        names["event"] += " validates"
    key = RowKey.of_connection(event.id)
    return replace(row, key=key, cells=_with(row, names))


def _with(row: ListRow, cells: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(
        cells.get(column.name, cell) for column, cell in zip(COLUMNS, row.cells, strict=True)
    )


def marker_row(marker: EntryMarker | DamageMarker) -> ListRow:
    """Return the row of a gap, a session or damage."""
    key, text = marker.key, marker_text(marker)
    if isinstance(marker, DamageMarker):
        return ListRow(RowKind.DAMAGED, key, _NO_CELLS, text, RowStyle.DAMAGED)
    match marker.entry:
        case Gap() as gap:
            cells = _only_time(gap.from_ns)
            return ListRow(RowKind.GAP, key, cells, text, RowStyle.GAP, gap=gap)
        case Began(session):
            cells = _only_time(session.started_ns)
            return ListRow(RowKind.BEGAN, key, cells, text, RowStyle.SESSION, session=session)
        case Ended(session):
            cells = _only_time(session.ended_ns or 0)
            return ListRow(RowKind.ENDED, key, cells, text, RowStyle.SESSION, session=session)


def marker_text(marker: RowMarker) -> str:
    """Return the text of a marker's row."""
    if isinstance(marker, DamageMarker):
        return f"the recording cannot be read from here on: {_words(marker.words)}"
    if isinstance(marker, ConnectionMarker):
        return ""
    match marker.entry:
        case Gap() as gap:
            session = f", session {gap.session}" if gap.session is not None else ""
            lost = "unknown" if gap.lost is None else f"{gap.lost:,}"
            length = duration(max(0, gap.to_ns - gap.from_ns))
            if gap.is_left_out:
                return f"events left out of this part of the recording, in {length}: {lost}"
            return f"gap of {length}, events lost: {lost}{session} ({_words(gap.reason)})"
        case Began(session):
            who = _cut(session.plugin, _WIDTH)
            return _words(f"session {session.id}: {who} on {display.runtime(session)}")
        case Ended(session):
            why = f": {_words(session.end_reason)}" if session.end_reason else ""
            return f"session {session.id} ended{why}"


def damaged_row(event_id: int, words: str) -> ListRow:
    """Return the row of an event that cannot be read."""
    text = f"event {event_id} cannot be read: {_words(words)}"
    cells = (str(event_id), *_NO_CELLS[1:])
    return ListRow(RowKind.DAMAGED, RowKey.of_event(event_id), cells, text, RowStyle.DAMAGED)


def gone_row(event_id: int) -> ListRow:
    """Return the row of an event that no longer exists."""
    text = f"event {event_id} was removed from the recording"
    cells = (str(event_id), *_NO_CELLS[1:])
    return ListRow(RowKind.GONE, RowKey.of_event(event_id), cells, text, RowStyle.GONE)


def changed_in_short(event: Event) -> str:
    """Summarise an event's changes: ``env FOO, 3 more by 30-x``; "" if it has no requests.

    Requests that no evidence shows as changes begin with a sign: ``? env FOO``. Those for another
    container name it.
    """
    if not event.changed:
        return ""
    return f"{first_change(event)}{more_changes(event)}{_by(event.main_owners)}"


def first_change(event: Event) -> str:
    """Return the first of an event's changes, or of its requests with a sign."""
    target = event.targets[0].rpartition("/")[2] if event.targets else ""
    of = f" of {_cut(target, 64)}" if target else ""
    return f"{display.outcome_sign(event)} {path_in_short(event.changed[0])}{of}".lstrip()


def more_changes(event: Event) -> str:
    """Return the number of an event's other changes, or of other requests, as a suffix."""
    return f", {event.count - 1:,} more" if event.count > 1 else ""


def path_in_short(path: str) -> str:
    """Return the label of an OCI path, cut to the width of a cell."""
    return _cut(label(path[: 4 * _WIDTH]), _PATH_WIDTH)


_NO_CELLS = ("",) * len(COLUMNS)
NO_KEY = RowKey(0, 0)
"""Key of rows that only the detail pane shows."""


def _by(owners: tuple[str, ...]) -> str:
    if not owners:
        return ""
    named = ", ".join(_cut(owner, 64) for owner in owners[:_MAX_OWNERS])
    more = f" and {len(owners) - _MAX_OWNERS:,} more" if len(owners) > _MAX_OWNERS else ""
    return f" by {named}{more}"


def _subject(event: Event) -> str:
    names = (event.namespace, event.pod, event.container, event.pod_id, event.container_id)
    if max(map(len, names)) > _WIDTH:
        namespace, pod, container, pod_id, container_id = (_cut(name, _WIDTH) for name in names)
        event = replace(
            event,
            namespace=namespace,
            pod=pod,
            container=container,
            pod_id=pod_id,
            container_id=container_id,
        )
    return safe(display.subject(event), 3 * _WIDTH)


def _style(event: Event) -> RowStyle:
    if event.status == Status.TIMEOUT:
        return RowStyle.TIMEOUT
    if event.problem == Problem.FAILED and not event.is_sent_again:
        return RowStyle.ERROR
    if event.mark:
        return RowStyle.ODD
    if event.problem == Problem.SLOW:
        return RowStyle.SLOW
    return RowStyle.CHANGED if event.changes else RowStyle.PLAIN


def _status(event: Event) -> str:
    if event.is_sent_again:
        return "sent again"
    if event.mark and event.status == Status.OK:
        return "unknown call" if event.mark == UNKNOWN else _cut(event.mark, 16)
    if _is_failed_later(event):
        return FAILED_AFTER
    if event.status == Status.OK and event.problem:
        is_own = event.timeout_ns > 0 and 2 * event.took_ns > event.timeout_ns
        return SLOW_BEFORE if event.problem == Problem.SLOW and not is_own else event.problem
    return _cut(event.status, 16)


def _is_failed_later(event: Event) -> bool:
    return event.status == Status.OK and event.problem == Problem.FAILED


def _deadline(timeout_ns: int) -> str:
    milliseconds = deadline_ms(timeout_ns) if timeout_ns > 0 else None
    if milliseconds is None:
        return ""
    seconds, rest = divmod(milliseconds, 1000)
    if not rest and seconds < 60:
        return f"{seconds}s"
    return re.sub(r"(?<=[mh])00[ms]$", "", duration(milliseconds * 1_000_000))


def _elapsed(ns: int) -> str:
    return f"-{duration(-ns)}" if ns < 0 else f"+{duration(ns)}"


def _only_time(at_ns: int) -> tuple[str, ...]:
    return ("", clock(at_ns), *_NO_CELLS[2:])


def _words(text: str) -> str:
    return _cut(text, _WORDS_WIDTH)


def line_row(
    title: str,
    *,
    summary: Callable[[Recording, int], Iterable[StyledLine]] | None = None,
    subject: Pod | Container | None = None,
) -> ListRow:
    """Return the row of a line without an event, for the detail pane."""
    row = ListRow(RowKind.LINE, NO_KEY, _NO_CELLS, _words(title), RowStyle.PLAIN)
    return replace(row, summary=summary, subject=subject)


def _cut(text: str, width: int) -> str:
    return safe(_raw(text, width), width)


def _raw(text: str, width: int) -> str:
    # Enough for the visible part and the sign of a cut: a character has at most three combining
    # marks.
    return text[: 4 * width + 4]


@dataclass(frozen=True, slots=True)
class RowPage:
    """Rows to be read."""

    entries: Sequence[ViewEntry]
    events: Mapping[int, Sequence[int]]
    """The events of each operation among the entries, and of each single event."""
    open: set[int]
    """The operations whose events have rows of their own."""
    before: int | None
    """The event or operation before the entries; None if there is none."""
    first_ns: int
    sessions: Mapping[int, Session]

    def read(self, recording: Recording) -> list[ListRow]:
        """Read them. Raises RecordingError."""
        numbers = {number for group in self.events.values() for number in group}
        numbers |= {entry.event for entry in self.entries if isinstance(entry, ConnectionMarker)}
        numbers |= set() if self.before is None else {self.before}
        found = events_of(recording, sorted(numbers))
        rows: list[ListRow] = []
        before = self.before
        for entry in self.entries:
            previous = found.get(before) if before is not None else None
            before_ns = previous.at_ns if isinstance(previous, Event) else None
            rows.append(self._row(entry, found, before_ns))
            before = entry if isinstance(entry, int) else before
        return rows

    def _row(
        self, entry: ViewEntry, loaded: Mapping[int, Event | RecordingError], before_ns: int | None
    ) -> ListRow:
        if isinstance(entry, ConnectionMarker):
            event = loaded.get(entry.event)
            if isinstance(event, Event):
                return connection_row(event, self.first_ns)
            return replace(self._unread(entry.event, event), key=entry.key)
        if not isinstance(entry, int):
            return marker_row(entry)
        event = loaded.get(entry)
        if not isinstance(event, Event):
            return self._unread(entry, event)
        numbers = self.events[entry]
        if len(numbers) == 1:
            return event_row(event, self.first_ns, before_ns)
        from nri_scope.differ.operations import Operation

        events = [event for number in numbers if isinstance(event := loaded.get(number), Event)]
        operation = Operation.of(events, self.sessions)
        return operation_row(operation, self.first_ns, before_ns, is_open=entry in self.open)

    def _unread(self, number: int, error: RecordingError | None) -> ListRow:
        return gone_row(number) if error is None else damaged_row(number, error.problem)
