# SPDX-License-Identifier: Apache-2.0
"""Tests of the recordings in ``recordings/``, which were made with the runtimes of these tests."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from nri_scope.differ.blame.owned_lines import FinalOwners
from nri_scope.differ.recording_differ import histories
from nri_scope.events import Role
from nri_scope.recording.reading.reader import Recording
from scripts.scenes import SCENES
from tests.runtime.testbed import demo_plugins
from tests.runtime.testbed.containerd import running
from tests.runtime.testbed.packages import Binaries
from tests.sample_names import (
    API,
    CHECKOUT,
    CHECKOUT_API,
    NIGHTLY,
    NODE,
    PROXY,
    REPLICA_POD,
    REPORT,
    UPLOAD,
)

FOLDER = Path(__file__).parents[2] / "recordings"
FILES = sorted(FOLDER.glob("containerd-*.nriscope.db"))
DEMO = FOLDER / "demo.nriscope.db"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.name))
def test_a_recording_is_small_and_contains_the_workload(file: Path) -> None:
    assert file.stat().st_size < 200_000
    with Recording.open(file) as recording:
        events = list(recording.events())
        assert recording.gaps() == []
        assert len(recording.sessions()) == 1
        names = {f"{pod.namespace}/{pod.name}" for pod in recording.pods()}
    assert names == {NODE, CHECKOUT, NIGHTLY}
    assert {event.status for event in events} == {"ok"}
    broken = [event.event for event in events if event.container == UPLOAD]
    assert broken == ["CreateContainer", "PostCreateContainer", "StopContainer", "RemoveContainer"]
    counts = Counter(event.event for event in events)
    assert counts["CreateContainer"] == counts["RemoveContainer"] == 4


def test_the_demo_has_owners_a_late_reply_and_a_conflict() -> None:
    assert DEMO.stat().st_size < 200_000
    with Recording.open(DEMO) as recording:
        events = list(recording.events())
        app = next(one for one in histories(recording).values() if one.name == CHECKOUT_API)
        sessions = recording.sessions()
    assert [session.plugin for session in sessions] == list(demo_plugins.PLUGINS)
    assert {session.role for session in sessions} == {Role.TAP}
    # The plugins were called one after the other, so the order of events is that of their times.
    assert [event.at_ns for event in events] == sorted(event.at_ns for event in events)
    assert str(FinalOwners(app).by_events("/process/env/FOO")[0]) == "30-env-injector"
    (late,) = [event for event in events if event.status == "timeout"]
    assert (late.plugin, late.pod, late.container) == ("40-image-check", REPLICA_POD, API)
    created = [event for event in events if event.event == "CreateContainer"]
    assert [one.plugin for one in created if one.id > late.id and one.container == PROXY] == [
        one for one in demo_plugins.PLUGINS if one != late.plugin
    ]
    failed = [one.plugin for one in created if one.container == REPORT]
    assert failed == list(demo_plugins.PLUGINS)[:5]


@pytest.mark.runtime
async def test_a_scene_can_be_recorded_again(binaries: Binaries, tmp_path: Path) -> None:
    file = tmp_path / "conflict.nriscope.db"
    async with running(binaries) as containerd:
        await SCENES["conflict"](containerd, file)
    with Recording.open(file) as recording:
        seen = Counter(event.plugin for event in recording.events() if event.container == API)
        counts = Counter(event.event for event in recording.events() if event.container == API)
    assert counts["CreateContainer"] == 4
    assert seen["50-nri-scope"] < seen["30-nri-scope"] == seen["00-nri-scope"]


def test_each_runtime_has_one_recording() -> None:
    assert [file.name.split(".nriscope")[0] for file in FILES] == [
        "containerd-1.7",
        "containerd-2.1",
    ]
    readme = (FOLDER / "README.md").read_text()
    assert all(f"`{file.name}`" in readme for file in FILES)
