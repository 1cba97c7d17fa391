# SPDX-License-Identifier: Apache-2.0
"""Read events of all recordings of a node, for one call of GetEvents.

What was recorded before the call is copied to a temporary part first: its context is found, and it
is redacted in two passes, the first of which finds all secrets. Events that are recorded later are
redacted as `record --redact` does. A resumed call copies again only if it needs context.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from time import time_ns
from typing import NamedTuple

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.errors import RecordingError
from nri_scope.events import UNREADABLE, Gap
from nri_scope.recording.log_rows import Log
from nri_scope.recording.lookup import event_range
from nri_scope.recording.reader import Recording
from nri_scope.share.extract import Selection

from .cursor import Position, format_cursor
from .event_messages import response_of
from .event_responses import BATCH_BYTES, ResponseMaker, TimedResponse
from .node_recordings import NodeRecording, NodeRecordings
from .redactors import NodeRedactors
from .selected_parts import (
    EventQuery,
    SelectedParts,
    is_of_ring,
    newest_position,
    newest_removed,
    time_of_event,
)
from .temporary_copies import Copies

BATCH = 256
"""Maximum number of responses of one batch."""
OVERRUN = "older events were removed from the recording before they could be sent"
"""Reason of a gap in a stream whose receiver is slower than the recorder's ring."""
REMOVED = "the recording was removed from the node before its events could be sent"
"""Reason of a gap in a resumed stream."""


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
        redactors: NodeRedactors | None,
        copies: Copies | None = None,
    ) -> None:
        """Without ``redactors``, events are sent as recorded. ``copies``: limit of temporary parts,
        for all calls.
        """
        self._recordings = recordings
        self._query = query
        self._redactors = redactors
        self._positions = dict(query.after)
        self._resumed = dict(query.after)
        """Positions of the cursor that are still valid."""
        self._followed: dict[str, _Followed] = {}
        self._unreadable: dict[str, NodeRecording] = {}
        """Recordings that could not be read, as they were then."""
        self._stopped = False
        self._make = ResponseMaker(self._go_on)
        limit = copies or Copies(1, recordings)
        self._parts = SelectedParts(query, redactors, limit, self._make, self._go_on)
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
        if self._redactors is not None:
            self._redactors.keep(files)
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
                stack.enter_context(self._parts.copying())
            parts: list[Iterator[TimedResponse]] = []
            for file in reversed(files):
                position = self._positions.get(file.name, Position(0, 0))
                try:
                    recording = stack.enter_context(Recording.open(file.path))
                    until[file.name] = max(position, newest_position(recording))
                    selection = self._parts.selection(recording)
                    if is_over:
                        position = until[file.name]
                    elif wanted:
                        numbers = _newest_numbers(recording, selection, wanted)
                        is_over = len(numbers) >= wanted
                        wanted -= len(numbers)
                        first = numbers[0] - 1 if numbers else until[file.name].event
                        position = Position(first, time_of_event(recording, first))
                        selection = Selection(numbers=numbers)
                    self._positions[file.name] = position
                    if position == until[file.name]:
                        continue
                    after = self._resumed.get(file.name)
                    if after is not None:
                        yield from (
                            one.response for one in self._overrun_since(file.name, recording, after)
                        )
                    part = self._parts.copy(stack, file, recording, selection, after)
                    if part is not None:
                        learned.add(file.name)
                        parts.append(self._guarded(file, *part))
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

    def _go_on(self, _: float = 0) -> None:
        if self._stopped:
            raise _Interrupted

    # -- what is recorded later -----------------------------------------------------------------

    def _open(self, file: NodeRecording, *, learns: bool) -> Iterator[v1.GetEventsResponse]:
        """Follow a recording from its position on; yield a gap if it cannot be read.

        ``learns``: whether to learn the secrets of earlier events first, which were not copied.
        """
        position = self._positions.setdefault(file.name, Position(0, 0))
        with ExitStack() as stack:
            try:
                recording = stack.enter_context(Recording.open(file.path))
                selection = self._parts.selection(recording)
                if learns:
                    self._parts.learn(file, recording)
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
            is_refused = (name, files[name].inode) in self._parts.refused
            if files[name] != self._unreadable.get(name) and not is_refused:
                self._unreadable.pop(name, None)
                yield from self._open(files[name], learns=False)

    def _later(self) -> Iterator[v1.GetEventsResponse]:
        until: dict[str, Position] = {}
        for name, one in list(self._followed.items()):
            try:
                if one.log.has_new_rows():
                    until[name] = newest_position(one.recording)
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
        file, recording, log, is_filtered = self._followed[name]
        reached = self._positions[name]
        first = _oldest(recording)
        for gap in self._overrun_since(name, recording, reached):
            yield gap
            reached = Position(first - 1, reached.at_ns)
        items = (one for one in log.read() if not is_of_ring(one))
        redaction = partial(self._parts.redaction, file, recording)
        for response in self._make.responses(name, recording, items, redaction):
            event = response.response.event
            if event is not None:
                oldest = _oldest(recording)
                if is_filtered and oldest > max(first, reached.event + 1):
                    # What was removed may have been read before, and not selected.
                    yield self._overrun(name, recording, reached, event.id, None)
                    first = oldest
                elif (
                    not is_filtered
                    and event.id > reached.event + 1
                    and newest_removed(recording).event
                ):
                    lost = event.id - reached.event - 1
                    yield self._overrun(name, recording, reached, event.id, lost)
                reached = Position(event.id, event.at_ns)
            yield response
        oldest = _oldest(recording)
        if until.event > reached.event and oldest > max(first, reached.event + 1):
            missing = None if is_filtered else until.event - reached.event
            yield self._overrun(name, recording, reached, until.event, missing)

    def _overrun_since(
        self, name: str, recording: Recording, after: Position
    ) -> Iterator[TimedResponse]:
        """Yield a gap if the ring removed events after a position."""
        first = _oldest(recording)
        if first > after.event + 1 and newest_removed(recording).event:
            yield self._overrun(name, recording, after, first, first - after.event - 1)

    def _overrun(
        self, name: str, recording: Recording, after: Position, to: int, lost: int | None
    ) -> TimedResponse:
        to_ns = time_of_event(recording, to) or time_ns()
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
                newest = newest_position(recording).event
                at_ns = time_of_event(recording, position.event)
        except RecordingError:
            return False
        return newest < position.event or at_ns not in (0, position.at_ns)

    # -- responses ------------------------------------------------------------------------------

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
        self._unreadable[file.name] = file
        at_ns = self._positions.get(file.name, Position(0, 0)).at_ns or file.changed_ns
        gap = Gap(0, None, at_ns, at_ns, f"{UNREADABLE}: {problem}", None)
        return self._make.other(file.name, gap)


def _oldest(recording: Recording) -> int:
    """Return the number of the oldest event, or of the next one if there is none."""
    oldest, _ = event_range(recording)
    return oldest or newest_removed(recording).event + 1


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
