# SPDX-License-Identifier: Apache-2.0
"""The summary line of a finished recording."""

from __future__ import annotations

from pathlib import Path

from nri_scope.recording.display import many

from .counters import RecorderCounters


def outcome(path: Path, counters: RecorderCounters, *, sessions: int, seconds: float) -> str:
    """Return ``recorded 32 events in 1 session over 5 s, 0 gaps: PATH``, with the numbers of lost
    and removed events.
    """
    lost = f" ({many(counters.lost, 'event')} lost)" if counters.lost else ""
    removed = f", {many(counters.removed, 'event')} removed again" if counters.removed else ""
    return (
        f"recorded {many(counters.recorded, 'event')} "
        f"in {many(sessions, 'session')} over {seconds:.0f} s{removed}, "
        f"{many(counters.gaps, 'gap')}{lost}: {path}"
    )
