# SPDX-License-Identifier: Apache-2.0
"""Search events for a text, forwards or backwards, and for the first problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from nri_scope.events import EVENT_TEXTS
from nri_scope.filter.sql import PATH_LABEL
from nri_scope.filter.text_comparison import fold

from ..reading.reader import Recording
from ..reading.sqlite_errors import query_column, query_numbers
from .event_pages import AMONG, listed

_STEP = 4_000
PART_EVENTS = 500
"""Number of events that are searched between two reports of progress."""
_SEPARATOR = "x'0a'"
_TEXT = f" || {_SEPARATOR} || ".join(
    (
        "event",
        "namespace || '/' || pod || '/' || container",
        "plugin",
        "container_id",
        "pod_id",
        "status",
        *EVENT_TEXTS,
        "mark",
        "changed",
        "CASE changed WHEN '[]' THEN '' ELSE coalesce((SELECT group_concat("
        f"{PATH_LABEL}(value), {_SEPARATOR}) FROM json_each(changed)), '') END",
        "owners",
    )
)
_HAS = f"instr(lower({_TEXT}), ?) > 0"


def first_problem(recording: Recording) -> int:
    """Return the number of the first failed or slow event; 0 if there is none.

    Raises RecordingError.
    """
    rows = query_column(recording, "SELECT id FROM events WHERE problem != '' ORDER BY id LIMIT 1")
    return rows[0] if rows else 0


@dataclass(frozen=True, slots=True)
class SearchStep:
    """Step of a search."""

    share: float
    """Completed fraction of the search, 0 to 1."""
    found: int | None = None
    """Id of the event found, which ends the search; None if none yet."""


def among_all(
    recording: Recording, text: str, start: int, end: int, *, forwards: bool
) -> Iterator[SearchStep]:
    """Search the events from ``start`` to ``end``, both included. Raises RecordingError.

    For a search backwards, ``end`` is the smaller id.
    """
    needle = fold(text)
    whole = abs(end - start) + 1
    position = start
    sign = 1 if forwards else -1
    compare, order = (">=", "ASC") if forwards else ("<=", "DESC")
    while (end - position) * sign >= 0:
        # Continue at the next existing event, as there may be large ranges without events.
        query = f"SELECT id FROM event WHERE id {compare} ? ORDER BY id {order} LIMIT 1"
        some = query_numbers(recording, query, position)
        if not some or (end - some[0][0]) * sign < 0 or (some[0][0] - position) * sign < 0:
            return
        position = some[0][0]
        last = min(end, position + _STEP) if forwards else max(end, position - _STEP)
        low, high = min(position, last), max(position, last)
        numbers = query_numbers(
            recording,
            f"SELECT id FROM events WHERE id >= ? AND id <= ? AND {_HAS} "
            f"ORDER BY id {order} LIMIT 1",
            low,
            high,
            needle,
        )
        position = last + sign
        yield SearchStep(
            min(1.0, abs(position - start) / whole), numbers[0][0] if numbers else None
        )
        if numbers:
            return


def among_some(
    recording: Recording,
    text: str,
    rows: Sequence[int],
    events_of: Callable[[Sequence[int]], Sequence[int]],
    *,
    forwards: bool,
) -> Iterator[SearchStep]:
    """Search the events of rows in this order, or backwards from the last row.

    ``events_of``: returns the ascending ids of the events of some rows. Raises RecordingError.
    """
    needle = fold(text)
    order = "ASC" if forwards else "DESC"
    for done in range(0, len(rows), PART_EVENTS):
        stop = len(rows) - done
        events = events_of(
            rows[done : done + PART_EVENTS] if forwards else rows[max(0, stop - PART_EVENTS) : stop]
        )
        share = min(1.0, (done + PART_EVENTS) / len(rows))
        parts = [events[low : low + PART_EVENTS] for low in range(0, len(events), PART_EVENTS)]
        for some in parts if forwards else reversed(parts):
            numbers = query_numbers(
                recording,
                f"SELECT id FROM events WHERE {AMONG} AND {_HAS} ORDER BY id {order} LIMIT 1",
                listed(some),
                needle,
            )
            yield SearchStep(share, numbers[0][0] if numbers else None)
            if numbers:
                return


def events_with(
    recording: Recording, column: str, after: int, most: int, *, forwards: bool
) -> list[int]:
    """Return the next ``most`` events after or before an event that have a problem or a request.

    ``column``: ``problem`` or ``changed``. Raises RecordingError.
    """
    condition = {"problem": "problem <> ''", "changed": "changed IS NOT NULL"}[column]
    compare, order = (">", "ASC") if forwards else ("<", "DESC")
    return query_column(
        recording,
        f"SELECT id FROM changes WHERE id {compare} ? AND {condition} ORDER BY id {order} LIMIT ?",
        after,
        most,
    )
