# SPDX-License-Identifier: Apache-2.0
"""What a call of GetEvents selects of one recording, with its context, redacted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from time import time_ns
from typing import NamedTuple

from nri_scope.entries import Item
from nri_scope.errors import NriScopeError, RecordingError, UsageError
from nri_scope.events import Event, Gap
from nri_scope.filter import Filter, TimeSpan
from nri_scope.filter.moments import interval
from nri_scope.recording.file.temporary_files import temporary_folder, writing_to
from nri_scope.recording.query.event_times import time_span
from nri_scope.recording.query.log_rows import Log, LogMerger
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.row_pages import is_among
from nri_scope.recording.reading.work_budget import OnShare
from nri_scope.share.extract import NothingSelectedError, Selection, extract
from nri_scope.share.redacted_entries import note_names
from nri_scope.share.redaction import Redactor

from .call_limits import CopyLimit
from .node_recordings import Cursor, NodeRecording, Position, is_of_ring
from .responses import ResponseMaker, ResponseSource, TimedResponse


@dataclass(frozen=True, slots=True)
class EventQuery:
    """What a client asks for, as in GetEventsRequest."""

    where: Filter | None = None
    since: str = ""
    until: str = ""
    last: int = 0
    follow: bool = False
    after: Cursor = field(default_factory=Cursor)
    context: bool = False
    namespaces: frozenset[str] = frozenset()

    @property
    def has_times(self) -> bool:
        """Whether what is selected depends on times."""
        in_filter = self.where is not None and "time" in self.where.fields
        return bool(self.since or self.until or in_filter)


class SelectedPart(NamedTuple):
    """What a query selects of a recording, copied."""

    recording: Recording
    """The copy, or the recording itself if nothing is selected."""
    responses: Iterator[TimedResponse] = iter(())
    damage: str = ""
    """Why the rest cannot be read; "" if it can."""


class SelectedParts:
    """Maker of the parts of recordings that one call selects."""

    def __init__(
        self,
        query: EventQuery,
        new_redactor: Callable[[], Redactor] | None,
        copies: CopyLimit,
        make: ResponseMaker,
        go_on: OnShare,
    ) -> None:
        """Limit temporary parts of all calls by ``copies``.

        ``new_redactor``: None to send events as recorded.

        ``go_on`` is called regularly; its exceptions end the work, as those of ``copies`` do.
        """
        self._query = query
        self._new_redactor = new_redactor
        self._redactors: dict[tuple[str, int], Redactor] = {}
        """By name and inode of the recording."""
        self._copies = copies
        self._make = make
        self._is_copying = False
        self._go_on = partial(self._checked, go_on)
        self.now_ns = query.after.now_ns or (time_ns() if query.has_times else 0)
        """Time that counts as now in times of the query; 0 if it has none."""

    @contextmanager
    def copying(self) -> Iterator[None]:
        """Wait until not too many calls make temporary parts."""
        while not self._copies.calls.acquire(timeout=0.2):
            self._go_on(0)
        self._is_copying = True
        try:
            yield
        finally:
            self._is_copying = False
            self._copies.calls.release()

    def _checked(self, go_on: OnShare, share: float) -> None:
        go_on(share)
        if self._is_copying:
            self._copies.check()

    def span(self, recording: Recording) -> TimeSpan | None:
        """Return the times on which those of the query depend; None if it has none."""
        if not self._query.has_times:
            return None
        return time_span(recording) or TimeSpan(self.now_ns, self.now_ns)

    def selection(self, span: TimeSpan | None) -> Selection:
        """Return the selection of the query in a recording with a `span`. Raises UsageError."""
        query = self._query
        if span is None:
            return Selection(where=query.where, namespaces=query.namespaces)
        since_ns, until_ns = interval(query.since, query.until, span, now_ns=self.now_ns)
        where = None if query.where is None else query.where.within(span, self.now_ns)
        return Selection(where, since_ns, until_ns, namespaces=query.namespaces)

    def copy(
        self,
        stack: ExitStack,
        file: NodeRecording,
        recording: Recording,
        selection: Selection,
        after: Position | None,
        began_ns: int,
    ) -> SelectedPart:
        """Copy the selected part of a recording; ``began_ns``: that of the recording.

        Only what comes ``after`` a position is in the responses, but all is in the copy.
        """
        folder = stack.enter_context(temporary_folder())
        path = folder / f"{file.name}.db"
        try:
            with writing_to(folder):
                extracted = extract(
                    recording,
                    path,
                    selection,
                    redactor=self.redactor(file, recording),
                    marks=(),
                    on_progress=self._go_on,
                )
        except NothingSelectedError:
            if after is not None:
                return SelectedPart(recording)
            # What was observed tells what it means that there are no events.
            timeline, sessions = LogMerger(every_session=True), recording.sessions()
            items = timeline.merge((), sessions, recording.gaps(), notes=recording.notes())
            bounds = chain(items, timeline.without_events(sessions))
            redactor = self.redactor(file, recording)
            made_of = ResponseSource(file.name, recording, began_ns, redactor)
            return SelectedPart(recording, self._make.responses(made_of, bounds))
        except UsageError as error:
            raise NriScopeError(str(error)) from error
        numbers = extracted.events
        part = stack.enter_context(Recording.open(path))
        items = Log(part, printed=True, after=after and after[:2], every_session=True).read()
        if after is not None:
            items = without_ring(items)
        if not self._query.context and numbers is not None:
            items = (item for item in items if _is_selected(item, numbers))
        responses = self._make.responses(ResponseSource(file.name, part, began_ns), items)
        return SelectedPart(part, responses, extracted.damage)

    def redactor(self, file: NodeRecording, recording: Recording) -> Redactor | None:
        """Return the redactor of a recording; None if events are sent as recorded.

        Raises RecordingError.
        """
        if self._new_redactor is None:
            return None
        redactor = self._redactors.get((file.name, file.inode))
        if redactor is None:
            redactor = self._redactors[file.name, file.inode] = self._new_redactor()
            note_names(redactor, recording)
        return redactor


def without_ring(items: Iterable[Item]) -> Iterator[Item]:
    """Yield items without the gap for everything that the ring removed: what it removed since is
    another gap.
    """
    return (item for item in items if not is_of_ring(item))


def of_one_file(
    file: NodeRecording, recording: Recording, responses: Iterator[TimedResponse]
) -> Iterator[TimedResponse]:
    """Yield responses. Raises RecordingError if they are of another file in its place."""
    connection = recording.connection
    for response in responses:
        # What a recorder writes to stays open, and is read on after its removal.
        if recording.connection is not connection and not file.is_there():
            raise RecordingError(file.path, "it was replaced")
        yield response


def _is_selected(item: Item, events: Sequence[int]) -> bool:
    """Return whether an item of a part is no context, and no gap that stands for other events."""
    if isinstance(item, Event):
        return is_among(events, item.id)
    return not (isinstance(item, Gap) and item.is_left_out)
