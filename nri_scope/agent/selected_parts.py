# SPDX-License-Identifier: Apache-2.0
"""What a call of GetEvents selects of one recording, with its context, redacted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

from nri_scope.errors import NriScopeError, UsageError
from nri_scope.events import RING_REMOVED, Event, Gap
from nri_scope.filter import Filter
from nri_scope.filter.moments import interval
from nri_scope.recording.event_times import time_span, within
from nri_scope.recording.log_rows import Log
from nri_scope.recording.lookup import event_range
from nri_scope.recording.reader import Recording
from nri_scope.recording.temporary_files import temporary_folder, writing_to
from nri_scope.recording.timeline import Item
from nri_scope.share.extract import NothingSelectedError, Selection, extract
from nri_scope.share.extract.event_numbers import is_among

from .cursor import Position
from .event_responses import ResponseMaker, TimedResponse
from .node_recordings import NodeRecording
from .redactors import NodeRedactors, SharedRedactor, UnredactableError
from .temporary_copies import Copies


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


class SelectedParts:
    """Maker of the parts of recordings that one call selects."""

    def __init__(
        self,
        query: EventQuery,
        redactors: NodeRedactors | None,
        copies: Copies,
        make: ResponseMaker,
        go_on: Callable[[float], None],
    ) -> None:
        """Limit temporary parts of all calls by ``copies``.

        ``go_on`` is called regularly; its exceptions end the work, as those of ``copies`` do.
        """
        self._query = query
        self._redactors = redactors
        self._copies = copies
        self._make = make
        self._is_copying = False
        self._go_on = partial(self._checked, go_on)
        self.refused: set[tuple[str, int]] = set()
        """Names and inodes of recordings that cannot be redacted."""

    @contextmanager
    def copying(self) -> Iterator[None]:
        """Wait until not too many calls make temporary parts."""
        while not self._copies.acquire(timeout=0.2):
            self._go_on(0)
        self._is_copying = True
        try:
            yield
        finally:
            self._is_copying = False
            self._copies.release()

    def _checked(self, go_on: Callable[[float], None], share: float) -> None:
        go_on(share)
        if self._is_copying:
            self._copies.check()

    def selection(self, recording: Recording) -> Selection:
        """Return the selection of the query in a recording. Raises UsageError."""
        query = self._query
        since_ns, until_ns = interval(query.since, query.until, time_span(recording))
        return Selection(where=within(recording, query.where), since_ns=since_ns, until_ns=until_ns)

    def copy(
        self,
        stack: ExitStack,
        file: NodeRecording,
        recording: Recording,
        selection: Selection,
        after: Position | None,
    ) -> tuple[Iterator[TimedResponse], str] | None:
        """Copy the selected part of a recording; None if nothing is selected.

        Only what comes ``after`` a position is in the responses, but all is in the copy.
        Returns its responses, and why the rest cannot be read; "" if it can.
        """
        folder = stack.enter_context(temporary_folder())
        path = folder / f"{file.name}.db"
        try:
            with writing_to(folder), self.redaction(file, recording) as known:
                extracted = extract(
                    recording,
                    path,
                    selection,
                    change=None if known is None else known.redactor,
                    marks=(),
                    learned=0 if known is None else known.learned,
                    on_progress=self._go_on if known is None else known.give_way,
                )
                if known is not None:
                    known.check()
        except NothingSelectedError:
            return None
        except UsageError as error:
            raise NriScopeError(str(error)) from error
        numbers = extracted.events
        part = stack.enter_context(Recording.open(path))
        items = Log(part, printed=True, after=after).read()
        if after is not None:
            # What the ring removed since is another gap.
            items = (one for one in items if not is_of_ring(one))
        if not self._query.context and numbers is not None:
            items = (one for one in items if _is_selected(one, numbers))
        return self._make.responses(file.name, part, items), extracted.damage

    def learn(self, file: NodeRecording, recording: Recording) -> None:
        """Learn the secrets of a recording without copying it."""
        with self.redaction(file, recording):
            pass

    @contextmanager
    def redaction(
        self, file: NodeRecording, recording: Recording
    ) -> Iterator[SharedRedactor | None]:
        """Hold the redactor of a recording in the block; None if events are sent as recorded."""
        if self._redactors is None:
            yield None
            return
        try:
            with self._redactors.of(file, recording, partial(self._go_on, 0)) as known:
                yield known
        except UnredactableError:
            self.refused.add((file.name, file.inode))
            raise


def _is_selected(item: Item, events: Sequence[int]) -> bool:
    """Return whether an item of a part is no context, and no gap that stands for other events."""
    if isinstance(item, Event):
        return is_among(events, item.id)
    return not (isinstance(item, Gap) and item.is_left_out)


def is_of_ring(item: Item) -> bool:
    """Return whether an item is the gap for everything that the recorder's ring removed."""
    return isinstance(item, Gap) and item.reason == RING_REMOVED


def newest_position(recording: Recording) -> Position:
    """Return the position after everything in a recording."""
    _, newest = event_range(recording)
    if not newest:
        return newest_removed(recording)
    return Position(newest, time_of_event(recording, newest))


def newest_removed(recording: Recording) -> Position:
    """Return the newest event that the recorder's ring removed; 0 for none."""
    gaps = [gap for gap in recording.gaps() if gap.reason == RING_REMOVED]
    return Position(sum(gap.lost or 0 for gap in gaps), max((gap.to_ns for gap in gaps), default=0))


def time_of_event(recording: Recording, number: int) -> int:
    """Return the time of an event; 0 if there is none."""
    event = recording.event(number) if number else None
    return 0 if event is None else event.at_ns
