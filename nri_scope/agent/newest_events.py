# SPDX-License-Identifier: Apache-2.0
"""Choose the newest events of several recordings, with 48 bytes of memory for each."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, repeat

from nri_scope.recording.reader import Recording
from nri_scope.share.extract import Selection

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
