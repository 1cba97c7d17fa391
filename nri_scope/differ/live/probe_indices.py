# SPDX-License-Identifier: Apache-2.0
"""Indices for probes so that each plugin of a chain is alone between two of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import pairwise

FIRST_PLACES = ("00", "50", "99")
"""As long as the chain is not known."""
MOST = 16
"""Probes at one time. Each of them takes the runtime some 0.1 ms of every event."""


def places(chain: Iterable[str], now: Collection[str] = ()) -> tuple[str, ...]:
    """Return the indices for probes, ascending, given those of the plugins of a chain.

    Always 00 and 99, and one between any two neighbouring plugins where an index is free; where
    none is, no probe can look between them. Of several free ones it is one of ``now``, where there
    are probes already, else the middle. With more than `MOST` places, some in between are left
    out, evenly.
    """
    plugins = sorted({int(index) for index in chain})
    kept = {int(index) for index in now}
    between: list[int] = []
    for one, other in pairwise(plugins):
        free = range(one + 1, other)
        if free:
            between.append(next((i for i in free if i in kept), (one + other) // 2))
    if len(between) > MOST - 2:
        between = [between[n * len(between) // (MOST - 2)] for n in range(MOST - 2)]
    return tuple(f"{index:02d}" for index in sorted({0, *between, 99}))
