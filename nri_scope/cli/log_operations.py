# SPDX-License-Identifier: Apache-2.0
"""Replace the events of a log by operations, for ``nri-scope log --operations``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from nri_scope.differ.operations import Grouping, Operation
from nri_scope.events import Event
from nri_scope.filter import Filter
from nri_scope.recording.reader import Recording
from nri_scope.recording.timeline import Item

_HELD_MAX = 10_000
"""Maximum number of items that wait for the end of the operation before them."""


class OperationMerger:
    """Merger of items: each operation is yielded once no event of it can follow."""

    def __init__(self, recording: Recording, where: Filter | None, last: int | None) -> None:
        """``where``: filter that one event of an operation must pass. ``last``: maximum number of
        operations of the first call. Raises RecordingError.
        """
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
                self._held.append(item)
            elif (first := self._grouping.first_of(item)) == item.id:
                if self._grouping.begins(item):
                    yield from self._finish()
                    self._open = [item]
                else:
                    self._held += self._operation([item])
            elif self._open and self._open[0].id == first:
                self._open.append(item)
            if not self._open or len(self._held) > _HELD_MAX:
                yield from self._finish()
        if ended or not self._grouping.goes_on:
            yield from self._finish()

    def _finish(self) -> Iterator[Item | Operation]:
        if self._open:
            yield from self._operation(self._open)
        yield from self._held
        self._open, self._held = [], []

    def _operation(self, events: list[Event]) -> list[Operation]:
        if self._where is not None and not any(map(self._where.matches, events)):
            return []
        return [Operation.of(events, self._grouping.sessions)]
