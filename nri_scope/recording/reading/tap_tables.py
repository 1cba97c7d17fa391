# SPDX-License-Identifier: Apache-2.0
"""Read data about the transport of events, and the output of plugins.

Taps record processing time, metadata and output. Other connections record the trace context in the
metadata of requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from nri_scope.events import Event, Printed, Tapped

from ..file.sqlite_text import HIGHEST, characters_sql
from .reader import Recording
from .row_pages import pages_of
from .rows import optional_numbers_of, printed_of, tapped_of
from .sqlite_errors import recording_errors

LINE_MAX = 128 << 10
"""Maximum number of characters of a line of plugin output; taps truncate lines at 16 KiB."""
METADATA_MAX = 256 << 10
"""Maximum number of characters of an event's metadata, as JSON; recorders store less."""
_PAGE = 100
# An overlong text is not read: no recorder wrote it, and it may be larger than the memory.
_PRINTED = (
    f"SELECT id, session, at_ns, CASE WHEN {characters_sql('stream')} <= 16 THEN stream END, "
    f"CASE WHEN {characters_sql('text')} <= {LINE_MAX} THEN text END FROM output"
)
_METADATA = f"CASE WHEN {characters_sql('metadata')} > {METADATA_MAX} THEN '(too long)' "
_TABLES = (
    f"SELECT event, held_ns, {_METADATA} ELSE metadata END FROM tapped",
    f"SELECT event, NULL, {_METADATA} ELSE metadata END FROM request_metadata",
)


def tapped(recording: Recording, events: Sequence[int]) -> list[Tapped]:
    """Return the transport data of up to a few hundred events, ordered by event. Raises
    RecordingError.
    """
    listed = ", ".join(str(int(number)) for number in events)
    if not events:
        return []
    with recording_errors(recording):
        return [tapped_of(row) for row in recording.rows(_select(f"event IN ({listed})"))]


class Taps:
    """Transport data of events, read sequentially, in ascending order of events."""

    def __init__(self, recording: Recording) -> None:
        self._rows = _all(recording)
        self._next: Tapped | None = None
        self._began = False

    def of(self, event: int) -> Tapped | None:
        """Return the data of an event, or None. Raises RecordingError."""
        if not self._began:
            self._began = True
            self._next = next(self._rows, None)
        while self._next is not None and self._next.event < event:
            self._next = next(self._rows, None)
        return self._next if self._next is not None and self._next.event == event else None


def _all(recording: Recording) -> Iterator[Tapped]:
    query = _select("event > (SELECT after FROM bound)")
    query = f"WITH bound (after) AS (SELECT ?) {query} LIMIT ?"
    return chain.from_iterable(pages_of(tapped_of, recording, query, size=_PAGE))


def _select(condition: str) -> str:
    """Return a query of both tables, ordered by event."""
    union = " UNION ALL ".join(f"{select} WHERE {condition}" for select in _TABLES)
    return f"{union} ORDER BY event"


def printed(recording: Recording, after_id: int = 0) -> Iterator[Printed]:
    """Yield the lines of plugin output after id ``after_id``, in recorded order.

    Raises RecordingError.
    """
    query = f"{_PRINTED} WHERE id > ? ORDER BY id LIMIT ?"
    return chain.from_iterable(pages_of(printed_of, recording, query, after=after_id, size=_PAGE))


def printed_by(recording: Recording, event: Event, most: int) -> tuple[list[Printed], int]:
    """Return the plugin output between an event and the next event of the same session: the first
    ``most`` lines, and their total number. Raises RecordingError.
    """
    rows = recording.rows(
        "SELECT at_ns FROM event WHERE id > ? AND session = ? ORDER BY id LIMIT 1",
        (event.id, event.session),
    )
    with recording_errors(recording):
        (until,) = optional_numbers_of(rows[0]) if rows else (None,)
    condition = "session = ? AND at_ns >= ? AND at_ns < ?"
    values = (event.session, event.at_ns, HIGHEST if until is None else until)
    lines = recording.rows(f"{_PRINTED} WHERE {condition} ORDER BY id LIMIT ?", (*values, most))
    counted = recording.rows(f"SELECT count(*) FROM output WHERE {condition}", values)
    with recording_errors(recording):
        (count,) = optional_numbers_of(counted[0])
        return [printed_of(row) for row in lines], count or 0
