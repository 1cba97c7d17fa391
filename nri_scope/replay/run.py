# SPDX-License-Identifier: Apache-2.0
"""Perform a replay: recording in, result out."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic_ns

from nri_scope.errors import UsageError
from nri_scope.recording.reading.reader import Recording
from nri_scope.runtime import NO_DEADLINE_MS, RECORDED, Profile, profile_named
from nri_scope.transport.loop import run_interruptibly

from .playback import PlaybackOptions, ReplayListener
from .plugin_command import PluginCommand
from .plugins import PluginSet
from .result import Replayed
from .script import ReplaySelection, Script
from .session import ReplayRecorder, ReplayRun


@dataclass(frozen=True, slots=True)
class Job:
    """Arguments of a replay."""

    recording: Path
    plugin_set: PluginSet
    selection: ReplaySelection = field(default_factory=ReplaySelection)
    playback: PlaybackOptions = field(default_factory=PlaybackOptions)
    profile: str = RECORDED
    output: Path | None = None
    """Path for a recording of the replay; None for none."""
    keep: bool = True
    """Whether the result contains all events and containers. Otherwise, to save memory, it omits
    events, and containers that were removed without changes by plugins."""
    notes: Sequence[str] = ()
    """Remarks on the recording, for the caller to print when the replay begins."""
    ideal: bool = False
    """Whether launched plugins get Synchronize from any runtime; see `Profile`."""


async def replay(job: Job, audience: ReplayListener | None = None) -> Replayed:
    """Replay, and report each complete event to the audience.

    Raises `UsageError` for invalid arguments or failing plugins, and `RecordingError`.
    """
    began_ns = monotonic_ns()
    with ExitStack() as stack:
        recording = stack.enter_context(Recording.open(job.recording))
        script = Script(recording, job.selection)
        profile = profile_named(job.profile, script.profile)
        if job.ideal:
            profile = replace(profile, synchronizes_launched=True)
        if job.playback.timeout_s is not None:
            profile = _with_timeout(profile, job.playback.timeout_s)
        _check(job, profile)
        recorder = None
        if job.output is not None:
            if job.output.exists() or job.output.is_symlink():
                raise UsageError(f"{job.output}: file exists", "choose a new name after -o")
            recorder = ReplayRecorder(job.output, profile)
            stack.callback(recorder.close)
        replay_run = ReplayRun(
            script,
            profile,
            job.plugin_set,
            job.playback,
            audience or ReplayListener(),
            recorder,
            keep=job.keep,
        )
        result = await replay_run.perform()
    result.took_ns = monotonic_ns() - began_ns
    return result


def play(job: Job, audience: ReplayListener) -> Replayed:
    """Replay, as `run_interruptibly` does."""
    return run_interruptibly(lambda: replay(job, audience))


def _with_timeout(profile: Profile, seconds: float) -> Profile:
    """Return the profile with this deadline of requests; without one, plugins also have any time to
    register.
    """
    timeout_ms = max(round(min(seconds * 1000, NO_DEADLINE_MS)), 1)
    if timeout_ms == NO_DEADLINE_MS:
        profile = replace(profile, registration_timeout_ms=timeout_ms)
    return replace(profile, request_timeout_ms=timeout_ms)


def _check(job: Job, profile: Profile) -> None:
    if not job.playback.effects and job.profile != RECORDED:
        raise UsageError(
            f"effects=False and profile={job.profile} exclude each other: one sends requests as "
            "recorded, the other as that runtime does",
            "leave one of them out",
        )
    if job.playback.faults.split_sync and not profile.split_sync:
        raise UsageError(
            f"--fault split-sync is impossible: {profile.title} never splits Synchronize",
            "choose another --profile",
        )
    ids = [
        plugin.id
        for plugin in job.plugin_set.plugins
        if not (isinstance(plugin, PluginCommand) and plugin.external)
    ]
    if len({*ids}) < len(ids):
        raise UsageError("two plugins have the same index and name", "change one of the indices")
