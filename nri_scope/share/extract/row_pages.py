# SPDX-License-Identifier: Apache-2.0
"""Read rows by key in pages, up to the exact row at which a file is damaged."""

from __future__ import annotations

from collections.abc import Iterator

from nri_scope.errors import RecordingError
from nri_scope.recording.reader import Recording
from nri_scope.recording.rows import ascending, number_of, optional_numbers_of
from nri_scope.recording.sqlite_errors import sound
from nri_scope.recording.sqlite_text import HIGHEST

PAGE = 2_000
"""Rows per query: few, so that signals are noticed soon and other threads can run."""
_LESS = 8

Numbers = tuple[int | None, ...]


def newest_event(source: Recording) -> int:
    """Return the last event's number: 0 without events, the highest possible number if damaged."""
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
    """Yield number rows whose ascending first column is above ``after`` and at most ``until``.

    ``query`` takes, after ``values``, the key after which to begin and the maximum number of rows.
    Raises RecordingError after yielding all rows before the damage.
    """
    limit = size
    while True:
        try:
            rows = source.rows(query, [*values, after, limit])
        except RecordingError:
            # A query that reaches the damage returns none of the rows read before.
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
