# SPDX-License-Identifier: Apache-2.0
"""Pauses between played events."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class Pace:
    """Pause between two events: as recorded, within bounds."""

    speed: float = 1.0
    """Speed factor: 2 is twice as fast, infinity does not wait."""
    min_s: float = 0.0
    """Minimum pause in seconds, before division by `speed`."""
    max_s: float = inf
    """Maximum pause in seconds, before division by `speed`."""

    def pause(self, before_ns: int, next_ns: int) -> float:
        """Return the seconds to wait between events stored at these times."""
        gap = (next_ns - before_ns) / 1e9
        return min(max(gap, self.min_s), self.max_s) / self.speed
