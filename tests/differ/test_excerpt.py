# SPDX-License-Identifier: Apache-2.0
"""Excerpts: the events relevant for one event or container give the same result as all events."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.differ import recording_differ
from nri_scope.differ.attribution.attributed_changes import Evidence, OutcomeKind, RoundDiff
from nri_scope.differ.recording_differ import excerpt_of_container, excerpt_of_events
from nri_scope.events import CONTAINER_STATUS, CRI_SERVICE, CapturedCall, Role, SessionStart
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.display import subject
from nri_scope.recording.reading import event_messages
from nri_scope.recording.reading.reader import Recording
from tests.amount import amount
from tests.differ.live.probing import Probing, a_container, create
from tests.replay.recordings import START_NS, of_capture

RECORDINGS = Path(__file__).parents[2] / "recordings"
MS = 10**6


@pytest.mark.parametrize("capture", ["containerd-1.7.24", "cri-o-1.37"])
def test_every_events_round_equals_that_in_the_whole_recording(
    tmp_path: Path, capture: str
) -> None:
    with Recording.open(of_capture(capture, tmp_path / "r.nriscope.db")) as recording:
        whole: dict[int, RoundDiff] = {
            number: one for one in recording_differ.rounds(recording) for number in one.events
        }
        assert any(one.steps for one in whole.values())
        # Only a sample in CI.
        for event in list(recording.events())[:: amount(1, 8)]:
            found = excerpt_of_events(recording, [event])
            assert found.round_of(event.id) == whole.get(event.id)
            if event.container:
                assert found.name_of(event.container_id) == subject(event)
            elif event.pod:
                assert found.name_of(event.pod_id) == subject(event)


def test_a_containers_history_equals_that_of_blame(tmp_path: Path) -> None:
    with Recording.open(of_capture("containerd-2.1.9", tmp_path / "r.nriscope.db")) as recording:
        containers = recording.containers()
        assert len(containers) > 2
        for container in containers:
            found = excerpt_of_container(recording, container, lambda: None)
            assert found.history(container.id) == recording_differ.history_of(recording, container)


@pytest.mark.parametrize(
    "name",
    ["containerd-1.7-normal-life", "containerd-2.1-normal-life", "containerd-2.1-slow-plugin"],
)
def test_excerpts_of_recordings_with_the_cri_equal_the_whole(name: str) -> None:
    with Recording.open(RECORDINGS / f"{name}.nriscope.zip") as recording:
        whole = {number: one for one in recording_differ.rounds(recording) for number in one.events}
        # Only a sample in CI.
        for event in list(recording.events())[:: amount(1, 8)]:
            found = excerpt_of_events(recording, [event])
            assert found.round_of(event.id) == whole.get(event.id)


def test_two_changes_at_one_path_in_one_event_stay_two(tmp_path: Path) -> None:
    """An unobserved plugin sets a variable, then an observed one changes it; the CRI confirms."""
    with Recording.open(_record_two_steps(tmp_path / "r.nriscope.db")) as recording:
        (event,) = (
            event
            for event in recording.events()
            if event.event == "CreateContainer" and event.plugin == "20-x"
        )
        found = excerpt_of_events(recording, [event]).round_of(event.id)
        assert found is not None
        changes = [(str(step.owner), step.change.kind, step.change.after) for step in found.steps]
        assert changes == [("one of 01–19", "added", "1"), ("20-x", "changed", "2")]
        assert [step.evidence[0] for step in found.steps] == [Evidence.PROBES, Evidence.TAP]
        assert found.steps[-1].outcome.kind is OutcomeKind.IN_EFFECT
        assert found == next(recording_differ.rounds(recording, event))


def _record_two_steps(path: Path) -> Path:
    recorder = Recorder.open(path)
    now = START_NS
    pod = api.PodSandbox(id="pod-id", name="web", namespace="shop", uid="pod-uid")

    def begin(role: Role, index: str, name: str) -> int:
        version = "" if role == Role.CRI else "0.12.0"
        return recorder.begin_session(
            SessionStart(
                role, name, index, "containerd", "2.3.0", version, False, 0, 5_000, 2_000, now
            )
        )

    def capture(session: int, method: str, request: bytes, reply: bytes, service: str = "") -> None:
        nonlocal now
        now += MS
        item = CapturedCall(
            now, now - START_NS, method, request, reply, 0, "", MS, 2_000 * MS, service
        )
        recorder.capture(session, item)

    sessions = begin(Role.PROBE, "00", "a"), begin(Role.TAP, "20", "x")
    cri = begin(Role.CRI, "", "cri")
    for session in sessions:
        capture(session, "Configure", b"", b"")
        capture(session, "Synchronize", b"", b"")
    own = api.ContainerAdjustment(env=[api.KeyValue(key="FOO", value="2")])
    replies = api.CreateContainerResponse(), api.CreateContainerResponse(adjust=own)
    for session, env, reply in zip(sessions, ([], ["FOO=1"]), replies, strict=True):
        container = api.Container(id="c", name="app", pod_sandbox_id=pod.id, args=["a"], env=env)
        request = api.CreateContainerRequest(pod=pod, container=container)
        capture(session, "CreateContainer", request.SerializeToString(), reply.SerializeToString())
    real = {"ociVersion": "1.2.0", "process": {"args": ["a"], "env": ["FOO=2"]}}
    asked = event_messages.status_request("c")
    answer = json.dumps({"runtimeSpec": real}).encode()
    capture(cri, CONTAINER_STATUS, asked, answer, CRI_SERVICE)
    recorder.close()
    return path


def test_a_connection_that_is_not_synchronized_yet_missed_nothing(tmp_path: Path) -> None:
    probing = Probing(tmp_path / "a.nriscope.db", "00", "99")
    for index, method in (("00", "Configure"), ("00", "Synchronize"), ("99", "Configure")):
        probing.sees(index, method, getattr(api, f"{method}Request")())
    probing.sees("00", "CreateContainer", create(a_container()))
    probing.sees("99", "Synchronize", api.SynchronizeRequest())
    probing.sees("00", "CreateContainer", create(a_container("other")))
    probing.sees("00", "CreateContainer", create(a_container("third")))
    probing.recorder.close()
    with Recording.open(probing.path) as recording:
        whole = [one for one in recording_differ.rounds(recording) if one.name == "CreateContainer"]
        assert [one.missed_by for one in whole] == [(), ("99-nri-scope",), ("99-nri-scope",)]
        for container, one in zip(recording.containers(), whole, strict=True):
            found = excerpt_of_container(recording, container, lambda: None)
            assert found.round_of(one.event) == one
