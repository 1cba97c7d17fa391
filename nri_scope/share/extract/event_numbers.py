# SPDX-License-Identifier: Apache-2.0
"""Sorted arrays of event numbers, which take 8 bytes per number instead of 80 in a set."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from operator import lt

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


def listed(numbers: Iterable[int]) -> str:
    """Return numbers as a parenthesized SQL list, for the operator IN."""
    return f"({', '.join(str(int(number)) for number in numbers)})"
