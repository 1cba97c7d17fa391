# SPDX-License-Identifier: Apache-2.0
"""The time span of a recording, on which relative times and times without a date depend."""

from __future__ import annotations

from nri_scope.errors import RecordingError
from nri_scope.filter import Filter, TimeSpan

from .display import span
from .reader import Recording
from .sqlite_errors import query_numbers


def time_span(recording: Recording) -> TimeSpan | None:
    """Return the times of the first and the last event; None without events.

    If the newest event cannot be read, the first one counts as the last. Raises RecordingError.
    """
    first = _time(recording, "ASC")
    if first is None:
        return None
    try:
        last = _time(recording, "DESC")
    except RecordingError:
        last = None
    return TimeSpan(first, first if last is None else last)


def _time(recording: Recording, order: str) -> int | None:
    rows = query_numbers(recording, f"SELECT at_ns FROM event ORDER BY id {order} LIMIT 1")
    return rows[0][0] if rows else None


def within(recording: Recording, where: Filter | None) -> Filter | None:
    """Return ``where`` with the times that it means in a recording. Raises FilterError, and
    RecordingError.
    """
    if where is None or "time" not in where.fields:
        return where
    return where.within(time_span(recording))


def range_words(recording: Recording) -> str:
    """Say which time range a recording has, for a selection without a match."""
    return span_words(time_span(recording))


def span_words(times: TimeSpan | None) -> str:
    """Say which time range a recording has."""
    if times is None:
        return "the recording has no events"
    return f"the recording has events from {span(*times)}"
