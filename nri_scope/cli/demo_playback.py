# SPDX-License-Identifier: Apache-2.0
"""Playback of ``nri-scope demo``: copy a recording event by event, slowly enough to follow."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, islice, pairwise
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from nri_scope.errors import UsageError
from nri_scope.recorder.complete_recording import start_of
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.entries import IncludedRows, Stopped, exchanges
from nri_scope.recording.lookup import container_name
from nri_scope.recording.row_pages import newest_event
from nri_scope.replay.playback import Pace

if TYPE_CHECKING:
    from nri_scope.recording.reader import Recording

PAUSE_MIN_S, PAUSE_MAX_S, TOTAL_MAX_S = 0.4, 2.0, 15.0
"""At speed 1: minimum and maximum seconds between two events, and maximum total duration."""
TOGETHER_NS = 3_000_000
"""Events with a smaller distance are shown together, such as one event at several plugins."""
EXAMPLE = "shop/web/app"
"""Container of the example commands, if the recording has it."""
EVENTS_MAX = 1_000
"""Maximum number of events to play, as a demo should be short."""


class Playback:
    """One playback of a recording into a new one.

    Times are shifted, so that the last event happens when the playback begins.
    """

    def __init__(self, recording: Recording, file: Path, speed: float, title: str = "") -> None:
        """Read ``recording``. Raises RecordingError, and UsageError if it has no events.

        ``title``: description of the events, if not of the recording that is bundled.
        """
        self.file = file
        self.title = title
        self.sessions = recording.sessions()
        part = IncludedRows(until=newest_event(recording))
        every = chain.from_iterable(exchanges(recording, part))
        try:
            self._calls = [(one.event.session, one.call) for one in islice(every, EVENTS_MAX)]
        except Stopped as stopped:
            raise stopped.cause from stopped
        if not self._calls:
            raise UsageError(f"{recording.path}: has no events", "choose another file")
        names = [container_name(one) for one in recording.containers()]
        self.container = EXAMPLE if EXAMPLE in names else names[-1] if names else ""
        """Container of the example commands."""
        self._pauses = demo_pauses([call.wall_ns for _, call in self._calls], speed)
        self.is_over = False
        """Whether playing has ended."""
        self.begun = 0
        """Number of sessions that began."""
        self.stopped = False
        """Whether it ended early."""
        self.problems: list[str] = []
        """Problems of the recorder, for the user."""
        self._numbers: dict[int, int] = {}
        """Numbers of the open sessions in the new recording, by their numbers in the original."""

    @property
    def count(self) -> int:
        """Number of events."""
        return len(self._calls)

    @property
    def seconds(self) -> float:
        """Duration."""
        return sum(self._pauses)

    def recorder(self) -> Recorder:
        """Create the new recording. Raises RecordingError."""
        return Recorder.open(self.file, on_problem=self.problems.append)

    async def play(self, recorder: Recorder) -> None:
        """Write all events. When cancelled, end the sessions there."""
        last = self._calls[-1][1]
        wall_ns, mono_ns = time.time_ns() - last.wall_ns, time.monotonic_ns() - last.mono_ns
        sessions = {session.id: session for session in self.sessions}
        at_ns = 0
        try:
            for (session, call), pause in zip(self._calls, self._pauses, strict=True):
                await asyncio.sleep(pause)
                self._end_sessions(recorder, call.wall_ns, wall_ns)
                if session not in self._numbers:
                    start = start_of(sessions[session])
                    shifted_start = replace(start, started_ns=start.started_ns + wall_ns)
                    self._numbers[session] = recorder.begin_session(shifted_start)
                    self.begun += 1
                at_ns = call.wall_ns + wall_ns
                shifted = call._replace(wall_ns=at_ns, mono_ns=call.mono_ns + mono_ns)
                recorder.capture(self._numbers[session], shifted)
            self._end_sessions(recorder, inf, wall_ns)
        except asyncio.CancelledError:
            self.stopped = True
            raise
        finally:
            for number in self._numbers.values():
                recorder.end_session(number, "the demo was stopped", at_ns)
            self.is_over = True

    def _end_sessions(self, recorder: Recorder, before_ns: float, shift_ns: int) -> None:
        """End the sessions that ended before a time."""
        for session in self.sessions:
            if session.ended_ns is not None and session.ended_ns < before_ns:
                number = self._numbers.pop(session.id, None)
                if number is not None:
                    at_ns = session.ended_ns + shift_ns
                    recorder.end_session(number, session.end_reason, at_ns)


def demo_pauses(times_ns: Sequence[int], speed: float) -> list[float]:
    """Return the seconds before each event: slow enough to follow, `TOTAL_MAX_S` in total."""
    pace = Pace(1.0, PAUSE_MIN_S, PAUSE_MAX_S)
    pauses = [0.0] + [
        0.0 if after - before < TOGETHER_NS else pace.pause(before, after)
        for before, after in pairwise(times_ns)
    ]
    factor = speed * max(1.0, sum(pauses) / TOTAL_MAX_S)
    return [pause / factor for pause in pauses]
