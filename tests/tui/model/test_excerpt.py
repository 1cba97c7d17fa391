# SPDX-License-Identifier: Apache-2.0
"""What matters for one event gives the same as the whole recording does."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.differ import RoundDiff, reading
from nri_scope.recorder.display import subject
from nri_scope.recorder.reader import Recording
from nri_scope.tui.model import excerpt
from nri_scope.tui.model.stop import Stop
from tests.differ.live.probing import Probing, a_container, create
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
            found = excerpt.of_event(recording, event, Stop())
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
            found = excerpt.of_container(recording, one, Stop())
            assert found.history(one.id) == reading.blame(recording, one)


def test_a_connection_that_is_not_synchronized_yet_has_missed_nothing(tmp_path: Path) -> None:
    probing = Probing(tmp_path / "a.nriscope.db", "00", "99")
    for index, method in (("00", "Configure"), ("00", "Synchronize"), ("99", "Configure")):
        probing.sees(index, method, getattr(api, f"{method}Request")())
    probing.sees("00", "CreateContainer", create(a_container()))
    probing.sees("99", "Synchronize", api.SynchronizeRequest())
    probing.sees("00", "CreateContainer", create(a_container("other")))
    probing.sees("00", "CreateContainer", create(a_container("third")))
    probing.recorder.close()
    with Recording.open(probing.path) as recording:
        whole = [one for one in reading.rounds(recording) if one.name == "CreateContainer"]
        assert [one.missed_by for one in whole] == [(), ("99-nri-scope",), ("99-nri-scope",)]
        for container, one in zip(recording.containers(), whole, strict=True):
            assert excerpt.of_container(recording, container, Stop()).round_of(one.event) == one
