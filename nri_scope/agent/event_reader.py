# SPDX-License-Identifier: Apache-2.0
"""Read events of all recordings of a node, for one call of GetEvents.

What was recorded before the call is copied to a temporary part first: its context is found, and it
is redacted. A resumed call copies what its cursor does not name, and all recordings if it needs
context.

If only the newest events are wanted, choosing them takes 48 bytes of memory for each.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import islice, repeat
from time import time_ns
from typing import NamedTuple

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.errors import RecordingError
from nri_scope.events import UNREADABLE, Gap
from nri_scope.recording.event_times import began_ns
from nri_scope.recording.log_rows import Log
from nri_scope.recording.node_files import MAX_RECORDINGS
from nri_scope.recording.reader import Recording
from nri_scope.share.extract import Selection
from nri_scope.share.redaction import Redactor

from .call_limits import Copies
from .node_recordings import (
    Cursor,
    NodeRecording,
    NodeRecordings,
    Position,
    format_cursor,
    is_replaced,
    newest_position,
    time_of_event,
)
from .responses import BATCH_BYTES, ResponseMaker, TimedResponse, with_overruns
from .selected_parts import EventQuery, SelectedParts, of_one_file, without_ring

_Row = tuple[int, int, int]
"""Time of an event, place of its recording, and its number."""


class NewestEvents:
    """The newest events by time. Add recordings by the time of their last event, newest first."""

    def __init__(self, most: int) -> None:
        """``most``: number of events, at least 1."""
        self._most = most
        self._names: list[str] = []
        self._columns = _columns(())

    def add(self, name: str, recording: Recording, selection: Selection, newest_ns: int) -> None:
        """Add the selected events of a recording. ``newest_ns``: time of its last event.

        Raises RecordingError.
        """
        at_ns, _, _ = self._columns
        if len(at_ns) == self._most and newest_ns < at_ns[-1]:
            return
        numbers, times = array("q"), array("q")
        for event in recording.events(
            where=selection.where,
            since_ns=selection.since_ns,
            until_ns=selection.until_ns,
            last=self._most,
        ):
            numbers.append(event.id)
            times.append(event.at_ns)
        added = zip(reversed(times), repeat(len(self._names)), reversed(numbers), strict=False)
        self._names.append(name)
        # Newest first; each recording keeps its order, so its last events are chosen.
        merged = heapq.merge(zip(*self._columns, strict=True), added, key=lambda row: -row[0])
        self._columns = _columns(islice(merged, self._most))

    def by_recording(self) -> Mapping[str, Sequence[int]]:
        """Return the numbers of the events by recording, ascending."""
        found = {name: array("q") for name in self._names}
        _, places, numbers = self._columns
        for place, number in zip(reversed(places), reversed(numbers), strict=True):
            found[self._names[place]].append(number)
        return found


def _columns(rows: Iterable[_Row]) -> tuple[array[int], array[int], array[int]]:
    columns = array("q"), array("q"), array("q")
    for row in rows:
        for column, value in zip(columns, row, strict=True):
            column.append(value)
    return columns


BATCH = 256
"""Maximum number of responses of one batch."""
REMOVED = "the recording was removed from the node; if it had more events, they were not sent"
"""Reason of a gap in a resumed stream."""
LEFT_OUT = f"the agent serves the newest {MAX_RECORDINGS} recordings, and no longer this one"
"""Reason of a gap in a resumed stream."""


class _Opened(NamedTuple):
    """A recording that is read as it was before the call."""

    file: NodeRecording
    recording: Recording
    selection: Selection
    until: Position


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
        new_redactor: Callable[[], Redactor] | None,
        copies: Copies | None = None,
    ) -> None:
        """Without ``new_redactor``, events are sent as recorded.

        ``copies``: limit of temporary parts, for all calls.
        """
        self._recordings = recordings
        self._query = query
        self._positions = dict(query.after.positions)
        self._resumed: dict[str, Position] = {}
        """Positions of the cursor that are valid, after an event."""
        self._aside: dict[tuple[str, int], Position] = {}
        """Positions in recordings that are no longer served, by name and inode."""
        self._followed: dict[str, _Followed] = {}
        self._unreadable: dict[str, NodeRecording] = {}
        """Recordings that could not be read, as they were then."""
        self._stopped = False
        self._make = ResponseMaker(self._go_on)
        limit = copies or Copies(1, recordings)
        self._parts = SelectedParts(query, new_redactor, limit, self._make, self._go_on)
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
        return format_cursor(Cursor(self._positions, self._parts.now_ns))

    def batch(self) -> tuple[list[v1.GetEventsResponse], bool]:
        """Return the next responses, and whether there are no more for now.

        Raises UsageError if the query does not fit a recording, and NriScopeError if the folder or
        a temporary file cannot be used. A recording that cannot be read is a gap.
        """
        found: list[v1.GetEventsResponse] = []
        size = 0
        with suppress(_Interrupted):
            for timed in self._responses:
                if timed is None:
                    return found, True
                response = timed.response
                if timed.passed is not None:
                    self._advance(*timed.passed)
                if response.event is not None:
                    size += len(response.event.request) + len(response.event.reply)
                response.cursor = self.cursor()
                found.append(response)
                if len(found) >= BATCH or size >= BATCH_BYTES:
                    return found, False
        return found, True

    def _advance(self, name: str, event: int, at_ns: int) -> None:
        self._positions[name] = self._positions[name].reached(event, at_ns)

    def _all(self) -> Generator[TimedResponse | None]:
        """Yield the responses; None where there are no more for now."""
        files = self._recordings.all()
        for name in self._positions.keys() - {one.name for one in files}:
            yield self._removed(name)
        for one in files:
            position = self._positions.get(one.name)
            if position is not None and is_replaced(one.path, position):
                yield self._removed(one.name)
        self._resumed = {name: one for name, one in self._positions.items() if one.event}
        new = [one for one in files if one.name not in self._resumed]
        for one in files:
            if one not in new and not self._query.context:
                yield from self._open(one)
        earlier = self._earlier(files if self._query.context else new)
        yield from heapq.merge(self._later(), earlier)
        if not self._query.follow:
            return
        while True:
            yield None
            yield from self._find_files()
            yield from self._later()

    def _placed(self, name: str, recording: Recording) -> Position:
        """Return the position in a recording, with what tells it from others."""
        position = self._positions.get(name) or Position()
        if position.span is None:
            position = position._replace(span=self._parts.span(recording))
        if not position.began_ns:
            position = position._replace(began_ns=began_ns(recording))
        self._positions[name] = position
        return position

    # -- what was recorded before the call ------------------------------------------------------

    def _earlier(self, files: Sequence[NodeRecording]) -> Iterator[TimedResponse]:
        opened: list[_Opened] = []
        cursor = self._query.after.positions
        parts: list[Iterator[TimedResponse]] = []
        with ExitStack() as stack:
            if files:
                stack.enter_context(self._parts.copying())
            for file in files:
                try:
                    recording = stack.enter_context(Recording.open(file.path))
                    until = newest_position(recording)
                    selection = self._parts.selection(self._placed(file.name, recording).span)
                    opened.append(_Opened(file, recording, selection, until))
                except RecordingError as error:
                    parts.append(iter([self._unread(file, error.problem)]))
            # A resumed call gets all events of recordings that are new since.
            if self._query.last and not self._query.after.positions:
                opened = list(self._newest(opened, parts))
            for file, recording, selection, until in opened:
                name, position = file.name, self._positions[file.name]
                if position.event >= until.event:
                    continue
                after = self._resumed.get(name)
                try:
                    part = self._parts.copy(
                        stack, file, recording, selection, after, position.began_ns
                    )
                except RecordingError as error:
                    parts.append(iter([self._unread(file, error.problem)]))
                    continue
                responses = part.responses
                if after is None and part.recording is recording and name in cursor:
                    # Nothing is selected, perhaps as the ring removed it since.
                    after = position
                if after is not None:
                    is_filtered = not selection.is_all
                    responses = with_overruns(
                        *(self._make, name, part.recording, responses, after, until),
                        is_filtered=is_filtered,
                    )
                parts.append(self._guarded(file, responses, part.damage))
            # No response before all positions are known, which are in its cursor.
            yield from heapq.merge(*parts)
        # Those that could not be read begin again after a resumption.
        for file, _, _, until in opened:
            if file.name not in self._unreadable:
                self._advance(file.name, until.event, until.at_ns)
        if self._query.follow:
            for file in files:
                if file.name not in self._unreadable:
                    yield from self._open(file)

    def _newest(
        self, opened: Sequence[_Opened], parts: list[Iterator[TimedResponse]]
    ) -> Iterator[_Opened]:
        """Yield the recordings, each with a selection of its events among the newest of all.

        Errors are added to ``parts``.
        """
        newest = NewestEvents(self._query.last)
        readable: list[_Opened] = []
        for one in sorted(opened, key=lambda one: one.until.at_ns, reverse=True):
            try:
                newest.add(one.file.name, one.recording, one.selection, one.until.at_ns)
                readable.append(one)
            except RecordingError as error:
                parts.append(iter([self._unread(one.file, error.problem)]))
        chosen = newest.by_recording()
        for one in readable:
            numbers = chosen.get(one.file.name, ())
            first = numbers[0] - 1 if numbers else one.until.event
            self._advance(one.file.name, first, time_of_event(one.recording, first))
            yield one._replace(selection=Selection(numbers=numbers))

    def _go_on(self, _: float = 0) -> None:
        if self._stopped:
            raise _Interrupted

    # -- what is recorded later -----------------------------------------------------------------

    def _open(self, file: NodeRecording) -> Iterator[TimedResponse]:
        """Follow a recording from its position on; yield a gap if it cannot be read."""
        with ExitStack() as stack:
            try:
                recording = stack.enter_context(Recording.open(file.path))
                position = self._placed(file.name, recording)
                selection = self._parts.selection(position.span)
                log = Log(
                    recording,
                    where=selection.where,
                    since_ns=selection.since_ns,
                    until_ns=selection.until_ns,
                    printed=True,
                    after=position[:2] if position.event else None,
                )
            except RecordingError as error:
                yield self._unread(file, error.problem)
                return
            stack.pop_all()
        is_filtered = not selection.is_all
        self._followed[file.name] = _Followed(file, recording, log, is_filtered)

    def _find_files(self) -> Iterator[TimedResponse]:
        """Follow new recordings, and stop following those that were removed or replaced."""
        files = {one.name: one for one in self._recordings.all()}
        for name, one in list(self._followed.items()):
            if name not in files or files[name].inode != one.file.inode:
                yield from self._rest(name, one)
                self._followed.pop(name).recording.close()
                position = self._positions.pop(name)
                if name not in files:
                    self._aside[name, one.file.inode] = position
        for name in [name for name in self._unreadable if name not in files]:
            del self._unreadable[name]
            self._positions.pop(name, None)
        for name in files.keys() - self._followed.keys():
            if files[name] != self._unreadable.get(name):
                self._unreadable.pop(name, None)
                key = name, files[name].inode
                if key in self._aside and not is_replaced(files[name].path, self._aside[key]):
                    self._positions[name] = self._aside.pop(key)
                yield from self._open(files[name])

    def _rest(self, name: str, one: _Followed) -> Iterator[TimedResponse]:
        """Yield what was written to a file before it was removed, or left out."""
        with suppress(RecordingError):
            if not one.log.has_new_rows(removed=True):
                return
            until = newest_position(one.recording)
            yield from self._guarded(one.file, self._read_on(name, until))

    def _later(self) -> Iterator[TimedResponse]:
        until: dict[str, Position] = {}
        for name, one in list(self._followed.items()):
            try:
                if one.log.has_new_rows():
                    self._placed(name, one.recording)
                    until[name] = newest_position(one.recording)
            except RecordingError as error:
                yield from self._failed(name, error)
        parts = [
            self._guarded(self._followed[name].file, self._read_on(name, position))
            for name, position in until.items()
        ]
        yield from heapq.merge(*parts)
        for name, position in until.items():
            if name in self._unreadable:
                self._followed.pop(name).recording.close()
            else:
                self._advance(name, position.event, position.at_ns)

    def _failed(self, name: str, error: RecordingError) -> Iterator[TimedResponse]:
        """Stop following a recording; if it was removed, `_find_files` does."""
        file = self._followed[name].file
        if file.is_there():
            self._followed.pop(name).recording.close()
            yield self._unread(file, error.problem)

    def _read_on(self, name: str, until: Position) -> Iterator[TimedResponse]:
        """Yield what is new in a recording, with gaps for what its ring removed meanwhile."""
        file, recording, log, is_filtered = self._followed[name]
        position = self._positions[name]
        redactor = self._parts.redactor(file, recording)
        items = without_ring(log.read())
        responses = self._make.responses(name, recording, items, position.began_ns, redactor)
        responses = of_one_file(file, recording, responses)
        yield from with_overruns(
            self._make, name, recording, responses, position, until, is_filtered=is_filtered
        )

    # -- gaps -----------------------------------------------------------------------------------

    def _removed(self, name: str) -> TimedResponse:
        """Return the gap for a recording of the cursor that is not there."""
        position = self._positions.pop(name)
        reason = LEFT_OUT if self._recordings.is_left_out(name) else REMOVED
        return self._make.gap(name, _gap_until_now(position, reason))

    def _guarded(
        self, file: NodeRecording, timed: Iterator[TimedResponse], damage: str = ""
    ) -> Iterator[TimedResponse]:
        """Yield ``timed``; an error of the recording, or its damage, becomes a gap at the end."""
        try:
            yield from timed
        except RecordingError as error:
            damage = error.problem
        if damage:
            yield self._unread(file, damage)

    def _unread(self, file: NodeRecording, problem: str) -> TimedResponse:
        position = self._positions.get(file.name) or Position()
        if not file.is_there():
            return self._make.gap(file.name, _gap_until_now(position, REMOVED))
        self._unreadable[file.name] = file
        at_ns = position.at_ns or file.changed_ns
        gap = Gap(0, None, at_ns, at_ns, f"{UNREADABLE}: {problem}", None)
        return self._make.gap(file.name, gap)


def _gap_until_now(position: Position, reason: str) -> Gap:
    now_ns = time_ns()
    from_ns = position.at_ns or position.began_ns or now_ns
    return Gap(0, None, min(from_ns, now_ns), now_ns, reason, None)
