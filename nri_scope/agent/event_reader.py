# SPDX-License-Identifier: Apache-2.0
"""Read events of all recordings of a node, for one call of GetEvents.

What was recorded before the call is copied to a temporary part first if it must be redacted or
needs its context: a part is redacted in two passes, the first of which finds all secrets. Events
that are recorded later are redacted as `record --redact` does.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from time import time_ns
from typing import NamedTuple

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.errors import RecordingError, UsageError
from nri_scope.events import RING_REMOVED, Event, Gap
from nri_scope.filter import Filter
from nri_scope.filter.moments import interval
from nri_scope.recording.event_times import time_span, within
from nri_scope.recording.log_rows import Log
from nri_scope.recording.lookup import event_range
from nri_scope.recording.reader import Recording
from nri_scope.recording.tap_tables import tapped
from nri_scope.recording.temporary_files import temporary_folder, writing_to
from nri_scope.recording.timeline import Began, Ended, Item, time_of
from nri_scope.share.extract import Selection, extract
from nri_scope.share.extract.exchanges import Stopped, exchanges
from nri_scope.share.extract.first_pass import learn
from nri_scope.share.extract.selected_events import choose
from nri_scope.share.extract.sources import IncludedRows
from nri_scope.share.redaction import Redactor

from .cursor import Position, format_cursor
from .event_messages import event_message, response_of
from .event_redaction import redacted_exchange, redacted_item, redacted_metadata
from .node_recordings import NodeRecording, NodeRecordings

BATCH = 256
"""Maximum number of responses of one batch."""
BATCH_BYTES = 1 << 20
"""Bytes of requests and replies after which a batch ends."""
OVERRUN = "older events were removed from the recording before they could be sent"
"""Reason of a gap in a stream whose receiver is slower than the recorder's ring."""
REMOVED = "the recording was removed from the node before its events could be sent"
"""Reason of a gap in a resumed stream."""
_TOGETHER = 64
"""Number of events whose messages are read together."""


@dataclass(frozen=True, slots=True)
class EventQuery:
    """What a client asks for, as in GetEventsRequest."""

    where: Filter | None = None
    since: str = ""
    until: str = ""
    last: int = 0
    follow: bool = False
    after: dict[str, Position] = field(default_factory=dict[str, Position])
    context: bool = False


class _Timed(NamedTuple):
    """A response in the order of its time, and then of its creation."""

    at_ns: int
    number: int
    response: v1.GetEventsResponse


