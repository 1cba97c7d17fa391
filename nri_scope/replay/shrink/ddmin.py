# SPDX-License-Identifier: Apache-2.0
"""Delta debugging: the fewest of many things that still have a property all of them have.

The algorithm is ddmin of Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing
Input" (2002): try parts, then what is left without a part, with ever smaller parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")


def fewest(items: Sequence[T], shows: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return some of ``items``, in their order, of which no single one can be left out any more.

    ``shows`` says whether some of them have the property, which all together are known to have;
    of none at all it is asked too. It is asked at most about ``len(items)`` squared times, and
    about twice the logarithm where one item is all that matters. What it raises ends the search.
    """
    left = list(items)
    if not left or shows([]):
        return []
    parts = min(2, len(left))
    while len(left) > 1:
        chunks = _split(left, parts)
        smaller = _first(chunks, shows)
        if smaller is not None:
            left, parts = smaller, 2
            continue
        # With two parts, the rest without one is the other one.
        rests = [_without(chunks, at) for at in range(len(chunks))] if parts > 2 else []
        smaller = _first(rests, shows)
        if smaller is not None:
            left, parts = smaller, max(parts - 1, 2)
        elif parts == len(left):
            break
        else:
            parts = min(2 * parts, len(left))
    return left


def _split(items: list[T], parts: int) -> list[list[T]]:
    """Split evenly; no part is empty as long as there are not more parts than items."""
    ends = [len(items) * number // parts for number in range(parts + 1)]
    return [items[start:end] for start, end in pairwise(ends)]


def _without(chunks: Sequence[list[T]], left_out: int) -> list[T]:
    return [item for at, chunk in enumerate(chunks) if at != left_out for item in chunk]


def _first(candidates: Sequence[list[T]], shows: Callable[[Sequence[T]], bool]) -> list[T] | None:
    return next((candidate for candidate in candidates if shows(candidate)), None)
