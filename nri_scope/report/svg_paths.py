# SPDX-License-Identifier: Apache-2.0
"""Numbers as SVG paths: only digits and path letters, no text from a recording."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from .report_data import Lane, Mark, Timeline

HEIGHT = 40
"""Height of the drawing of event counts, in its own units."""
_LEAST_NS = 10_000
"""Start of the scale of times: 10 µs."""
BAR = 100
"""Length of that scale."""


def bars(counts: Sequence[int], most: int) -> str:
    """Draw columns with heights proportional to the counts, relative to `most`."""
    parts: list[str] = []
    for place, count in enumerate(counts):
        if count:
            # Every count above 0 must be visible.
            height = max(2.0, HEIGHT * count / max(1, most))
            parts.append(f"M{place} {HEIGHT}v{-height:.1f}h1V{HEIGHT}z")
    return "".join(parts)


def dots(lane: Lane, kind: Mark) -> str:
    """Draw points of zero length, which a round cap makes visible at any scale."""
    return "".join(f"M{place} 10h0" for place, mark, _ in lane.marks if mark is kind)


def spans(found: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return starts and widths, each at least one column wide."""
    return [(begin, max(1, end - begin)) for begin, end in found]


def log_place(ns: int, deadline_ns: int) -> float:
    """Return the place of a time on a logarithmic scale from 10 µs to its deadline, up to `BAR`."""
    if ns <= _LEAST_NS or deadline_ns <= _LEAST_NS:
        return 0.0
    place = BAR * math.log(ns / _LEAST_NS) / math.log(deadline_ns / _LEAST_NS)
    return round(min(place, float(BAR)), 1)


def ticks(timeline: Timeline, count: int = 5) -> list[int]:
    """Return evenly spaced moments, from the first to the last, in ns."""
    span = timeline.last_ns - timeline.first_ns
    return [timeline.first_ns + span * number // (count - 1) for number in range(count)]
