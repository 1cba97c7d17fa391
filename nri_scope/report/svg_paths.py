# SPDX-License-Identifier: Apache-2.0
"""Convert numbers to SVG paths, which contain no text from a recording."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from .report_data import Lane, Mark, Timeline

HEIGHT = 40
"""Height of the bars of event counts, in units of the viewBox."""
_LEAST_NS = 10_000
"""Start of the scale of times: 10 µs."""
BAR = 100
"""Length of that scale, in units of the viewBox."""


def bars(counts: Sequence[int], most: int) -> str:
    """Return a path of columns with heights proportional to the counts; `most` has full height."""
    parts: list[str] = []
    for place, count in enumerate(counts):
        if count:
            # The minimum height makes every count visible.
            height = max(2.0, HEIGHT * count / max(1, most))
            parts.append(f"M{place} {HEIGHT}v{-height:.1f}h1V{HEIGHT}z")
    return "".join(parts)


def dots(lane: Lane, kind: Mark) -> str:
    """Return a path of zero-length lines, which round caps turn into dots of constant size."""
    return "".join(f"M{place} 10h0" for place, mark, _ in lane.marks if mark is kind)


def spans(found: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return starts and widths, of at least one column."""
    return [(begin, max(1, end - begin)) for begin, end in found]


def log_place(ns: int, deadline_ns: int) -> float:
    """Return a time's place on a logarithmic scale from 10 µs to the deadline, at most `BAR`."""
    if ns <= _LEAST_NS or deadline_ns <= _LEAST_NS:
        return 0.0
    place = BAR * math.log(ns / _LEAST_NS) / math.log(deadline_ns / _LEAST_NS)
    return round(min(place, float(BAR)), 1)


def ticks(timeline: Timeline, count: int = 5) -> list[int]:
    """Return evenly spaced times from the first to the last, in ns."""
    span = timeline.last_ns - timeline.first_ns
    return [timeline.first_ns + span * number // (count - 1) for number in range(count)]
