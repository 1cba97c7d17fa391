# SPDX-License-Identifier: Apache-2.0
"""Delta debugging: find a minimal set of items that still has a property of the whole set.

The algorithm is ddmin of Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing
Input" (2002): try parts, then the rest without each part, with ever smaller parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")


def fewest(items: Sequence[T], has_property: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return a subset of ``items``, in their order, from which no single item can be removed.

    ``has_property`` tests a subset, possibly empty; it must be true of all items together. It is
    called at most about ``len(items)`` squared times, and about twice the logarithm of that length
    if only one item matters. Its exceptions end the search.
    """
    left = list(items)
    if not left or has_property([]):
        return []
    parts = min(2, len(left))
    while len(left) > 1:
        chunks = _split(left, parts)
        smaller = _first(chunks, has_property)
        if smaller is not None:
            left, parts = smaller, 2
            continue
        # With two parts, the rest without one part is the other part.
        rests = [_without(chunks, at) for at in range(len(chunks))] if parts > 2 else []
        smaller = _first(rests, has_property)
        if smaller is not None:
            left, parts = smaller, max(parts - 1, 2)
        elif parts == len(left):
            break
        else:
            parts = min(2 * parts, len(left))
    return left


def _split(items: list[T], parts: int) -> list[list[T]]:
    """Split evenly; no part is empty unless there are more parts than items."""
    ends = [len(items) * number // parts for number in range(parts + 1)]
    return [items[start:end] for start, end in pairwise(ends)]


def _without(chunks: Sequence[list[T]], left_out: int) -> list[T]:
    return [item for at, chunk in enumerate(chunks) if at != left_out for item in chunk]


def _first(
    candidates: Sequence[list[T]], has_property: Callable[[Sequence[T]], bool]
) -> list[T] | None:
    return next((candidate for candidate in candidates if has_property(candidate)), None)
