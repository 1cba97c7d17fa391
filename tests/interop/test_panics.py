# SPDX-License-Identifier: Apache-2.0
"""Replays to a plugin on upstream's library that has two different panics."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope.replay.plugin_command import PluginCommand
from nri_scope.replay.plugins import PluginSet
from nri_scope.replay.replies import Verdict
from nri_scope.replay.run import Job, replay
from nri_scope.transport.loop import run
from tests.interop.build import Variant, build
from tests.replay.recordings import container, life, recording, run_pod


@pytest.mark.parametrize(
    ("panics", "words"),
    [
        ("sidecar", "panic: nothing was created before (in main.(*plugin).panic "),
        ("app", "panic: assignment to entry in nil map (in main.(*plugin).panic "),
    ],
)
def test_a_panic_is_named_with_its_place_in_the_plugins_own_code(
    variant: Variant, panics: str, words: str, tmp_path: Path
) -> None:
    one, app = container("sidecar"), container("app")
    path = recording(tmp_path / "r.nriscope.db", [run_pod(), *life(one), *life(app)])
    command = PluginCommand("10", "p", (str(build(variant).plugin), "-panic", panics))
    replayed = run(replay(Job(path, PluginSet((command,)))))
    (crash,) = (reply for reply in replayed.replies() if reply.verdict is Verdict.CRASH)
    assert (crash.event, crash.subject) == ("CreateContainer", f"shop/web/{panics}")
    assert words in crash.problem
