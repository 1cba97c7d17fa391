# SPDX-License-Identifier: Apache-2.0
"""A whole replay: recording in, result out."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic_ns

from nri_scope.errors import UsageError
from nri_scope.recording.reader import Recording
from nri_scope.runtime import RECORDED, Profile, profile_named

from .player import PlaybackOptions
from .plugins import Casting
from .progress import Audience
from .replay_recording import Tape
from .result import Replayed
from .script import ReplaySelection, Script
from .session import Performance


@dataclass(frozen=True, slots=True)
class Job:
    """The arguments of a replay."""

    recording: Path
    casting: Casting
    selection: ReplaySelection = field(default_factory=ReplaySelection)
    playback: PlaybackOptions = field(default_factory=PlaybackOptions)
    profile: str = RECORDED
    rounds: int = 1
    """Number of times that everything is played; the runtime restarts in between."""
    output: Path | None = None
    """Path of a recording of the run."""
    keep: bool = True
    """Whether the result keeps all events and containers. Otherwise events, and ended containers
    without changes by plugins, are discarded once reported, which saves memory."""


async def replay(job: Job, audience: Audience | None = None) -> Replayed:
    """Replay, and report each complete event to the audience.

    Raises `UsageError` if that is impossible, and `RecordingError` for a faulty recording.
    """
    began_ns = monotonic_ns()
    with ExitStack() as stack:
        recording = stack.enter_context(Recording.open(job.recording))
        script = Script(recording, job.selection)
        profile = profile_named(job.profile, script.profile)
        _check(job, profile)
        tape = None
        if job.output is not None:
            if job.output.exists() or job.output.is_symlink():
                raise UsageError(
                    f"{job.output}: there is such a file already", "choose a new name after -o"
                )
            tape = Tape(job.output, profile)
            stack.callback(tape.close)
        performance = Performance(
            script, profile, job.casting, job.playback, audience or Audience(), tape, keep=job.keep
        )
        result = await performance.perform(job.rounds)
    result.took_ns = monotonic_ns() - began_ns
    return result


def _check(job: Job, profile: Profile) -> None:
    if not job.playback.effects and job.profile != RECORDED:
        raise UsageError(
            f"--no-effects plays what was recorded as it was, not as {job.profile} would send it",
            "leave one of the two out",
        )
    if job.playback.faults.split_sync and not profile.split_sync:
        raise UsageError(
            f"{profile.title} never splits Synchronize, so --fault split-sync cannot be",
            "choose another --profile",
        )
    twice = {one.id for one in job.casting.plugins}
    if len(twice) < len(job.casting.plugins):
        raise UsageError("two plugins have the same index and name", "give one another index")
