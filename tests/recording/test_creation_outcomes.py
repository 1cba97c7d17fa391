# SPDX-License-Identifier: Apache-2.0
"""Outcome of a creation, derived from later events."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.entries import OperationFate, OperationOutcome
from nri_scope.events import CapturedCall, Role, SessionStart
from nri_scope.nri.events import METHODS
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.query import creation_outcomes
from nri_scope.recording.query.creation_outcomes import Creations
from nri_scope.recording.reading.reader import Recording
from tests.recording.recordings import a_start
from tests.replay.recordings import POD, START_NS, container

_SECOND = 10**9
_ALL = 0x1FFF
_WITHOUT_POST_CREATE = 0x7C8
"""CreateContainer and events after a start, without PostCreateContainer and StartContainer."""
_UNDONE = container()
_RAN = container(state=api.ContainerState.CONTAINER_RUNNING, pid=7, created_at=1)


CREATE, POST = "CreateContainer", "PostCreateContainer"


def about(name: str, one: api.Container = _UNDONE) -> tuple[str, Message]:
    """Return a method and its request for a container or for the container's pod."""
    request = METHODS[name].request()
    request.pod.CopyFrom(POD)  # type: ignore[attr-defined]
    if "Sandbox" not in name:
        request.container.CopyFrom(one)  # type: ignore[attr-defined]
    return name, request


@dataclass(frozen=True)
class RecordedSession:
    """Session with an event each second."""

    events: Sequence[tuple[str, Message]]
    plugin: str = "00-probe"
    runtime: str = "containerd"
    mask: int = _ALL
    role: Role = Role.PROBE
    ended: bool = True

    @property
    def start(self) -> SessionStart:
        start = a_start(self.plugin, START_NS)
        return replace(start, runtime_name=self.runtime, mask=self.mask, role=self.role)


def write(recorder: Recorder, sessions: Sequence[RecordedSession]) -> None:
    """Record sessions in parallel: the first events of all sessions, then the second ones."""
    numbers = [recorder.begin_session(session.start) for session in sessions]
    for step in range(max(len(session.events) for session in sessions)):
        at_ns = START_NS + step * _SECOND
        for number, one in zip(numbers, sessions, strict=True):
            if step < len(one.events):
                method, request = one.events[step]
                content = request.SerializeToString()
                recorder.capture(
                    number,
                    CapturedCall(at_ns, at_ns, method, content, b"", 0, "", 1000, 2 * _SECOND),
                )
    for number, one in zip(numbers, sessions, strict=True):
        if one.ended:
            recorder.end_session(number, "closed", START_NS + len(one.events) * _SECOND)


def outcome(folder: Path, *sessions: RecordedSession, lost: int = 0) -> OperationOutcome:
    """Return the first creation's outcome in a recording of the sessions without event `lost`."""
    path = folder / "one.nriscope.db"
    recorder = Recorder.open(path)
    write(recorder, sessions)
    recorder.close()
    if lost:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("DELETE FROM event WHERE id = ?", (lost,))
    with Recording.open(path) as recording:
        first = next(event for event in recording.events() if event.event == CREATE)
        return Creations(recording).outcome(first)


@pytest.mark.parametrize(
    "name", [POST, "StartContainer", "PostStartContainer", "UpdateContainer", "PostUpdateContainer"]
)
def test_events_after_creation_show_that_it_succeeded(name: str, tmp_path: Path) -> None:
    recorded = RecordedSession([about(CREATE), about(name), about("StopContainer")])
    assert outcome(tmp_path, recorded).fate is OperationFate.CREATED


def test_one_session_s_evidence_is_enough(tmp_path: Path) -> None:
    blind = RecordedSession([about(CREATE), about("RunPodSandbox"), about("StopContainer")])
    other = RecordedSession([about(CREATE), about(POST)], plugin="10-other")
    assert outcome(tmp_path, blind, other).fate is OperationFate.CREATED


@pytest.mark.parametrize("name", ["StopContainer", "RemoveContainer"])
@pytest.mark.parametrize("mask", [_ALL, 0])
def test_a_removal_without_post_create_shows_failure(name: str, mask: int, tmp_path: Path) -> None:
    found = outcome(tmp_path, RecordedSession([about(CREATE), about(name)], mask=mask))
    assert found.fate is OperationFate.FAILED
    assert found.words == f"{name} followed instead of PostCreateContainer (event 2)"


