# SPDX-License-Identifier: Apache-2.0
"""The wall clock of a session."""

from __future__ import annotations

from time import monotonic_ns, time_ns


def wall_offset() -> int:
    """Nanoseconds between the monotonic and the wall clock, as of now.

    Sessions of one recording are put in order by their times, so a pause of this process between
    the looks at the two clocks must not count: of three tries the quickest one does.
    """
    tries = []
    for _ in range(3):
        before, wall, after = monotonic_ns(), time_ns(), monotonic_ns()
        tries.append((after - before, wall - (before + after) // 2))
    return min(tries)[1]
