# SPDX-License-Identifier: Apache-2.0
"""The result of an extraction."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Extracted:
    """A finished recording, with counts of its content."""

    path: Path
    events: int
    """Events that were chosen."""
    context: int
    """Events added so that the chosen ones can be replayed and compared."""
    left_out: int
    """Events of the original that were not copied."""
    sessions: int
    pods: int
    containers: int
    gaps: int
    first_ns: int | None
    """Wall clock of the first chosen event; None where there is none."""
    last_ns: int | None
    damage: str = ""
    """The damage of the original; the new recording has what came before. "" for none."""
    learned: int = 0
    """The last event of the original that its `Change` has seen; 0 for none."""
