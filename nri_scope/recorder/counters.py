# SPDX-License-Identifier: Apache-2.0
"""Counters of a recorder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nri_scope.recording.display import many


@dataclass(frozen=True, slots=True)
class RecorderCounters:
    """Numbers of recorded, filtered, lost and removed events, and of gaps and bytes."""

    recorded: int = 0
    """Number of events written to the file."""
    filtered: int = 0
    """Number of events that ``keep`` rejected."""
    lost: int = 0
    """Number of lost events, without gaps of unknown size."""
    gaps: int = 0
    bytes_on_wire: int = 0
    """Payload bytes of all received requests and replies, recorded or not."""
    removed: int = 0
    """Number of recorded events that the ring has removed."""

    def outcome(self, path: Path, *, sessions: int, seconds: float) -> str:
        """Return ``recorded 32 events in 1 session over 5 s, 0 gaps: PATH``, plus the numbers of
        lost and removed events if there are any.
        """
        lost = f" ({many(self.lost, 'event')} lost)" if self.lost else ""
        removed = f", {many(self.removed, 'event')} removed again" if self.removed else ""
        return (
            f"recorded {many(self.recorded, 'event')} in {many(sessions, 'session')} "
            f"over {seconds:.0f} s{removed}, {many(self.gaps, 'gap')}{lost}: {path}"
        )
