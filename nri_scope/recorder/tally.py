# SPDX-License-Identifier: Apache-2.0
"""What a writer has done so far."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    """Counts so far; changed by one thread alone."""

    recorded: int = 0
    filtered: int = 0
    lost: int = 0
    gaps: int = 0
