# SPDX-License-Identifier: Apache-2.0
"""Read rows by key in pages, up to the exact row at which the file is damaged.

Sorted numbers of events are arrays, which take 8 bytes for each instead of 80 in a set.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from operator import lt
from typing import TypeVar

from nri_scope.errors import RecordingError

from ..file.sqlite_text import HIGHEST
from .reader import Recording
from .rows import Row, number_of, optional_numbers_of
from .rows import ascending as in_order
from .sqlite_errors import recording_errors

PAGE = 2_000
"""Number of rows per query: small, so that signals are handled soon and other threads can run."""
_SHRINK_FACTOR = 8

Numbers = tuple[int | None, ...]
T = TypeVar("T")


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
    """Yield pages of integer rows; see `pages_of`."""
    yield from pages_of(
        optional_numbers_of, source, query, *values, after=after, until=until, size=size
    )


def pages_of(
    made: Callable[[Row], T],
    source: Recording,
    query: str,
    *values: int | str,
    after: int = 0,
    until: int = HIGHEST,
    size: int = PAGE,
) -> Iterator[list[T]]:
    """Yield pages of values ``made`` from rows whose ascending first column is above ``after``.

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
        page: list[T] = []
        try:
            with recording_errors(source):
                page.extend(made(row) for row in in_order(rows, (after,)))
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


CHUNK = 500
"""Number of events to read at a time."""


def ascending(numbers: Iterable[int]) -> array[int]:
    """Return the numbers sorted, without duplicates."""
    stored = array("q", numbers)
    # A set of a million numbers takes 80 MiB, and holds the GIL for 0.1 s.
    is_ascending = all(map(lt, stored, islice(stored, 1, None)))
    return stored if is_ascending else array("q", sorted(set(stored)))


def joined(first: Iterable[int], second: Iterable[int]) -> array[int]:
    """Merge two ascending sequences, without duplicates."""
    merged = array("q")
    newest: int | None = None
    for number in merge(first, second):
        if number != newest:
            merged.append(number)
            newest = number
    return merged


def is_among(numbers: Sequence[int], number: int) -> bool:
    """Return whether the ascending ``numbers`` contain ``number``."""
    index = bisect_left(numbers, number)
    return index < len(numbers) and numbers[index] == number


def chunks(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    """Split numbers into slices of `CHUNK`."""
    return (numbers[start : start + CHUNK] for start in range(0, len(numbers), CHUNK))
