# SPDX-License-Identifier: Apache-2.0
"""Numbers of events in order: eight bytes each, where a set would take eighty."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge

CHUNK = 500
"""Events that are read together."""


def ascending(numbers: Iterable[int]) -> array[int]:
    """The numbers in order, each once."""
    return array("q", sorted(set(numbers)))


def joined(one: Iterable[int], other: Iterable[int]) -> array[int]:
    """Two ascending sequences as one."""
    found = array("q")
    newest: int | None = None
    for number in merge(one, other):
        if number != newest:
            found.append(number)
            newest = number
    return found


def is_among(numbers: Sequence[int], number: int) -> bool:
    """Whether ascending ``numbers`` have this one."""
    at = bisect_left(numbers, number)
    return at < len(numbers) and numbers[at] == number


def chunks(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    """Some at a time."""
    return (numbers[start : start + CHUNK] for start in range(0, len(numbers), CHUNK))


def listed(numbers: Iterable[int]) -> str:
    """For ``IN`` in SQL."""
    return f"({', '.join(str(int(number)) for number in numbers)})"
