# SPDX-License-Identifier: Apache-2.0
"""The summary line of a finished recording."""

from __future__ import annotations

from pathlib import Path

from .counters import RecorderCounters


def outcome(path: Path, counters: RecorderCounters, *, sessions: int, seconds: float) -> str:
    """Return ``recorded 32 events in 1 session over 5 s, 0 gaps: PATH``, with the numbers of lost
    and removed events.
    """
    lost = f" ({counted(counters.lost, 'event')} lost)" if counters.lost else ""
    removed = f", {counted(counters.removed, 'event')} removed again" if counters.removed else ""
    return (
        f"recorded {counted(counters.recorded, 'event')} "
        f"in {counted(sessions, 'session')} over {seconds:.0f} s{removed}, "
        f"{counted(counters.gaps, 'gap')}{lost}: {path}"
    )


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 event``, ``2,000 events``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
