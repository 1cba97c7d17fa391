# SPDX-License-Identifier: Apache-2.0
"""Read rows by key in pages, up to the exact row at which the file is damaged."""

from __future__ import annotations

from collections.abc import Iterator

from nri_scope.errors import RecordingError
from nri_scope.recording.reader import Recording
from nri_scope.recording.rows import ascending, number_of, optional_numbers_of
from nri_scope.recording.sqlite_errors import recording_errors
from nri_scope.recording.sqlite_text import HIGHEST

PAGE = 2_000
"""Number of rows per query: small, so that signals are handled soon and other threads can run."""
_SHRINK_FACTOR = 8

Numbers = tuple[int | None, ...]


def newest_event(source: Recording) -> int:
    """Return the number of the last event; 0 without events, `HIGHEST` if it cannot be read."""
    try:
        rows = source.rows("SELECT id FROM event ORDER BY id DESC LIMIT 1")
        with recording_errors(source):
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
    """Yield pages of integer rows whose ascending first column is above ``after``.

    Stops after the page that reaches ``until``. The parameters of ``query`` are ``values``, the key
    after which to begin, and the maximum number of rows. Raises RecordingError after yielding all
    rows before the damage.
    """
    limit = size
    while True:
        try:
            rows = source.rows(query, [*values, after, limit])
        except RecordingError:
            # A query that reaches the damage returns no rows at all.
            if limit == 1:
                raise
            limit = max(1, limit // _SHRINK_FACTOR)
            continue
        page: list[Numbers] = []
        try:
            with recording_errors(source):
                page.extend(optional_numbers_of(row) for row in ascending(rows, (after,)))
        except RecordingError:
            if page:
                yield page
            raise
        if page:
            yield page
        # Do not read further than needed: later rows may be damaged.
        if len(rows) < limit or rows[-1][0] >= until:
            return
        after = rows[-1][0]
