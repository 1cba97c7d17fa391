# SPDX-License-Identifier: Apache-2.0
"""Rows by key, some at a time: up to the very row at which a file is damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nri_scope.errors import RecordingError
from nri_scope.recording.reader import Recording
from nri_scope.recording.rows import Row, ascending, number_of, optional_numbers_of
from nri_scope.recording.sqlite_errors import sound
from nri_scope.recording.sqlite_text import HIGHEST

PAGE = 2_000
"""Rows in one query: short, so that a signal is noticed and others get their turn."""
_LESS = 8

Numbers = tuple[int | None, ...]


def newest_event(source: Recording) -> int:
    """The last event's number; 0 where there is none, and more than any where that is damaged."""
    try:
        rows = source.rows("SELECT id FROM event ORDER BY id DESC LIMIT 1")
        with sound(source):
            return next((number_of(row) for row in rows), 0)
    except RecordingError:
        return HIGHEST


def pages(
    source: Recording,
    fetch: Callable[[int, int], list[Row]],
    *,
    after: int = 0,
    until: int = HIGHEST,
    size: int = PAGE,
) -> Iterator[list[Numbers]]:
    """Rows of numbers whose first column ascends from above ``after``, up to ``until``.

    ``fetch`` gets the key to begin behind, and how many rows it may give. Raises RecordingError,
    when everything before the damage was given.
    """
    limit = size
    while True:
        try:
            rows = fetch(after, limit)
        except RecordingError:
            # A query that meets the damage gives nothing of what it read before.
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
        # What comes after the last one is not even looked at: that may be where the damage is.
        if len(rows) < limit or rows[-1][0] >= until:
            return
        after = rows[-1][0]
