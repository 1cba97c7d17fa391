# SPDX-License-Identifier: Apache-2.0
"""The result of an extraction."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nri_scope.recording.bundle.manifest import Counts


@dataclass(frozen=True, slots=True)
class Extracted:
    """A finished recording, with counts of its content."""

    path: Path
    counts: Counts
    first_ns: int | None
    """Wall clock of the first chosen event; None where there is none."""
    last_ns: int | None
    damage: str = ""
    """The damage of the original; the new recording has what came before. "" for none."""
    learned: int = 0
    """The last event of the original that its `Change` has seen; 0 for none."""
