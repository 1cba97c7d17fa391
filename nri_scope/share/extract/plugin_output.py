# SPDX-License-Identifier: Apache-2.0
"""Select the lines printed by plugins that belong to a part of a recording."""

from __future__ import annotations

from collections.abc import Iterator

from nri_scope.events import Printed
from nri_scope.recording.reader import Recording
from nri_scope.recording.tap_tables import printed

from .event_numbers import is_among
from .row_pages import Numbers, pages
from .sources import IncludedRows


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