class EventReader:
    """Reader for one call. Use it in one thread, apart from `interrupt`."""

    def __init__(
        self, recordings: NodeRecordings, query: EventQuery, redactor: Redactor | None
    ) -> None:
        """Without ``redactor``, events are sent as recorded."""
        self._recordings = recordings
        self._query = query
        self._redactor = redactor
        self._positions = dict(query.after)
        self._logs: dict[str, tuple[Recording, Log]] = {}
        """Recordings that are followed, by name."""
        self._stack = ExitStack()
        self._stopped = False
        self._numbers = count()
        self._responses = self._all()

    def close(self) -> None:
        """Close all files."""
        self._responses = iter(())
        self._stack.close()
        for recording, _ in self._logs.values():
            recording.close()

    def interrupt(self) -> None:
        """Let `batch` return soon; may be called in any thread."""
        self._stopped = True

    def cursor(self) -> str:
        """Return the position after everything that `batch` has returned."""
        return format_cursor(self._positions)

    def batch(self) -> tuple[list[v1.GetEventsResponse], bool]:
        """Return the next responses, and whether there are no more for now.

        Raises UsageError and RecordingError.
        """
        found: list[v1.GetEventsResponse] = []
        size = 0
        for response in self._responses:
            if response is None or self._stopped:
                return found, True
            event = response.event
            if event is not None:
                self._positions[event.recording] = Position(event.id, event.at_ns)
                size += len(event.request) + len(event.reply)
            response.cursor = self.cursor()
            found.append(response)
            if len(found) >= BATCH or size >= BATCH_BYTES:
                return found, False
        return found, True

    def _all(self) -> Iterator[v1.GetEventsResponse | None]:
        """Yield the responses; None where there are no more for now."""
        files = self._recordings.all()
        yield from self._removed(files)
        new = [one for one in files if one.name not in self._positions]
        for one in files:
            if one not in new:
                self._open(one, learns=True)
        yield from self._later()
        yield from self._earlier(new)
        if not self._query.follow:
            return
        for one in new:
            self._open(one, learns=False)
        while True:
            yield None
            self._find_files()
            yield from self._later()

    # -- what was recorded before the call ------------------------------------------------------

    def _removed(self, files: Sequence[NodeRecording]) -> Iterator[v1.GetEventsResponse]:
        for name in self._positions.keys() - {one.name for one in files}:
            at_ns = self._positions.pop(name).at_ns
            yield response_of(name, Gap(0, None, at_ns, time_ns(), REMOVED, None))

    def _earlier(self, files: Sequence[NodeRecording]) -> Iterator[v1.GetEventsResponse]:
        until: dict[str, Position] = {}
        parts: list[Iterator[_Timed]] = []
        wanted = self._query.last
        for file in reversed(files):
            recording = self._stack.enter_context(Recording.open(file.path))
            until[file.name] = _newest(recording)
            selection = self._selection(recording)
            if self._query.last:
                if wanted <= 0:
                    self._positions[file.name] = until[file.name]
                    continue
                numbers = _newest_numbers(recording, selection, wanted)
                wanted -= len(numbers)
                selection = Selection(numbers=numbers)
            part = self._part(file, recording, selection)
            if part is not None:
                parts.append(self._timed(file.name, *part))
        yield from (one.response for one in heapq.merge(*reversed(parts)))
        self._positions |= until

    def _part(
        self, file: NodeRecording, recording: Recording, selection: Selection
    ) -> tuple[Recording, Iterator[Item]] | None:
        """Return the selected part of a recording and its items; None if nothing is selected."""
        numbers: Sequence[int] | None = selection.numbers
        if not selection.is_all:
            try:
                numbers = choose(recording, selection, _ignore_progress).events
            except UsageError:
                return None
            selection = Selection(numbers=numbers)
        folder = self._stack.enter_context(temporary_folder())
        part = folder / f"{file.name}.db"
        with writing_to(folder):
            extract(recording, part, selection, change=self._redactor, marks=())
        copied = self._stack.enter_context(Recording.open(part))
        items = Log(copied, printed=True).read()
        if self._query.context or numbers is None:
            return copied, items
        chosen = set(numbers)
        return copied, (one for one in items if _is_selected(one, chosen))

    def _selection(self, recording: Recording) -> Selection:
        query = self._query
        since_ns, until_ns = interval(query.since, query.until, time_span(recording))
        return Selection(where=within(recording, query.where), since_ns=since_ns, until_ns=until_ns)

    # -- what is recorded later -----------------------------------------------------------------

    def _open(self, file: NodeRecording, *, learns: bool) -> None:
        """Read a recording from its position on.

        ``learns``: whether to learn the secrets of earlier events first, which another call sent.
        """
        recording = Recording.open(file.path)
        try:
            selection = self._selection(recording)
            if learns and self._redactor is not None:
                until = IncludedRows(until=_newest(recording).event)
                learn(recording, until, self._redactor, _ignore_progress, marks=())
            log = Log(
                recording,
                where=selection.where,
                since_ns=selection.since_ns,
                until_ns=selection.until_ns,
                printed=True,
                after=self._positions.setdefault(file.name, Position(0, 0)),
            )
        except BaseException:
            recording.close()
            raise
        self._logs[file.name] = recording, log

    def _find_files(self) -> None:
        """Open new recordings, and close those that were removed."""
        files = {one.name: one for one in self._recordings.all()}
        for name in self._logs.keys() - files.keys():
            self._logs.pop(name)[0].close()
            self._positions.pop(name)
        for name in files.keys() - self._logs.keys():
            try:
                self._open(files[name], learns=False)
            except RecordingError:
                # It is just being created, and can be opened next time.
                self._positions.pop(name, None)

    def _later(self) -> Iterator[v1.GetEventsResponse]:
        changed = [name for name, (_, log) in self._logs.items() if log.has_new_rows()]
        until = {name: _newest(self._logs[name][0]) for name in changed}
        yield from (one.response for one in heapq.merge(*map(self._read_on, changed)))
        for name, position in until.items():
            self._positions[name] = max(self._positions[name], position)

    def _read_on(self, name: str) -> Iterator[_Timed]:
        recording, log = self._logs[name]
        oldest, _ = event_range(recording)
        position = self._positions[name]
        if position.event and oldest > position.event + 1:
            to_ns = _time_of_event(recording, oldest)
            lost = oldest - position.event - 1
            yield self._other(name, Gap(0, None, position.at_ns, to_ns, OVERRUN, lost))
        items = (
            one for one in log.read() if not (isinstance(one, Gap) and one.reason == RING_REMOVED)
        )
        yield from self._timed(name, recording, items, self._redactor)

    # -- responses ------------------------------------------------------------------------------

    def _timed(
        self,
        name: str,
        recording: Recording,
        items: Iterable[Item],
        redactor: Redactor | None = None,
    ) -> Iterator[_Timed]:
        """Yield the responses for items; ``redactor``: for those that are not redacted yet."""
        waiting: list[Item] = []
        events = 0
        for item in items:
            waiting.append(item)
            events += isinstance(item, Event)
            if events >= _TOGETHER:
                yield from self._with_messages(name, recording, waiting, redactor)
                waiting, events = [], 0
        yield from self._with_messages(name, recording, waiting, redactor)

    def _with_messages(
        self, name: str, recording: Recording, items: Sequence[Item], redactor: Redactor | None
    ) -> Iterator[_Timed]:
        numbers = [item.id for item in items if isinstance(item, Event)]
        try:
            pages = list(exchanges(recording, numbers, until=max(numbers, default=0)))
        except Stopped as stopped:
            raise stopped.cause from stopped
        found = {one.event.id: one for page in pages for one in page}
        taps = {one.event: one for one in tapped(recording, numbers)}
        for item in items:
            if not isinstance(item, Event):
                yield self._other(name, item if redactor is None else redacted_item(redactor, item))
            elif (one := found.get(item.id)) is not None:
                # An event that is not found was removed meanwhile.
                tap = taps.get(item.id)
                if redactor is not None:
                    one = redacted_exchange(redactor, one)
                    tap = None if tap is None else redacted_metadata(redactor, tap)
                message = event_message(name, one, tap)
                response = v1.GetEventsResponse(event=message)
                yield _Timed(item.at_ns, next(self._numbers), response)

    def _other(self, name: str, item: Item) -> _Timed:
        match item:
            case Began(session):
                at_ns = session.started_ns
            case Ended(session):
                at_ns = session.ended_ns or session.started_ns
            case _:
                at_ns = time_of(item)
        return _Timed(at_ns, next(self._numbers), response_of(name, item))


def _is_selected(item: Item, events: Set[int]) -> bool:
    """Return whether an item of a part is no context, and no gap that stands for other events."""
    if isinstance(item, Event):
        return item.id in events
    return not (isinstance(item, Gap) and item.is_left_out)


def _newest(recording: Recording) -> Position:
    _, newest = event_range(recording)
    return Position(newest, _time_of_event(recording, newest))


def _time_of_event(recording: Recording, number: int) -> int:
    event = recording.event(number) if number else None
    return 0 if event is None else event.at_ns


def _newest_numbers(recording: Recording, selection: Selection, last: int) -> list[int]:
    return [
        event.id
        for event in recording.events(
            where=selection.where,
            since_ns=selection.since_ns,
            until_ns=selection.until_ns,
            last=last,
        )
    ]


def _ignore_progress(_: float) -> None:
    """Ignore progress."""
