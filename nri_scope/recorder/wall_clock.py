# SPDX-License-Identifier: Apache-2.0
"""The offset of the wall clock."""

from __future__ import annotations

from time import monotonic_ns, time_ns


def wall_offset() -> int:
    """Return the current nanoseconds between the monotonic and the wall clock.

    Sessions of one recording are ordered by their times, so a pause of this process between reading
    the two clocks must not count: the quickest of three tries is used.
    """
    tries = []
    for _ in range(3):
        before, wall, after = monotonic_ns(), time_ns(), monotonic_ns()
        tries.append((after - before, wall - (before + after) // 2))
    return min(tries)[1]
