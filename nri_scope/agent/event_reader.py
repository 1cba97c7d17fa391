# SPDX-License-Identifier: Apache-2.0
"""Read events of all recordings of a node, for one call of GetEvents.

What was recorded before the call is copied to a temporary part first: its context is found, and it
is redacted in two passes, the first of which finds all secrets. Events that are recorded later are
redacted as `record --redact` does. A resumed call copies again only if it needs context.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from time import time_ns
from typing import NamedTuple

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.errors import NriScopeError, RecordingError, UsageError
from nri_scope.events import RING_REMOVED, Event, Gap
from nri_scope.filter import Filter
from nri_scope.filter.moments import interval
from nri_scope.recording.event_times import time_span, within
from nri_scope.recording.log_rows import Log
from nri_scope.recording.lookup import event_range
from nri_scope.recording.reader import Recording
from nri_scope.recording.temporary_files import temporary_folder, writing_to
from nri_scope.recording.timeline import Item
from nri_scope.share.extract import Selection, extract
from nri_scope.share.extract.event_numbers import is_among
from nri_scope.share.extract.first_pass import learn
from nri_scope.share.extract.selected_events import choose
from nri_scope.share.extract.sources import IncludedRows
from nri_scope.share.redaction import Redactor

from .cursor import Position, format_cursor
from .event_messages import response_of
from .event_responses import BATCH_BYTES, ResponseMaker, TimedResponse
from .node_recordings import NodeRecording, NodeRecordings

BATCH = 256
"""Maximum number of responses of one batch."""
OVERRUN = "older events were removed from the recording before they could be sent"
"""Reason of a gap in a stream whose receiver is slower than the recorder's ring."""
REMOVED = "the recording was removed from the node before its events could be sent"
"""Reason of a gap in a resumed stream."""
UNREADABLE = "the recording cannot be read"
"""Beginning of the reason of a gap in place of a damaged recording."""


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


class _Followed(NamedTuple):
    """A recording that is read from a position on."""

    file: NodeRecording
    recording: Recording
    log: Log
    is_filtered: bool


class _Interrupted(Exception):
    """The call has ended."""


