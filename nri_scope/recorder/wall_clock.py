# SPDX-License-Identifier: Apache-2.0
"""The offset of the wall clock."""

from __future__ import annotations

from time import monotonic_ns, time_ns


def wall_offset() -> int:
    """Return the wall clock minus the monotonic clock, in nanoseconds.

    Sessions of one recording are ordered by time, so the result must not depend on a pause of this
    process between reading the two clocks: the fastest of three measurements is used.
    """
    measured = []
    for _ in range(3):
        before, wall, after = monotonic_ns(), time_ns(), monotonic_ns()
        measured.append((after - before, wall - (before + after) // 2))
    return min(measured)[1]
