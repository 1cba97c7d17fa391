# SPDX-License-Identifier: Apache-2.0
"""Selection of the session and the events to play, and the initial state."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope._gen.nri.api_pb2 import Container, PodSandbox
from nri_scope.errors import UsageError
from nri_scope.filter import parse
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.reading.reader import Recording
from nri_scope.replay.result import Replayed
from nri_scope.replay.script import RecordingPlace, ReplaySelection, Script
from tests.recording.cri_answers import a_cri_session, an_answer
from tests.recording.traffic import an_item, record
from tests.sample_names import CHECKOUT, CHECKOUT_PROXY, NIGHTLY, REPORT_NAMESPACE

from .plays import played
from .recordings import POD, RECORDING, START_NS, container, life, recording, run_pod, write_session


class Passive:
    """Plugin without event handlers; it stores the containers of Synchronize."""

    def __init__(self) -> None:
        self.state: list[str] = []

    def synchronize(self, pods: Sequence[PodSandbox], containers: Sequence[Container]) -> None:
        self.state = [one.name for one in containers]


def events(replayed: Replayed) -> list[tuple[str, str]]:
    return [(event.event, event.subject) for event in replayed.events if event.event_id]


def test_the_session_with_the_lowest_index_is_played_by_default(
    tmp_path: Path,
) -> None:
    path = tmp_path / "three.nriscope.db"
    recorder = Recorder.open(path)
    write_session(recorder, [run_pod()], plugin="50-late")
    write_session(recorder, [run_pod(), *life(container())], plugin="05-first")
    write_session(recorder, [], plugin="00-unsynchronized", synchronized=False)
    recorder.close()
    replayed = played(path, {"10-n": Passive()})
    assert replayed.source.startswith("session 2, 05-first on containerd")
    assert len(events(replayed)) == 7
    assert len(events(played(path, {"10-n": Passive()}, selection=ReplaySelection(session=1)))) == 1
    with pytest.raises(UsageError, match="session 3 has no complete Synchronize"):
        played(path, {"10-n": Passive()}, selection=ReplaySelection(session=3))
    with pytest.raises(UsageError, match=r"no session 4; it has 1 \(50-late\), 2"):
        played(path, {"10-n": Passive()}, selection=ReplaySelection(session=4))


def test_cri_sessions_are_not_played(tmp_path: Path) -> None:
    path = tmp_path / "r.nriscope.db"
    recorder = Recorder.open(path)
    cri = recorder.begin_session(a_cri_session())
    recorder.capture(cri, an_answer())
    recorder.close()
    with pytest.raises(UsageError, match="contains no session"):
        played(path, {"10-n": Passive()})
    recorder = Recorder.open(path)
    write_session(recorder, [run_pod()], plugin="05-first")
    recorder.close()
    assert played(path, {"10-n": Passive()}).source.startswith("session 2, 05-first")
    with pytest.raises(UsageError, match=r"no session 1; it has 2 \(05-first\)"):
        played(path, {"10-n": Passive()}, selection=ReplaySelection(session=1))


def test_containers_created_before_the_first_event_are_in_the_state(tmp_path: Path) -> None:
    first, second = life(container("one")), life(container("two"))
    path = recording(tmp_path / "r.nriscope.db", [run_pod(), *first, *second[:4]])
    passive = Passive()
    # Configure and Synchronize are the events 1 and 2, RunPodSandbox is 3.
    played(path, {"10-n": passive}, selection=ReplaySelection(begin=RecordingPlace(event_id=5)))
    assert passive.state == ["one"]
    played(path, {"10-n": passive}, selection=ReplaySelection(begin=RecordingPlace(event_id=10)))
    assert passive.state == []
    at_ns = START_NS + 10 * 10**9
    replayed = played(
        path, {"10-n": passive}, selection=ReplaySelection(begin=RecordingPlace(at_ns=at_ns))
    )
    assert passive.state == ["two"]
    assert [event for event, _ in events(replayed)] == [
        "PostCreateContainer", "StartContainer", "PostStartContainer",
    ]  # fmt: skip


def test_only_selects_a_container_with_its_pod() -> None:
    replayed = played(
        RECORDING, {"10-n": Passive()}, selection=ReplaySelection(only=CHECKOUT_PROXY)
    )
    subjects = {subject for _, subject in events(replayed)}
    assert subjects == {CHECKOUT, CHECKOUT_PROXY}
    replayed = played(RECORDING, {"10-n": Passive()}, selection=ReplaySelection(only=NIGHTLY))
    assert {subject.partition("/")[0] for _, subject in events(replayed)} == {REPORT_NAMESPACE}


def test_a_filter_limits_the_events_without_breaking_the_state() -> None:
    selection = ReplaySelection(where=parse("event:StopContainer"))
    replayed = played(RECORDING, {"10-n": Passive()}, selection=selection)
    assert {event for event, _ in events(replayed)} == {"StopContainer"}
    assert replayed.ok


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        (ReplaySelection(where=parse("pod:nobody")), "is selected"),
        (ReplaySelection(begin=RecordingPlace(event_id=1000)), "is selected"),
        (ReplaySelection(end=RecordingPlace(event_id=1)), "is selected"),
        (
            ReplaySelection(only=f"{CHECKOUT}z"),
            f"no event of {CHECKOUT}z; did you mean {CHECKOUT}?",
        ),
        (ReplaySelection(only="x"), "write ns/pod or ns/pod/container"),
    ],
)
def test_an_empty_selection_is_rejected(selection: ReplaySelection, words: str) -> None:
    with pytest.raises(UsageError) as raised:
        played(RECORDING, {"10-n": Passive()}, selection=selection)
    assert words in str(raised.value)


def test_events_of_unknown_containers_are_rejected_unless_effects_are_off(tmp_path: Path) -> None:
    path = recording(tmp_path / "r.nriscope.db", life(container())[2:])
    with pytest.raises(UsageError) as raised:
        played(path, {"10-n": Passive()})
    assert str(raised.value).startswith(
        "event 3, StartContainer: no Synchronize or CreateContainer lists its container"
    )
    assert played(path, {"10-n": Passive()}, effects=False).ok


def test_a_recording_without_a_synchronized_session_is_rejected(
    tmp_path: Path,
) -> None:
    empty = tmp_path / "empty.nriscope.db"
    Recorder.open(empty).close()
    with pytest.raises(UsageError, match="contains no session"):
        played(empty, {"10-n": Passive()})
    unsynchronized = recording(tmp_path / "u.nriscope.db", [run_pod()], synchronized=False)
    with pytest.raises(UsageError, match="has no complete Synchronize"):
        played(unsynchronized, {"10-n": Passive()})


def test_a_recording_with_only_a_state_can_be_played(tmp_path: Path) -> None:
    state = api.SynchronizeRequest(pods=[POD], containers=[container()])
    passive = Passive()
    assert played(recording(tmp_path / "s.nriscope.db", [], state=state), {"10-n": passive}).ok
    assert passive.state == ["app"]


def test_a_call_of_another_service_is_not_decoded(tmp_path: Path) -> None:
    path = tmp_path / "r.nriscope.db"
    record(path, [an_item("Synchronize"), an_item(service="strange.Service")])
    with Recording.open(path) as found:
        (step,) = Script(found, ReplaySelection()).steps()
    assert (step.event, step.message) == (None, None)
