# SPDX-License-Identifier: Apache-2.0
"""The same pods and containers as the whole lists of them have."""

from __future__ import annotations

from pathlib import Path

from nri_scope.recorder.reader import Recording
from nri_scope.tui.model.whom import container_of_event, containers_by_key, pod_of_event
from tests.replay.recordings import RECORDING
from tests.tui.hostile import hostile_recording


def test_every_events_pod_and_container_are_those_that_it_names(tmp_path: Path) -> None:
    for path in (RECORDING, hostile_recording(tmp_path / "r.nriscope.db", huge=False)):
        with Recording.open(path) as recording:
            containers = {one.id: one for one in recording.containers()}
            pods = {one.id: one for one in recording.pods()}
            for event in recording.events():
                assert container_of_event(recording, event.id) == containers.get(event.container_id)
                assert pod_of_event(recording, event.id) == pods.get(event.pod_id)


def test_containers_are_found_by_their_keys_where_there_are_any() -> None:
    with Recording.open(RECORDING) as recording:
        known = recording.containers()
        keys = [known[1].key, known[0].key, 10**9, known[1].key]
        assert containers_by_key(recording, keys) == known[:2]


def test_an_event_that_is_gone_is_about_nobody() -> None:
    with Recording.open(RECORDING) as recording:
        assert container_of_event(recording, 10**9) is None
        assert pod_of_event(recording, 10**9) is None
