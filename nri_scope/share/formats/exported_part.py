# SPDX-License-Identifier: Apache-2.0
"""Read the part of a recording that is written in another format."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import IO

from nri_scope.events import Event, Gap, Printed
from nri_scope.recording.file.sqlite_text import HIGHEST
from nri_scope.recording.reading.entries import IncludedRows, printed_in
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.row_pages import ascending
from nri_scope.recording.reading.tap_tables import Taps

from ..extract.omitted_events import OmittedEvents


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


class ExportedPart:
    """All events of a recording, or those with given numbers, with related rows.

    Every method raises RecordingError.
    """

    def __init__(self, recording: Recording, numbers: Iterable[int] | None) -> None:
        self._recording = recording
        self._numbers = None if numbers is None else ascending(numbers)

    def events(self) -> Iterator[Event]:
        """Yield the events in recorded order."""
        yield from self._recording.events(among=self._numbers)

    def exchanges(self) -> Iterator[tuple[Event, bytes, bytes]]:
        """Yield the events with their requests and replies."""
        yield from self._recording.exchanges(among=self._numbers)

    def gaps(self) -> list[Gap]:
        """Return all gaps, also those that stand for the events which were not selected: they tell
        what it means that there are no other events.
        """
        gaps = self._recording.gaps()
        if self._numbers is not None:
            omitted = OmittedEvents(self._recording, IncludedRows(HIGHEST, kept=self._numbers))
            for number in self._numbers:
                omitted.advance_to(number)
            omitted.finish()
            first = max((gap.id for gap in gaps), default=0) + 1
            gaps += (replace(gap, id=n) for n, gap in enumerate(omitted.holes.gaps(), first))
        return gaps

    def printed(self, sessions: Collection[int]) -> Iterator[Printed]:
        """Yield the lines that plugins of ``sessions`` printed during the events."""
        yield from printed_in(
            self._recording, IncludedRows(until=HIGHEST, kept=self._numbers, sessions=sessions)
        )

    def taps(self) -> Taps:
        """Return the observations of taps about the events."""
        return Taps(self._recording)
