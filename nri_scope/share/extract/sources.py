# SPDX-License-Identifier: Apache-2.0
"""The rows of the original that a new recording includes."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from nri_scope.errors import RecordingError
from nri_scope.events import Printed
from nri_scope.recording.reader import Recording
from nri_scope.recording.tap_tables import printed

from .event_numbers import is_among
from .row_pages import Numbers, pages


@dataclass(slots=True)
class IncludedRows:
    """Rows of a recording, by number. None instead of a collection means all rows."""

    until: int
    """The last event that was examined; later events are unknown."""
    chosen: Sequence[int] | None = None
    """Numbers of the chosen events, ascending like `kept`."""
    kept: Sequence[int] | None = None
    """Numbers of the chosen events and their context."""
    sessions: Collection[int] | None = None
    pods: Collection[int] | None = None
    containers: Collection[int] | None = None
    whole_states: Sequence[int] = field(default_factory=lambda: array("q"))
    """Chosen Synchronize requests, whose whole state is copied."""
    damage: RecordingError | None = None
    """The reason why `until` is not the last event."""

    def is_chosen(self, event: int) -> bool:
        """Return whether a kept event was chosen; otherwise it is context."""
        return self.chosen is None or is_among(self.chosen, event)

    def stop(self, before: int, damage: RecordingError) -> None:
        """Exclude a damaged event and all later ones."""
        self.until = min(self.until, before - 1)
        self.damage = self.damage or damage


def printed_in(source: Recording, part: IncludedRows) -> Iterator[Printed]:
    """Yield the part's lines in order. Raises RecordingError.

    A line is assumed to concern the last request to the plugin, so lines after an omitted event are
    omitted, too. Lines before the first event of a session are included.
    """
    if part.kept is None and part.damage is None:
        for line in printed(source):
            if part.sessions is None or line.session in part.sessions:
                yield line
        return
    newest: dict[int, int] = {}
    events = _NewestEvents(source, newest)
    for line in printed(source):
        if part.sessions is not None and line.session not in part.sessions:
            continue
        events.advance_to(line.at_ns)
        event = newest.get(line.session)
        if event is None or (
            event <= part.until and (part.kept is None or is_among(part.kept, event))
        ):
            yield line


class _NewestEvents:
    """Iteration over events that stores the newest event of each session in ``newest``."""

    def __init__(self, source: Recording, newest: dict[int, int]) -> None:
        self._newest = newest
        self._rows = self._all(source)
        self._next = next(self._rows, None)

    def advance_to(self, at_ns: int) -> None:
        """Process all events up to this time."""
        while self._next is not None:
            number, session, at = self._next
            if at is not None and at > at_ns:
                return
            if number is not None and session is not None:
                self._newest[session] = number
            self._next = next(self._rows, None)

    def _all(self, source: Recording) -> Iterator[Numbers]:
        query = "SELECT id, session, at_ns FROM event WHERE id > ? ORDER BY id LIMIT ?"
        for page in pages(source, query):
            yield from page
