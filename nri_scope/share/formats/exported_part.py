# SPDX-License-Identifier: Apache-2.0
"""Read the part of a recording that is written in another format."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import IO

from nri_scope.events import Event, Gap, Note, OutcomeKind, Printed, Session
from nri_scope.recording.entries import IncludedRows, printed_in
from nri_scope.recording.reader import Recording
from nri_scope.recording.row_pages import ascending
from nri_scope.recording.sqlite_text import HIGHEST
from nri_scope.recording.tap_tables import Taps

KINDS = tuple(OutcomeKind)
"""Words that `requests_of` adds to recorded texts."""
_PAGE_EVENTS = 10_000
"""Maximum number of events per query."""


def requests_of(event: Event) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the paths that an event changed, and others that it asked for, with their outcomes.

    A path of another container is followed by ``of ns/pod/container``.
    """
    paths = tuple(
        f"{path} of {target}" if target else path
        for path, target in zip_longest(event.changed, event.targets)
    )
    others = zip_longest(paths[event.changes :], event.outcomes[event.changes :])
    asked = tuple(f"{path}: {kind}" if kind else path for path, kind in others)
    return paths[: event.changes], asked


def folder_of(stream: IO[bytes]) -> Path | None:
    """Return the folder of an output, for temporary files; None if it is no file."""
    name = getattr(stream, "name", None)
    return Path(name).parent if isinstance(name, str) and Path(name).is_file() else None


class Excerpt:
    """All events of a recording, or those with given numbers, with related rows.

    Every method raises RecordingError.
    """

    def __init__(self, recording: Recording, numbers: Iterable[int] | None) -> None:
        self._recording = recording
        self._allowance = recording.allowance()
        self._numbers = None if numbers is None else ascending(numbers)

    def events(self) -> Iterator[Event]:
        """Yield the events in recorded order."""
        for among in self._pages():
            yield from self._recording.events(among=among)

    def exchanges(self) -> Iterator[tuple[Event, bytes, bytes]]:
        """Yield the events with their requests and replies."""
        for among in self._pages():
            yield from self._recording.exchanges(among=among, allowance=self._allowance)
            if self._allowance.is_over:
                return

    def sessions(self) -> list[Session]:
        """Return all sessions of the recording, including those without events."""
        return self._recording.sessions()

    def gaps(self) -> list[Gap]:
        """Return the gaps, of any session, that overlap the time of the events.

        The lost events might have matched the selection.
        """
        since_ns, until_ns = self._time()
        return [
            gap
            for gap in self._recording.gaps()
            if gap.to_ns >= since_ns and gap.from_ns <= until_ns
        ]

    def notes(self) -> list[Note]:
        """Return the notes made during the time of the events."""
        since_ns, until_ns = self._time()
        return [note for note in self._recording.notes() if since_ns <= note.at_ns <= until_ns]

    def printed(self, sessions: Collection[int]) -> Iterator[Printed]:
        """Yield the lines that plugins of ``sessions`` printed during the events."""
        yield from printed_in(
            self._recording, IncludedRows(until=HIGHEST, kept=self._numbers, sessions=sessions)
        )

    def taps(self) -> Taps:
        """Return the observations of taps about the events."""
        return Taps(self._recording)

    def _pages(self) -> Iterator[array[int] | None]:
        if self._numbers is None:
            yield None
            return
        for start in range(0, len(self._numbers), _PAGE_EVENTS):
            yield self._numbers[start : start + _PAGE_EVENTS]

    def _time(self) -> tuple[float, float]:
        """Return the earliest and latest wall clock time of the first and last event, in ns."""
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
