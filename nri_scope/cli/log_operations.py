# SPDX-License-Identifier: Apache-2.0
"""Replace the events of a log by operations, for ``nri-scope log --operations``."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from time import time_ns

from nri_scope.differ.operations import Grouping, Operation
from nri_scope.entries import Began, Ended, Item
from nri_scope.events import Event, Gap, Note, Printed
from nri_scope.filter import Filter
from nri_scope.recording.reader import Recording

_Other = Gap | Ended | Note | Printed
Attributed = Callable[[Sequence[Event]], Mapping[int, Event]]
"""Function that returns events by number with the changes that only several events show."""
_HELD_MAX = 10_000
"""Maximum number of items that wait for the end of the operation before them."""


class OperationMerger:
    """Merger of items: each operation is yielded once no event of it can follow."""

    def __init__(
        self,
        recording: Recording,
        where: Filter | None,
        last: int | None,
        times: tuple[int | None, int | None],
        attributed: Attributed | None = None,
    ) -> None:
        """``where``: filter that one event of an operation must pass. ``last``: maximum number of
        operations of the first call. ``times``: limits in ns, the second one excluded, for other
        items, and for one event of an operation. ``attributed``: applied to the events of these
        ``last`` operations. Raises RecordingError.
        """
        self._attributed = attributed
        self._since_ns, self._until_ns = times
        self._recording = recording
        self._where = where
        self._last = last
        self._grouping = Grouping(recording)
        self._open: list[Event] = []
        """Events of the operation that may go on."""
        self._held: list[_Other | Operation] = []
        """Items after the first event of that operation."""
        self._began: set[int] = set()
        """Ids of the sessions of yielded operations."""

    def merge(self, items: Iterable[Item], *, ended: bool = False) -> Iterator[Item | Operation]:
        """Yield the items, with operations instead of events.

        A session begins before the first yielded operation with an event of it. ``ended``: no more
        items follow, so that the last operation is complete.
        """
        self._grouping.update(self._recording)
        found = self._merged(items, ended=ended)
        if self._last is not None:
            found, self._last = iter(self._newest(found, self._last)), None
        for item in found:
            if isinstance(item, Operation):
                yield from self._begin_sessions(item)
            if not isinstance(item, Ended) or item.session.id in self._began:
                yield item

    def _newest(
        self, items: Iterable[_Other | Operation], last: int
    ) -> Sequence[_Other | Operation]:
        """Return the last operations, and the items that are not older."""
        # All events are read, without messages: which events are one operation depends on those
        # before, such as the connections in the chain.
        recent: deque[_Other | Operation] = deque()
        count = 0
        for item in items:
            recent.append(item)
            count += isinstance(item, Operation)
            while count > last:
                count -= isinstance(recent.popleft(), Operation)
        first = next((item for item in recent if isinstance(item, Operation)), None)
        begin_ns = time_ns() if first is None else first.first.at_ns
        kept = [one for one in recent if isinstance(one, Operation) or _span_of(one)[1] >= begin_ns]
        if self._attributed is None:
            return kept
        operations = [item for item in kept if isinstance(item, Operation)]
        events = self._attributed(
            [*self._open, *(one for each in operations for one in each.events)]
        )
        self._open = [events.get(one.id, one) for one in self._open]
        return [item.replaced(events) if isinstance(item, Operation) else item for item in kept]

    def _begin_sessions(self, operation: Operation) -> Iterator[Began]:
        for event in operation.events:
            session = self._grouping.sessions.get(event.session)
            if session is not None and session.id not in self._began:
                self._began.add(session.id)
                yield Began(session)

    def _merged(self, items: Iterable[Item], *, ended: bool) -> Iterator[_Other | Operation]:
        for item in items:
            if isinstance(item, Began):
                continue
            if not isinstance(item, Event):
                if self._is_within(*_span_of(item)):
                    self._held.append(item)
            elif (first := self._grouping.first_of(item)) == item.id:
                if self._grouping.begins(item):
                    yield from self._finish()
                    self._open = [item]
                else:
                    self._held += self._operation([item])
            elif self._open and self._open[0].id == first:
                self._open.append(item)
            if not self._open:
                yield from self._finish()
            elif len(self._held) > _HELD_MAX:
                yield from self._held
                self._held = []
        if ended or not self._grouping.goes_on:
            yield from self._finish()

    def _finish(self) -> Iterator[_Other | Operation]:
        if self._open:
            yield from self._operation(self._open)
        yield from self._held
        self._open, self._held = [], []

    def _operation(self, events: list[Event]) -> list[Operation]:
        if not any(map(self._is_wanted, events)):
            return []
        return [Operation.of(events, self._grouping.sessions)]

    def _is_wanted(self, event: Event) -> bool:
        return self._is_within(event.at_ns, event.at_ns) and (
            self._where is None or self._where.matches(event)
        )

    def _is_within(self, first_ns: int, last_ns: int) -> bool:
        return (self._since_ns is None or last_ns >= self._since_ns) and (
            self._until_ns is None or first_ns < self._until_ns
        )


def _span_of(item: _Other) -> tuple[int, int]:
    """Return the first and last time of an item, in ns."""
    match item:
        case Gap():
            return item.from_ns, item.to_ns
        case Ended(session):
            return session.ended_ns or 0, session.ended_ns or 0
        case Note() | Printed():
            return item.at_ns, item.at_ns
