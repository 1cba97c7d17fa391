# SPDX-License-Identifier: Apache-2.0
"""What a new recording came to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Extracted:
    """A finished recording, and what is in it."""

    path: Path
    events: int
    """Events that were chosen."""
    context: int
    """Events that came along, so that the chosen ones can be replayed and compared."""
    left_out: int
    """Events of the original that are in neither."""
    sessions: int
    pods: int
    containers: int
    gaps: int
    first_ns: int | None
    """Wall clock of the first chosen event; None where there is none."""
    last_ns: int | None
    damage: str = ""
    """What is wrong with the original; the new recording has what came before. "": nothing."""
    learned: int = 0
    """Up to which event its `Change` has seen the original; 0 where there was none."""
