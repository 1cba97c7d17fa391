# SPDX-License-Identifier: Apache-2.0
"""The part of a recording that is to be written in another format."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise

from nri_scope.events import Event, Gap, Note, Printed, Session
from nri_scope.recording.reader import Recording
from nri_scope.recording.sqlite_text import HIGHEST
from nri_scope.recording.tap_tables import Taps

from ..extract.plugin_output import printed_in
from ..extract.sources import IncludedRows

_PAGE = 10_000
_TIMES = 2
"""How many times more may be taken apart than to be compared: it is written as it comes."""
"""Numbers of events that a recording is asked for at a time."""


class Excerpt:
    """Events of a recording by their numbers, or all of them, and what belongs to them.

    Every method raises RecordingError.
    """

    def __init__(self, recording: Recording, numbers: Iterable[int] | None) -> None:
        self._recording = recording
        self._allowance = recording.allowance(_TIMES)
        self._numbers = None if numbers is None else _ascending(numbers)

    def events(self) -> Iterator[Event]:
        """The events, in the order in which they were recorded."""
        for among in self._pages():
            yield from self._recording.events(among=among)

    def exchanges(self) -> Iterator[tuple[Event, bytes, bytes]]:
        """The events with their requests and replies."""
        for among in self._pages():
            yield from self._recording.exchanges(among=among, allowance=self._allowance)
            if self._allowance.is_over:
                return

    def sessions(self) -> list[Session]:
        """All sessions of the recording: whose the events are, they say themselves."""
        return self._recording.sessions()

    def gaps(self) -> list[Gap]:
        """Gaps that reach into the time of the events, of whatever session.

        What was lost could have been chosen.
        """
        since_ns, until_ns = self._time()
        return [
            gap
            for gap in self._recording.gaps()
            if gap.to_ns >= since_ns and gap.from_ns <= until_ns
        ]

    def notes(self) -> list[Note]:
        """Notes of the time of the events."""
        since_ns, until_ns = self._time()
        return [note for note in self._recording.notes() if since_ns <= note.at_ns <= until_ns]

    def printed(self, sessions: Collection[int]) -> Iterator[Printed]:
        """What plugins printed during the events; of these sessions, which have some."""
        yield from printed_in(
            self._recording, IncludedRows(until=HIGHEST, kept=self._numbers, sessions=sessions)
        )

    def taps(self) -> Taps:
        """What taps know of the events."""
        return Taps(self._recording)

    def _pages(self) -> Iterator[array[int] | None]:
        if self._numbers is None:
            yield None
            return
        for start in range(0, len(self._numbers), _PAGE):
            yield self._numbers[start : start + _PAGE]

    def _time(self) -> tuple[float, float]:
        """When the first event came and when the last one was answered."""
        if self._numbers is None:
            return float("-inf"), float("inf")
        ends = [self._recording.event(self._numbers[at]) for at in (0, -1) if self._numbers]
        times = [
            at_ns
            for event in ends
            if event is not None
            for at_ns in (event.at_ns, event.at_ns + event.took_ns)
        ]
        return min(times, default=float("inf")), max(times, default=float("-inf"))


def _ascending(numbers: Iterable[int]) -> array[int]:
    # Eight bytes each: they may be a million.
    given = array("q", numbers)
    if all(one < other for one, other in pairwise(given)):
        return given
    return array("q", sorted(set(given)))