class EventReader:
    """Reader for one call. Use it in one thread, apart from `interrupt`."""

    def __init__(
        self,
        recordings: NodeRecordings,
        query: EventQuery,
        redactor: Redactor | None,
        copies: threading.Semaphore | None = None,
    ) -> None:
        """Without ``redactor``, events are sent as recorded. ``copies``: limit of temporary parts,
        for all calls.
        """
        self._recordings = recordings
        self._query = query
        self._redactor = redactor
        self._copies = copies or threading.Semaphore()
        self._positions = dict(query.after)
        self._resumed = dict(query.after)
        """Positions of the cursor that are still valid."""
        self._followed: dict[str, _Followed] = {}
        self._unreadable: dict[str, NodeRecording] = {}
        """Recordings that could not be read, as they were then."""
        self._stopped = False
        self._make = ResponseMaker(self._go_on)
        self._responses = self._all()

    def close(self) -> None:
        """Close all files."""
        self._responses.close()
        for one in self._followed.values():
            one.recording.close()

    def interrupt(self) -> None:
        """Let `batch` return soon; may be called in any thread."""
        self._stopped = True

    def cursor(self) -> str:
        """Return the position after everything that `batch` has returned."""
        return format_cursor(self._positions)

    def batch(self) -> tuple[list[v1.GetEventsResponse], bool]:
        """Return the next responses, and whether there are no more for now.

        Raises UsageError if the query does not fit a recording, and NriScopeError if the folder or
        a temporary file cannot be used. A recording that cannot be read is a gap.
        """
        found: list[v1.GetEventsResponse] = []
        size = 0
        with suppress(_Interrupted):
            for response in self._responses:
                if response is None:
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

    def _all(self) -> Generator[v1.GetEventsResponse | None]:
        """Yield the responses; None where there are no more for now."""
        files = self._recordings.all()
        for name in self._positions.keys() - {one.name for one in files}:
            yield self._removed(name)
        for one in files:
            if one.name in self._positions and self._is_replaced(one):
                yield self._removed(one.name)
        new = [one for one in files if one.name not in self._positions]
        for one in files:
            if one not in new and not self._query.context:
                yield from self._open(one, learns=True)
        yield from self._later()
        yield from self._earlier(files if self._query.context else new)
        if not self._query.follow:
            return
        while True:
            yield None
            yield from self._find_files()
            yield from self._later()

    # -- what was recorded before the call ------------------------------------------------------

    def _earlier(self, files: Sequence[NodeRecording]) -> Iterator[v1.GetEventsResponse]:
        until: dict[str, Position] = {}
        learned: set[str] = set()
        # A resumed call gets all events of recordings that are new since.
        wanted = 0 if self._query.after else self._query.last
        is_over = False
        with ExitStack() as stack:
            if files:
                stack.enter_context(self._copying())
            parts: list[Iterator[TimedResponse]] = []
            for file in reversed(files):
                position = self._positions.get(file.name, Position(0, 0))
                try:
                    recording = stack.enter_context(Recording.open(file.path))
                    until[file.name] = max(position, _newest(recording))
                    selection = self._selection(recording)
                    if is_over:
                        position = until[file.name]
                    elif wanted:
                        numbers = _newest_numbers(recording, selection, wanted)
                        is_over = len(numbers) >= wanted
                        wanted -= len(numbers)
                        first = numbers[0] - 1 if numbers else until[file.name].event
                        position = Position(first, _time_of_event(recording, first))
                        selection = Selection(numbers=numbers)
                    self._positions[file.name] = position
                    if position == until[file.name]:
                        continue
                    part = self._part(stack, file, recording, selection)
                    if part is not None:
                        learned.add(file.name)
                        parts.append(self._guarded(file, part))
                except RecordingError as error:
                    yield self._unread(file, error.problem).response
            for one in heapq.merge(*reversed(parts)):
                yield one.response
        # Those that could not be read begin again after a resumption.
        self._positions |= {name: at for name, at in until.items() if name not in self._unreadable}
        if self._query.follow:
            for file in files:
                if file.name not in self._unreadable:
                    yield from self._open(file, learns=file.name not in learned)

    @contextmanager
    def _copying(self) -> Iterator[None]:
        """Wait until not too many calls make temporary parts."""
        while not self._copies.acquire(timeout=0.2):
            self._go_on()
        try:
            yield
        finally:
            self._copies.release()

    def _go_on(self, _: float = 0) -> None:
        if self._stopped:
            raise _Interrupted

    def _part(
        self, stack: ExitStack, file: NodeRecording, recording: Recording, selection: Selection
    ) -> Iterator[TimedResponse] | None:
        """Copy the selected part of a recording; return its responses, None if there are none."""
        numbers: Sequence[int] | None = selection.numbers
        if not selection.is_all:
            try:
                numbers = choose(recording, selection, self._go_on).events
            except UsageError:
                return None
            selection = Selection(numbers=numbers)
        folder = stack.enter_context(temporary_folder())
        path = folder / f"{file.name}.db"
        try:
            with writing_to(folder):
                extracted = extract(
                    recording,
                    path,
                    selection,
                    change=self._redactor,
                    marks=(),
                    on_progress=self._go_on,
                )
        except UsageError as error:
            raise NriScopeError(str(error)) from error
        part = stack.enter_context(Recording.open(path))
        after = self._resumed.get(file.name)
        items = Log(part, printed=True, after=after).read()
        if not self._query.context and numbers is not None:
            items = (one for one in items if _is_selected(one, numbers))
        timed = self._make.responses(file.name, part, items)
        if extracted.damage:
            timed = chain(timed, (self._unread(file, extracted.damage),))
        return timed

    def _selection(self, recording: Recording) -> Selection:
        query = self._query
        since_ns, until_ns = interval(query.since, query.until, time_span(recording))
        return Selection(where=within(recording, query.where), since_ns=since_ns, until_ns=until_ns)

    # -- what is recorded later -----------------------------------------------------------------

    def _open(self, file: NodeRecording, *, learns: bool) -> Iterator[v1.GetEventsResponse]:
        """Follow a recording from its position on; yield a gap if it cannot be read.

        ``learns``: whether to learn the secrets of earlier events first, which were not copied.
        """
        position = self._positions.setdefault(file.name, Position(0, 0))
        with ExitStack() as stack:
            try:
                recording = stack.enter_context(Recording.open(file.path))
                selection = self._selection(recording)
                if learns and self._redactor is not None:
                    until = IncludedRows(until=_newest(recording).event)
                    learn(recording, until, self._redactor, self._go_on, marks=())
                log = Log(
                    recording,
                    where=selection.where,
                    since_ns=selection.since_ns,
                    until_ns=selection.until_ns,
                    printed=True,
                    after=position if position.event else None,
                )
            except RecordingError as error:
                yield self._unread(file, error.problem).response
                return
            stack.pop_all()
        is_filtered = not selection.is_all
        self._followed[file.name] = _Followed(file, recording, log, is_filtered)

    def _find_files(self) -> Iterator[v1.GetEventsResponse]:
        """Follow new recordings, and stop following those that were removed or replaced."""
        files = {one.name: one for one in self._recordings.all()}
        for name, one in list(self._followed.items()):
            if name not in files or files[name].inode != one.file.inode:
                self._followed.pop(name).recording.close()
                yield self._removed(name)
        for name in [name for name in self._unreadable if name not in files]:
            del self._unreadable[name]
            self._positions.pop(name, None)
        for name in files.keys() - self._followed.keys():
            if files[name] != self._unreadable.get(name):
                self._unreadable.pop(name, None)
                yield from self._open(files[name], learns=False)

    def _later(self) -> Iterator[v1.GetEventsResponse]:
        until: dict[str, Position] = {}
        for name, one in list(self._followed.items()):
            try:
                if one.log.has_new_rows():
                    until[name] = _newest(one.recording)
            except RecordingError as error:
                yield from self._failed(name, error)
        parts = [
            self._guarded(self._followed[name].file, self._read_on(name, position))
            for name, position in until.items()
        ]
        yield from (one.response for one in heapq.merge(*parts))
        for name, position in until.items():
            if name in self._unreadable:
                self._followed.pop(name).recording.close()
            else:
                self._positions[name] = max(self._positions[name], position)

    def _failed(self, name: str, error: RecordingError) -> Iterator[v1.GetEventsResponse]:
        """Stop following a recording, which `_find_files` explains if it was removed."""
        one = self._followed[name]
        files = {file.name: file.inode for file in self._recordings.all()}
        if files.get(name) == one.file.inode:
            self._followed.pop(name).recording.close()
            yield self._unread(one.file, error.problem).response

    def _read_on(self, name: str, until: Position) -> Iterator[TimedResponse]:
        """Yield what is new in a recording, with a gap for what its ring removed meanwhile."""
        _, recording, log, is_filtered = self._followed[name]
        reached = self._positions[name]
        first = _oldest(recording)
        if first > reached.event + 1 and _removed(recording).event:
            yield self._overrun(name, recording, reached, first, first - reached.event - 1)
            reached = Position(first - 1, reached.at_ns)
        items = (
            one for one in log.read() if not (isinstance(one, Gap) and one.reason == RING_REMOVED)
        )
        for response in self._make.responses(name, recording, items, self._redactor):
            event = response.response.event
            if event is not None:
                oldest = _oldest(recording)
                if is_filtered and oldest > max(first, reached.event + 1):
                    # What was removed may have been read before, and not selected.
                    yield self._overrun(name, recording, reached, event.id, None)
                    first = oldest
                elif not is_filtered and event.id > reached.event + 1 and _removed(recording).event:
                    lost = event.id - reached.event - 1
                    yield self._overrun(name, recording, reached, event.id, lost)
                reached = Position(event.id, event.at_ns)
            yield response
        oldest = _oldest(recording)
        if until.event > reached.event and oldest > max(first, reached.event + 1):
            missing = None if is_filtered else until.event - reached.event
            yield self._overrun(name, recording, reached, until.event, missing)

    def _overrun(
        self, name: str, recording: Recording, after: Position, to: int, lost: int | None
    ) -> TimedResponse:
        to_ns = _time_of_event(recording, to) or time_ns()
        from_ns = after.at_ns or min(
            (one.started_ns for one in recording.sessions()), default=to_ns
        )
        return self._make.other(name, Gap(0, None, min(from_ns, to_ns), to_ns, OVERRUN, lost))

    def _removed(self, name: str) -> v1.GetEventsResponse:
        self._resumed.pop(name, None)
        at_ns = self._positions.pop(name).at_ns or time_ns()
        return response_of(name, Gap(0, None, at_ns, time_ns(), REMOVED, None))

    def _is_replaced(self, file: NodeRecording) -> bool:
        """Return whether another recording has the name of one that a cursor names."""
        position = self._positions[file.name]
        try:
            with Recording.open(file.path) as recording:
                newest = _newest(recording).event
                at_ns = _time_of_event(recording, position.event)
        except RecordingError:
            return False
        return newest < position.event or at_ns not in (0, position.at_ns)

    # -- responses ------------------------------------------------------------------------------

    def _guarded(
        self, file: NodeRecording, timed: Iterator[TimedResponse]
    ) -> Iterator[TimedResponse]:
        """Yield ``timed``; an error of the recording becomes a gap at the end."""
        try:
            yield from timed
        except RecordingError as error:
            yield self._unread(file, error.problem)

    def _unread(self, file: NodeRecording, problem: str) -> TimedResponse:
        self._unreadable[file.name] = file
        at_ns = self._positions.get(file.name, Position(0, 0)).at_ns or file.changed_ns
        gap = Gap(0, None, at_ns, at_ns, f"{UNREADABLE}: {problem}", None)
        return self._make.other(file.name, gap)


def _is_selected(item: Item, events: Sequence[int]) -> bool:
    """Return whether an item of a part is no context, and no gap that stands for other events."""
    if isinstance(item, Event):
        return is_among(events, item.id)
    return not (isinstance(item, Gap) and item.is_left_out)


def _newest(recording: Recording) -> Position:
    _, newest = event_range(recording)
    return Position(newest, _time_of_event(recording, newest)) if newest else _removed(recording)


def _oldest(recording: Recording) -> int:
    """Return the number of the oldest event, or of the next one if there is none."""
    oldest, _ = event_range(recording)
    return oldest or _removed(recording).event + 1


def _removed(recording: Recording) -> Position:
    """Return the newest event that the recorder's ring removed; 0 for none."""
    gaps = [gap for gap in recording.gaps() if gap.reason == RING_REMOVED]
    return Position(sum(gap.lost or 0 for gap in gaps), max((gap.to_ns for gap in gaps), default=0))


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
