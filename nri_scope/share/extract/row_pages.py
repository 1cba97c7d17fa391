# SPDX-License-Identifier: Apache-2.0
"""Read rows by key in pages: up to the very row at which a file is damaged."""

from __future__ import annotations

from collections.abc import Iterator

from nri_scope.errors import RecordingError
from nri_scope.recording.reader import Recording
from nri_scope.recording.rows import ascending, number_of, optional_numbers_of
from nri_scope.recording.sqlite_errors import sound
from nri_scope.recording.sqlite_text import HIGHEST

PAGE = 2_000
"""Rows in one query: few, so that a signal is noticed soon and other threads can run."""
_LESS = 8

Numbers = tuple[int | None, ...]


def newest_event(source: Recording) -> int:
    """Return the last event's number; 0 for none, and the highest possible one where damaged."""
    try:
        rows = source.rows("SELECT id FROM event ORDER BY id DESC LIMIT 1")
        with sound(source):
            return next((number_of(row) for row in rows), 0)
    except RecordingError:
        return HIGHEST


def pages(
    source: Recording,
    query: str,
    *values: int | str,
    after: int = 0,
    until: int = HIGHEST,
    size: int = PAGE,
) -> Iterator[list[Numbers]]:
    """Yield rows of numbers whose first column ascends from above ``after``, up to ``until``.

    ``query`` takes, after ``values``, the key after which to begin and the largest number of rows.
    Raises RecordingError, after everything before the damage was yielded.
    """
    limit = size
    while True:
        try:
            rows = source.rows(query, [*values, after, limit])
        except RecordingError:
            # A query that reaches the damage returns none of the rows that it read before.
            if limit == 1:
                raise
            limit = max(1, limit // _LESS)
            continue
        page: list[Numbers] = []
        try:
            with sound(source):
                page.extend(optional_numbers_of(row) for row in ascending(rows, (after,)))
        except RecordingError:
            if page:
                yield page
            raise
        if page:
            yield page
        # Rows after the last one are not read: they may be damaged.
        if len(rows) < limit or rows[-1][0] >= until:
            return
        after = rows[-1][0]
