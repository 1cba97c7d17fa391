# SPDX-License-Identifier: Apache-2.0
"""Replace the events of a log by operations, for ``nri-scope log --operations``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from nri_scope.differ.operations import Grouping, Operation
from nri_scope.events import Event, Gap, Note, Printed
from nri_scope.filter import Filter
from nri_scope.recording.reader import Recording
from nri_scope.recording.timeline import Began, Ended, Item

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
    ) -> None:
        """``where``: filter that one event of an operation must pass. ``last``: maximum number of
        operations of the first call. ``times``: limits in ns, the second one excluded, for other
        items, and for one event of an operation. Raises RecordingError.
        """
        self._since_ns, self._until_ns = times
        self._recording = recording
        self._where = where
        self._last = last
        self._grouping = Grouping(recording)
        self._open: list[Event] = []
        """Events of the operation that may go on."""
        self._held: list[Item | Operation] = []
        """Items after the first event of that operation."""

    def merge(self, items: Iterable[Item], *, ended: bool = False) -> Iterator[Item | Operation]:
        """Yield the items, with operations instead of events.

        ``ended``: no more items follow, so that the last operation is complete.
        """
        self._grouping.update(self._recording)
        found = self._merged(items, ended=ended)
        if self._last is None:
            yield from found
            return
        recent: deque[Item | Operation] = deque()
        count = 0
        for item in found:
            recent.append(item)
            count += isinstance(item, Operation)
            while count > self._last:
                count -= isinstance(recent.popleft(), Operation)
        self._last = None
        yield from recent

    def _merged(self, items: Iterable[Item], *, ended: bool) -> Iterator[Item | Operation]:
        for item in items:
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

    def _finish(self) -> Iterator[Item | Operation]:
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


def _span_of(item: Gap | Began | Ended | Note | Printed) -> tuple[int, int]:
    """Return the first and last time of an item, in ns."""
    match item:
        case Gap():
            return item.from_ns, item.to_ns
        case Began(session):
            return session.started_ns, session.started_ns
        case Ended(session):
            return session.ended_ns or 0, session.ended_ns or 0
        case Note() | Printed():
            return item.at_ns, item.at_ns
