# SPDX-License-Identifier: Apache-2.0
"""Queries for single pods and containers, compared with the complete lists."""

from __future__ import annotations

from pathlib import Path

from nri_scope.filter import parse
from nri_scope.recording.query.subject_queries import (
    container_of_event,
    containers_by_key,
    events_of_container,
    next_event,
    pod_of_event,
)
from nri_scope.recording.reading.reader import Recording
from tests.replay.recordings import RECORDING
from tests.tui.hostile import hostile_recording


def test_every_event_s_pod_and_container_match_the_lists(tmp_path: Path) -> None:
    for path in (RECORDING, hostile_recording(tmp_path / "r.nriscope.db", huge=False)):
        with Recording.open(path) as recording:
            containers = {container.id: container for container in recording.containers()}
            pods = {pod.id: pod for pod in recording.pods()}
            for event in recording.events():
                assert container_of_event(recording, event.id) == containers.get(event.container_id)
                assert pod_of_event(recording, event.id) == pods.get(event.pod_id)


def test_existing_containers_are_found_by_key() -> None:
    with Recording.open(RECORDING) as recording:
        known = recording.containers()
        keys = [known[1].key, known[0].key, 10**9, known[1].key]
        assert containers_by_key(recording, keys) == known[:2]


def test_a_missing_event_has_no_pod_and_container() -> None:
    with Recording.open(RECORDING) as recording:
        assert container_of_event(recording, 10**9) is None
        assert pod_of_event(recording, 10**9) is None


def test_events_of_a_container_are_filtered() -> None:
    with Recording.open(RECORDING) as recording:
        assert events_of_container(recording, 2, 0, None) == [5, 6, 7, 8, 13, 14, 24, 26]
        assert events_of_container(recording, 2, 8, None) == [13, 14, 24, 26]
        assert events_of_container(recording, 2, 0, parse("event:UpdateContainer")) == [13]


def test_next_event_walks_one_subject_in_both_directions() -> None:
    with Recording.open(RECORDING) as recording:

        def walk(pod: int, container: int, start: int, *, forwards: bool) -> list[int]:
            found = [start]
            subject = pod, container
            while there := next_event(recording, subject, found[-1], forwards=forwards):
                number, at_ns = there
                event = recording.event(number)
                assert event is not None and event.at_ns == at_ns
                found.append(number)
            return found

        assert walk(2, 2, 5, forwards=True) == [5, 6, 7, 8, 13, 14, 24, 26]
        assert walk(2, 2, 26, forwards=False) == [26, 24, 14, 13, 8, 7, 6, 5]
        # A pod's own events, without those of its containers.
        assert walk(2, 0, 3, forwards=True) == [3, 25, 28]
        last = next_event(recording, (2, 2), 5, parse("event:RemoveContainer"), forwards=True)
        assert last is not None and last[0] == 26
