# SPDX-License-Identifier: Apache-2.0
"""Lookup of an event, a pod or a container by a user's argument."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nri_scope._gen.nri.api_pb2 import Container as ContainerMessage
from nri_scope._gen.nri.api_pb2 import CreateContainerRequest, PodSandbox, StopContainerRequest
from nri_scope.errors import UsageError
from nri_scope.events import CapturedCall, Container, Event, Pod
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.query import lookup
from nri_scope.recording.reading.reader import Recording
from tests.recording.recordings import captured, record

WEB = "d6e8c12818c4bf7a82f09ffd9e363300e9f6b07eda5861291d736f18a71950f1"
APP = "3d616e25fb47ea93be490ee9c43f8e470e2da1ff73c8c38a0abe6412fb34c602"
AGAIN = f"{APP[:21]}{'0' * 43}"


def more(recorder: Recorder, session: int) -> None:
    """Create the container app again, with an id that shares a prefix with the first."""
    like = next(item for _, item in captured() if item.method == "CreateContainer")
    pod = PodSandbox(id=WEB, name="web", namespace="shop")
    again = ContainerMessage(id=AGAIN, pod_sandbox_id=WEB, name="app", env=["A=1"])
    create = CreateContainerRequest(pod=pod, container=again)
    stop = StopContainerRequest(pod=PodSandbox(id=WEB), container=ContainerMessage(id=AGAIN))
    recorder.capture(session, replace_request(like, "CreateContainer", create.SerializeToString()))
    recorder.capture(session, replace_request(like, "StopContainer", stop.SerializeToString()))


def replace_request(like: CapturedCall, method: str, request: bytes) -> CapturedCall:
    return like._replace(method=method, request=request, wall_ns=like.wall_ns + 60 * 10**9)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recording]:
    path = record(tmp_path_factory.mktemp("lookup") / "x.nriscope.db", more=more)
    with Recording.open(path) as recording:
        yield recording


def test_a_number_finds_an_event(recording: Recording) -> None:
    found = lookup.find(recording, "4")
    assert isinstance(found, Event) and found.id == 4 and found.event == "CreateContainer"


def test_a_name_finds_a_pod_or_container(recording: Recording) -> None:
    pod = lookup.find(recording, "shop/web")
    assert isinstance(pod, Pod) and pod.id == WEB
    container = lookup.find(recording, "shop/web/sidecar")
    assert isinstance(container, Container) and container.name == "sidecar"


@pytest.mark.parametrize("what", [WEB, WEB[:12], WEB[:4]])
def test_an_id_prefix_finds_a_pod(recording: Recording, what: str) -> None:
    pod = lookup.find(recording, what)
    assert isinstance(pod, Pod) and pod.id == WEB


def test_few_digits_are_an_event_number_and_not_an_id_prefix(recording: Recording) -> None:
    # 68b97… is the pod jobs/batch, and the recording has fewer than 68 events.
    with pytest.raises(UsageError, match=r"event 68 is not in .*; it has 1 to 33"):
        lookup.find(recording, "68")
    assert isinstance(lookup.find(recording, "68b9"), Pod)


def test_eight_digits_may_be_an_id_prefix(tmp_path: Path) -> None:
    whole = f"12345678{'0' * 56}"
    like = next(item for _, item in captured() if item.method == "CreateContainer")
    pod = PodSandbox(id=whole, name="digits", namespace="shop")
    request = CreateContainerRequest(pod=pod, container=ContainerMessage(id="c" * 64, name="app"))

    def more(recorder: Recorder, session: int) -> None:
        recorder.capture(
            session, replace_request(like, "CreateContainer", request.SerializeToString())
        )

    with Recording.open(record(tmp_path / "x.nriscope.db", more=more)) as recording:
        found = lookup.find(recording, "12345678")
        assert isinstance(found, Pod) and found.id == whole
        with pytest.raises(UsageError, match="event 1234567 is not in"):
            lookup.find(recording, "1234567")


def test_a_name_means_the_newest_and_the_others_are_named(recording: Recording) -> None:
    notes: list[str] = []
    found = lookup.find(recording, "shop/web/app", notes.append)
    assert isinstance(found, Container) and found.id == AGAIN
    (note,) = notes
    assert "has 2 containers called shop/web/app; this is the newest, 3d616e25fb47e" in note
    earlier = note.partition("before it: ")[2].split()[0]
    assert earlier == f"shop/web/{APP[:22]}"
    found = lookup.find(recording, earlier, notes.append)
    assert isinstance(found, Container) and found.id == APP
    assert notes == [note]


def test_a_number_or_an_id_may_follow_its_pod(recording: Recording) -> None:
    found = lookup.find(recording, "shop/web/32")
    assert isinstance(found, Event) and (found.id, found.pod) == (32, "web")
    found = lookup.find(recording, f"shop/web/{WEB[:6]}")
    assert isinstance(found, Pod) and found.id == WEB
    other = next(event for event in recording.events() if event.pod == "batch")
    with pytest.raises(UsageError, match=f"event {other.id} is about jobs/batch, not shop/web"):
        lookup.find(recording, f"shop/web/{other.id}")
    with pytest.raises(UsageError, match="event 999 is not in"):
        lookup.find(recording, "shop/web/999")
    with pytest.raises(UsageError, match="no event, pod or container"):
        lookup.find(recording, "shop/web/68b9")


@pytest.mark.parametrize("what", [APP[:6], f"shop/web/{APP[:6]}"])
def test_an_ambiguous_id_is_rejected_with_the_candidates(recording: Recording, what: str) -> None:
    with pytest.raises(UsageError) as caught:
        lookup.find(recording, what)
    text = str(caught.value)
    assert f'"{what}" matches 2 pods and containers' in text
    assert "(container shop/web/app first seen 2026-11-20" in text
    # The displayed prefix of each id is long enough to find that container.
    for whole in (APP, AGAIN):
        assert whole[:22] in text and whole[:23] not in text
        container = lookup.find(recording, whole[:22])
        assert isinstance(container, Container) and container.id == whole


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("999", "event 999 is not in"),
        ("999", "; it has 1 to 33"),
        (WEB[:3], "give at least 4 characters of an id"),
        ("shop/webb", "the nearest is shop/web"),
        ("shop/web/ap", "the nearest is shop/web/app"),
        ("sidecar", "the nearest is shop/web/sidecar"),
        ("sidecr", "the nearest is shop/web/sidecar"),
        ("batch", "the nearest is jobs/batch"),
        (f"{WEB[:10]}zz", f"the nearest is {WEB[:12]} (shop/web)"),
        ("a/b/c/d", "`log` shows what it has"),
        ("", 'no event, pod or container ""'),
        ("/", "`log` shows what it has"),
        ("x" * 5000, "…"),
        ("9" * 30, "`log` shows what it has"),
        ("²", "`log` shows what it has"),
        ("BAR", "`log` shows what it has"),
    ],
)
def test_a_missing_object_s_error_names_the_nearest(
    recording: Recording, what: str, words: str
) -> None:
    with pytest.raises(UsageError) as caught:
        lookup.find(recording, what)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 500


def test_history_has_all_events_in_order(recording: Recording) -> None:
    container = lookup.find(recording, APP)
    assert isinstance(container, Container)
    events = list(lookup.history(recording, container))
    assert [event.event for event in events] == [
        "CreateContainer",
        "PostCreateContainer",
        "StartContainer",
        "PostStartContainer",
        "UpdateContainer",
        "PostUpdateContainer",
        "StopContainer",
        "RemoveContainer",
    ]
    pod = container.pod
    assert pod is not None
    assert len(list(lookup.history(recording, pod))) > len(events)
    assert {c.name for c in lookup.containers_of(recording, pod)} == {"app", "sidecar"}


def test_the_newest_message_is_not_one_with_ids_only(recording: Recording) -> None:
    container = lookup.find(recording, AGAIN)
    assert isinstance(container, Container)
    newest = lookup.newest_message(recording, container)
    assert newest is not None
    # The StopContainer request contains ids only.
    assert newest.event == 32
    assert list(ContainerMessage.FromString(newest.content).env) == ["A=1"]


def test_a_pod_from_synchronize_alone_is_found(recording: Recording) -> None:
    pod = next(pod for pod in recording.pods() if pod.name.startswith("old-"))
    assert not list(lookup.history(recording, pod))
    assert lookup.first_event_time(recording, pod) is None
    newest = lookup.newest_message(recording, pod)
    assert newest is not None and newest.event == 1
    assert PodSandbox.FromString(newest.content).name == pod.name


def test_a_pod_without_a_message_has_none(recording: Recording) -> None:
    pod = replace(recording.pods()[0], key=10**6)
    assert lookup.newest_message(recording, pod) is None


def test_an_empty_recording_is_reported(tmp_path: Path) -> None:
    Recorder.open(tmp_path / "empty.nriscope.db").close()
    with Recording.open(tmp_path / "empty.nriscope.db") as recording:
        with pytest.raises(UsageError, match="it has no events"):
            lookup.find(recording, "1")
        with pytest.raises(UsageError, match="it has no pods and containers"):
            lookup.find(recording, "shop/web")
