# SPDX-License-Identifier: Apache-2.0
"""What matters for one event gives the same as the whole recording does."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope.differ import RoundDiff, excerpt, reading
from nri_scope.recorder.display import subject
from nri_scope.recorder.reader import Recording
from tests.replay.recordings import of_capture


@pytest.mark.parametrize("capture", ["containerd-1.7.24", "cri-o-1.37"])
def test_the_round_of_every_event_is_the_one_of_the_whole_recording(
    tmp_path: Path, capture: str
) -> None:
    with Recording.open(of_capture(capture, tmp_path / "r.nriscope.db")) as recording:
        whole: dict[int, RoundDiff] = {
            number: one for one in reading.rounds(recording) for number in one.events
        }
        assert any(one.steps for one in whole.values())
        for event in recording.events():
            found = excerpt.of_event(recording, event, lambda: None)
            assert found.round_of(event.id) == whole.get(event.id)
            if event.container:
                assert found.name_of(event.container_id) == subject(event)
            elif event.pod:
                assert found.name_of(event.pod_id) == subject(event)


def test_a_containers_history_is_the_one_of_blame(tmp_path: Path) -> None:
    with Recording.open(of_capture("containerd-2.1.9", tmp_path / "r.nriscope.db")) as recording:
        containers = recording.containers()
        assert len(containers) > 2
        for one in containers:
            found = excerpt.of_container(recording, one, lambda: None)
            assert found.history(one.id) == reading.blame(recording, one)
