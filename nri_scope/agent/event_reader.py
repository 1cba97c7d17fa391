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
from nri_scope.events import KILLED, UNREADABLE, Gap
from nri_scope.recording.file.heartbeat import read_heartbeat, written_until
from nri_scope.recording.node_files import MAX_RECORDINGS
from nri_scope.recording.query.event_times import began_ns
from nri_scope.recording.query.log_rows import Log
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.sessions import with_ends
from nri_scope.share.extract import Selection
from nri_scope.share.redaction import Redactor

from .call_limits import CopyLimit
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
from .responses import BATCH_BYTES, ResponseMaker, ResponseSource, SentUpTo, TimedResponse
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
            where=selection.own_events,
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
        selected = {name: array("q") for name in self._names}
        _, places, numbers = self._columns
        for place, number in zip(reversed(places), reversed(numbers), strict=True):
            selected[self._names[place]].append(number)
        return selected


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


class _OpenRecording(NamedTuple):
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
        copies: CopyLimit | None = None,
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
        self._running: dict[tuple[str, int], bool] = {}
        """By name and inode: whether a recorder wrote when the ends of sessions were sent."""
        self._stopped = False
        self._make = ResponseMaker(self._go_on, recordings.numbers)
        limit = copies or CopyLimit(1, recordings)
        self._parts = SelectedParts(query, new_redactor, limit, self._make, self._go_on)
        self._responses = self._all()

    def close(self) -> None:
        """Close all files."""
        self._responses.close()
        for followed in self._followed.values():
            followed.recording.close()

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
        batch: list[v1.GetEventsResponse] = []
        size = 0
        with suppress(_Interrupted):
            for timed in self._responses:
                if timed is None:
                    return batch, True
                response = timed.response
                if timed.sent is not None:
                    self._advance(timed.sent)
                if self._query.namespaces and (response.note or response.output):
                    # It may be about any pod.
                    continue
                if response.event is not None:
                    size += len(response.event.request) + len(response.event.reply)
                response.cursor = self.cursor()
                batch.append(response)
                if len(batch) >= BATCH or size >= BATCH_BYTES:
                    return batch, False
        return batch, True

    def _advance(self, sent: SentUpTo) -> None:
        position = self._positions[sent.recording]
        self._positions[sent.recording] = position.reached(sent.event, sent.at_ns)

    def _all(self) -> Generator[TimedResponse | None]:
        """Yield the responses; None where there are no more for now."""
        files = self._recordings.all()
        for name in self._positions.keys() - {file.name for file in files}:
            yield self._removed(name)
        for file in files:
            position = self._positions.get(file.name)
            if position is not None and is_replaced(file.path, position):
                yield self._removed(file.name)
        self._resumed = {name: place for name, place in self._positions.items() if place.event}
        new = [file for file in files if file.name not in self._resumed]
        for file in files:
            if file not in new and not self._query.context:
                yield from self._open(file)
        earlier = self._earlier(files if self._query.context else new)
        yield from heapq.merge(self._later(), earlier)
        if not self._query.follow:
            return
        while True:
            # First, as the rest of a file that is removed can be read only after a first reading.
            yield from self._find_files()
            yield from self._later()
            yield None

    def _placed(self, name: str, recording: Recording) -> Position:
        """Return the position in a recording, with what tells it from others."""
        position = self._positions.get(name) or Position()
        if position.span is None:
            position = position._replace(span=self._parts.span(recording))
        if not position.began_ns:
            position = position._replace(began_ns=began_ns(recording))
        if position.began_ns:
            # All in the order of their ages, also those without an event to send.
            self._recordings.numbers.of(name, position.began_ns)
        self._positions[name] = position
        return position

    # -- what was recorded before the call ------------------------------------------------------

    def _earlier(self, files: Sequence[NodeRecording]) -> Iterator[TimedResponse]:
        opened: list[_OpenRecording] = []
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
                    opened.append(_OpenRecording(file, recording, selection, until))
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
                copied, responses = part.recording, part.responses
                if after is None and copied is recording and name in cursor:
                    # Nothing is selected, perhaps as the ring removed it since.
                    after = position
                if after is not None:
                    source = ResponseSource(name, copied, position.began_ns)
                    responses = self._make.with_overruns(
                        source, responses, after, until, is_filtered=not selection.is_all
                    )
                parts.append(self._guarded(file, responses, part.damage))
                parts.append(self._guarded(file, self._ends(file, recording)))
            # No response before all positions are known, which are in its cursor.
            yield from heapq.merge(*parts)
        # Those that could not be read begin again after a resumption.
        for file, _, _, until in opened:
            if file.name not in self._unreadable:
                self._advance(SentUpTo(file.name, until.event, until.at_ns))
        if self._query.follow:
            for file in files:
                if file.name not in self._unreadable:
                    yield from self._open(file)

    def _newest(
        self, opened: Sequence[_OpenRecording], parts: list[Iterator[TimedResponse]]
    ) -> Iterator[_OpenRecording]:
        """Yield the recordings, each with a selection of its events among the newest of all.

        Errors are added to ``parts``.
        """
        newest = NewestEvents(self._query.last)
        readable: list[_OpenRecording] = []
        for item in sorted(opened, key=lambda item: item.until.at_ns, reverse=True):
            try:
                newest.add(item.file.name, item.recording, item.selection, item.until.at_ns)
                readable.append(item)
            except RecordingError as error:
                parts.append(iter([self._unread(item.file, error.problem)]))
        chosen = newest.by_recording()
        for item in readable:
            name = item.file.name
            numbers = chosen.get(name, ())
            first = numbers[0] - 1 if numbers else item.until.event
            self._advance(SentUpTo(name, first, time_of_event(item.recording, first)))
            selection = Selection(numbers=numbers, namespaces=self._query.namespaces)
            yield item._replace(selection=selection)

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
                    where=selection.own_events,
                    since_ns=selection.since_ns,
                    until_ns=selection.until_ns,
                    printed=True,
                    after=position[:2] if position.event else None,
                    every_session=True,
                )
            except RecordingError as error:
                yield self._unread(file, error.problem)
                return
            stack.pop_all()
        self._followed[file.name] = _Followed(file, recording, log, not selection.is_all)

    def _find_files(self) -> Iterator[TimedResponse]:
        """Follow new recordings, and stop following those that were removed or replaced."""
        files = {file.name: file for file in self._recordings.all()}
        for name, followed in list(self._followed.items()):
            if name not in files or files[name].inode != followed.file.inode:
                yield from self._rest(name, followed)
                self._followed.pop(name).recording.close()
                position = self._positions.pop(name)
                if name not in files:
                    self._aside[followed.file.key] = position
        for name in [name for name in self._unreadable if name not in files]:
            del self._unreadable[name]
            self._positions.pop(name, None)
        for name in files.keys() - self._followed.keys():
            if files[name] != self._unreadable.get(name):
                self._unreadable.pop(name, None)
                key = files[name].key
                if key in self._aside and not is_replaced(files[name].path, self._aside[key]):
                    self._positions[name] = self._aside.pop(key)
                yield from self._open(files[name])

    def _rest(self, name: str, followed: _Followed) -> Iterator[TimedResponse]:
        """Yield what was written to a file before it was removed, or left out."""
        with suppress(RecordingError):
            if not followed.log.has_new_rows(removed=True):
                return
            until = newest_position(followed.recording)
            yield from self._guarded(followed.file, self._read_on(name, until))

    def _later(self) -> Iterator[TimedResponse]:
        until: dict[str, Position] = {}
        for name, followed in list(self._followed.items()):
            try:
                if followed.log.has_new_rows():
                    self._placed(name, followed.recording)
                    until[name] = newest_position(followed.recording)
            except RecordingError as error:
                yield from self._failed(name, error)
        parts = [
            self._guarded(self._followed[name].file, self._read_on(name, position))
            for name, position in until.items()
        ]
        yield from heapq.merge(*parts)
        for followed in self._followed.values():
            yield from self._guarded(followed.file, self._ends(followed.file, followed.recording))
        for name, position in until.items():
            if name in self._unreadable:
                self._followed.pop(name).recording.close()
            else:
                self._advance(SentUpTo(name, position.event, position.at_ns))

    def _ends(self, file: NodeRecording, recording: Recording) -> Iterator[TimedResponse]:
        """Yield the ends of sessions that killed recorders did not close."""
        is_running = read_heartbeat(file.path) is not None
        if self._running.get(file.key) == is_running:
            return
        self._running[file.key] = is_running
        written_ns = max(newest_position(recording).at_ns, written_until(file.path))
        sessions = recording.sessions()
        for session in sessions if is_running else with_ends(sessions, written_ns):
            if session.end_reason == KILLED and session.ended_ns is not None:
                yield self._make.end(file.name, session)

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
        source = ResponseSource(name, recording, position.began_ns, redactor)
        responses = self._make.responses(source, without_ring(log.read()))
        responses = of_one_file(file, recording, responses)
        yield from self._make.with_overruns(
            source, responses, position, until, is_filtered=is_filtered
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
