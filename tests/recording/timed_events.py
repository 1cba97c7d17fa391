# SPDX-License-Identifier: Apache-2.0
"""A recording of events at given times, and of a gap."""

from __future__ import annotations

from pathlib import Path

from nri_scope.recorder.writer import Recorder
from tests.recording.recordings import PLUGIN, a_start, captured

ITEMS = [item for plugin, item in captured() if plugin == PLUGIN]
SECOND = 10**9
DAY = 86_400 * SECOND
START = 1_780_300_800 * SECOND
"""2026-06-01T08:00:00Z."""
SPREAD = [0, 0, 1, 1, SECOND, 30 * SECOND, 60 * SECOND, 90 * SECOND, 600 * SECOND, 3600 * SECOND]


def write(path: Path, *at_ns: int) -> Path:
    """Write a recording of events at these times, and of a gap after the second one."""
    recorder = Recorder.open(path)
    session = recorder.begin_session(a_start(started_ns=at_ns[0]))
    for number, at in enumerate(at_ns):
        recorder.capture(session, ITEMS[number % len(ITEMS)]._replace(wall_ns=at))
        if number == 1:
            recorder.note_gap(session, at + 1, at + 2, "the disk is full", 3)
    recorder.end_session(session, "done", max(at_ns))
    recorder.close()
    return path
