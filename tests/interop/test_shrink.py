# SPDX-License-Identifier: Apache-2.0
"""``shrink`` with a plugin on upstream's library that has two different panics."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope.recording.reader import Recording
from nri_scope.replay.chain import Command
from nri_scope.replay.golden import Golden
from nri_scope.replay.playback import PlaybackOptions
from nri_scope.replay.plugins import PluginSet
from nri_scope.replay.run import Job, replay
from nri_scope.replay.script import ReplaySelection
from nri_scope.replay.shrink import Limits, Shrinking, ShrinkJob, Shrunk
from nri_scope.transport.loop import run
from tests.interop.build import Variant, build
from tests.replay.recordings import container, life, recording, run_pod


@pytest.mark.parametrize("with_golden", [False, True])
def test_a_different_panic_at_the_same_event_does_not_match(
    variant: Variant, with_golden: bool, tmp_path: Path
) -> None:
    """The plugin has a different panic if no container was created before."""
    one, app = container("sidecar"), container("app")
    path = recording(tmp_path / "r.nriscope.db", [run_pod(), *life(one), *life(app)])
    golden = None
    if with_golden:
        replayed = run(replay(_job(path, variant)))
        golden = Golden.of(replayed.replies(), replayed.origin, replayed.name_of)
    shrunk = _shrunk(path, variant, "app", golden)
    with Recording.open(path) as opened:
        left = [f"{e.event} {e.container}".strip() for e in opened.events(among=shrunk.numbers)]
    assert [one for one in left if one != "Synchronize"] == [
        "RunPodSandbox",
        "CreateContainer sidecar",
        "CreateContainer app",
    ]
    assert "panic: assignment to entry in nil map at main.(*plugin).panic" in (
        shrunk.failure.check.signature
    )
    assert shrunk.failure.is_stable


def _shrunk(path: Path, variant: Variant, panics: str, golden: Golden | None) -> Shrunk:
    wanted = ShrinkJob(_job(path, variant, "-panic", panics), golden, 1, Limits())
    shrinking = Shrinking(wanted, lambda job, audience: run(replay(job, audience)))
    return shrinking.shrink(shrinking.confirm(), lambda progress: None)


def _job(path: Path, variant: Variant, *arguments: str) -> Job:
    command = Command("10", "p", (str(build(variant).plugin), *arguments))
    return Job(path, PluginSet((command,)), ReplaySelection(), PlaybackOptions(), "recorded")