@pytest.mark.parametrize("name", ["StopPodSandbox", "RemovePodSandbox"])
def test_the_pod_s_end_without_post_create_shows_failure(name: str, tmp_path: Path) -> None:
    other = container("b")
    recorded = RecordedSession(
        [about(CREATE), about(CREATE, other), about(POST, other), about(name)], runtime="cri-o"
    )
    assert outcome(tmp_path, recorded).fate is OperationFate.FAILED


def test_a_repeated_creation_shows_failure(tmp_path: Path) -> None:
    again = container(id="another-id")
    recorded = RecordedSession(
        [about(CREATE), about(CREATE, again), about(POST, again)], runtime="cri-o"
    )
    assert outcome(tmp_path, recorded).words == (
        "CreateContainer followed instead of PostCreateContainer (event 2)"
    )


@pytest.mark.parametrize("limit", ["_ATTEMPTS_MAX", "_SEARCHED_MAX"])
def test_outcome_beyond_the_search_limits_is_unknown(
    limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(creation_outcomes, limit, -1)
    again = container(id="another-id")
    recorded = RecordedSession(
        [about(CREATE), about(CREATE, again), about(POST, again)], runtime="cri-o"
    )
    assert outcome(tmp_path, recorded).fate is OperationFate.UNKNOWN


def test_outcome_with_a_lost_event_is_unknown(tmp_path: Path) -> None:
    recorded = RecordedSession([about(CREATE), about(POST), about("StopContainer")])
    assert outcome(tmp_path, recorded, lost=2).fate is OperationFate.UNKNOWN


def test_creation_at_the_recording_s_end_is_open(tmp_path: Path) -> None:
    found = outcome(
        tmp_path, RecordedSession([about(CREATE), about("RunPodSandbox")], runtime="cri-o")
    )
    assert found.fate is OperationFate.OPEN
    assert found.after_ns == 2 * _SECOND


def test_creation_in_an_open_session_is_unknown(tmp_path: Path) -> None:
    recorded = RecordedSession([about(CREATE)], ended=False)
    assert outcome(tmp_path, recorded).fate is OperationFate.UNKNOWN


def test_creation_in_a_replay_is_unknown(tmp_path: Path) -> None:
    recorded = RecordedSession([about(CREATE), about("StopContainer")], role=Role.REPLAY)
    assert outcome(tmp_path, recorded).fate is OperationFate.UNKNOWN


class TestWithoutPostCreateContainer:
    """Sessions of a plugin that did not subscribe to PostCreateContainer."""

    @pytest.mark.parametrize("runtime", ["containerd", "cri-o", "v2"])
    def test_containerd_stop_of_an_unused_container_shows_failure(
        self, runtime: str, tmp_path: Path
    ) -> None:
        recorded = RecordedSession(
            [about(CREATE), about("StopContainer")], mask=_WITHOUT_POST_CREATE, runtime=runtime
        )
        is_containerd = runtime == "containerd"
        expected = OperationFate.FAILED if is_containerd else OperationFate.UNKNOWN
        assert outcome(tmp_path, recorded).fate is expected

    def test_stop_of_a_container_that_ran_is_unknown(self, tmp_path: Path) -> None:
        recorded = RecordedSession(
            [about(CREATE), about("StopContainer", _RAN)], mask=_WITHOUT_POST_CREATE
        )
        assert outcome(tmp_path, recorded).fate is OperationFate.UNKNOWN

    def test_removal_alone_is_unknown(self, tmp_path: Path) -> None:
        recorded = RecordedSession(
            [about(CREATE), about("RemoveContainer")], mask=_WITHOUT_POST_CREATE
        )
        assert outcome(tmp_path, recorded).fate is OperationFate.UNKNOWN


@pytest.mark.parametrize("seed", range(40))
def test_the_next_event_alone_shows_what_all_events_show(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    names = (CREATE, CREATE, POST, "ValidateContainerAdjustment", "StartContainer", "StopContainer")
    sessions = [
        RecordedSession(
            [about(chance.choice(names)) for _ in range(chance.randint(1, 8))],
            plugin=f"{chance.randint(0, 3)}0-probe",
            runtime=chance.choice(["containerd", "cri-o", "isulad"]),
            role=chance.choice([Role.PROBE, Role.REPLAY]),
        )
        for _ in range(chance.randint(1, 3))
    ]
    outcome(tmp_path, RecordedSession([about(CREATE)]), *sessions)
    with Recording.open(tmp_path / "one.nriscope.db") as recording:
        creations = [event for event in recording.events() if event.event == CREATE]
        found = [Creations(recording).outcome(creation) for creation in creations]
        monkeypatch.setattr(Creations, "_is_proven_next", lambda *_: False)
        assert found == [Creations(recording).outcome(creation) for creation in creations]
