# SPDX-License-Identifier: Apache-2.0
"""Messages on the wire are read back from a recording."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import CapturedCall
from nri_scope.nri.events import METHODS
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.reading.reader import Recording
from tests.amount import amount
from tests.in_memory import MEMORY
from tests.recording.traffic import (
    RUNTIMES,
    a_container,
    a_pod,
    a_start,
    a_synchronize,
    an_item,
    canonical,
    captured,
    random_message,
    record,
)

_valid = st.builds(
    lambda method, seed: (
        method,
        random_message(METHODS[method].request, random.Random(seed)).SerializeToString(),
    ),
    st.sampled_from(sorted(METHODS)),
    st.integers(0, 2**32),
)
_method = st.sampled_from(sorted(METHODS)) | st.text(st.characters(codec=None), max_size=8)
_payload = _valid | st.tuples(_method, st.binary(max_size=80))
_captured = st.builds(
    lambda sent, reply, code, message, times: CapturedCall(
        times[0], times[1], sent[0], sent[1], reply, code, message, times[2], times[3]
    ),
    _payload,
    st.binary(max_size=40),
    st.integers(0, 16),
    st.text(st.characters(codec=None), max_size=10),
    st.tuples(*[st.integers(-(2**70), 2**70)] * 4),
)


def _read_back(path: Path, items: list[CapturedCall]) -> None:
    with Recording.open(path) as recording:
        events = list(recording.events())
        assert [event.id for event in events] == list(range(1, len(items) + 1))
        for event, item in zip(events, items, strict=True):
            assert recording.reply(event.id) == item.reply
            assert event.size == len(item.request)
            assert event.status_code == item.status_code
            expected = item.request if event.mark else canonical(item.method, item.request)
            assert recording.request(event.id) == expected


@pytest.mark.exhaustive
@settings(max_examples=amount(40, 40), deadline=None)
@given(st.lists(_captured, max_size=12))
def test_any_traffic_is_read_back_unchanged(items: list[CapturedCall]) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / "r.nriscope.db"
        record(path, items)
        _read_back(path, items)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_captured_traffic_of_a_whole_chain_is_read_back_unchanged(
    tmp_path: Path, runtime: str
) -> None:
    path = tmp_path / "r.nriscope.db"
    recorder = Recorder.open(path)
    sessions = {
        plugin: recorder.begin_session(a_start(plugin))
        for plugin in sorted({plugin for plugin, _ in captured(runtime)})
    }
    for plugin, item in captured(runtime):
        recorder.capture(sessions[plugin], item)
    recorder.close()
    _read_back(path, [item for _, item in captured(runtime)])
    with Recording.open(path) as recording:
        assert [event.plugin for event in recording.events()] == [
            plugin for plugin, _ in captured(runtime)
        ]


@pytest.mark.parametrize(
    "request_",
    [
        api.StateChangeEvent(),
        api.StateChangeEvent(pod=api.PodSandbox()),
        api.StateChangeEvent(pod=api.PodSandbox(), container=api.Container()),
        api.StateChangeEvent(container=api.Container(), event=api.START_CONTAINER),
        api.StateChangeEvent(pod=api.PodSandbox(id="only-an-id")),
    ],
)
def test_an_empty_submessage_differs_from_a_missing_one(
    tmp_path: Path, request_: api.StateChangeEvent
) -> None:
    path = tmp_path / "r.nriscope.db"
    record(path, [an_item("StateChange", request_)])
    with Recording.open(path) as recording:
        read = api.StateChangeEvent.FromString(recording.request(1))
    assert read.HasField("pod") == request_.HasField("pod")
    assert read.HasField("container") == request_.HasField("container")
    assert read == request_


@pytest.mark.parametrize(
    ("method", "service", "payload", "mark"),
    [
        ("CreateContainer", "", b"\xff\xff", "malformed"),
        ("StateChange", "", b"\x12\x03\x0a\x01\xff", "malformed"),
        ("FutureEvent", "", b"whatever", "unknown"),
        ("StateChange", "another.Service", b"", "unknown"),
    ],
)
def test_undecodable_requests_are_stored_unchanged(
    tmp_path: Path, method: str, service: str, payload: bytes, mark: str
) -> None:
    path = tmp_path / "r.nriscope.db"
    record(path, [an_item(method, payload, service=service)])
    with Recording.open(path) as recording:
        (event,) = recording.events()
        assert (event.mark, event.method) == (mark, method)
        assert recording.request(event.id) == payload


def test_the_service_of_an_unknown_request_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "r.nriscope.db"
    record(path, [an_item("Ping", b"", service="another.Service"), an_item("RunPodSandbox")])
    with Recording.open(path) as recording:
        rows = recording.connection.execute(
            "SELECT n.text FROM event LEFT JOIN name AS n ON n.id = service ORDER BY event.id"
        ).fetchall()
    assert rows == [("another.Service",), (None,)]


class TestSynchronize:
    def test_parts_are_read_in_order_and_form_the_state(self, tmp_path: Path) -> None:
        path = tmp_path / "r.nriscope.db"
        parts = [
            a_synchronize(3, more=True),
            a_synchronize(2, more=True, first=3),
            a_synchronize(0, more=False),
        ]
        record(path, [an_item("Synchronize", part) for part in parts])
        with Recording.open(path) as recording:
            assert [
                api.SynchronizeRequest.FromString(recording.request(event.id))
                for event in recording.events()
            ] == parts
            state = recording.state(1)
        assert state.complete
        assert [api.PodSandbox.FromString(pod) for pod in state.pods] == [
            pod for part in parts for pod in part.pods
        ]
        assert [api.Container.FromString(container) for container in state.containers] == [
            container for part in parts for container in part.containers
        ]

    def test_without_the_last_part_the_state_is_incomplete(self, tmp_path: Path) -> None:
        path = tmp_path / "r.nriscope.db"
        record(path, [an_item("Synchronize", a_synchronize(2, more=True))])
        with Recording.open(path) as recording:
            state = recording.state(1)
        assert len(state.pods) == 2
        assert not state.complete

    def test_a_second_synchronize_replaces_the_state_and_not_the_events(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / "r.nriscope.db"
        first, second = a_synchronize(2), a_synchronize(1, first=7)
        record(path, [an_item("Synchronize", first), an_item("Synchronize", second)])
        with Recording.open(path) as recording:
            state = recording.state(1)
            assert api.SynchronizeRequest.FromString(recording.request(1)) == first
        assert [api.PodSandbox.FromString(pod) for pod in state.pods] == list(second.pods)

    def test_a_session_without_synchronize_has_an_incomplete_empty_state(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / "r.nriscope.db"
        record(path, [])
        with Recording.open(path) as recording:
            assert not recording.state(1).complete
            assert not recording.state(99).complete

    def test_later_events_get_names_from_synchronize(self, tmp_path: Path) -> None:
        path = tmp_path / "r.nriscope.db"
        only_id = api.StopContainerRequest(
            pod=api.PodSandbox(id=a_pod(0).id), container=a_container(a_pod(0))
        )
        record(path, [an_item("Synchronize", a_synchronize(1)), an_item("StopContainer", only_id)])
        with Recording.open(path) as recording:
            event = recording.event(2)
        assert event is not None
        assert (event.namespace, event.pod, event.container) == ("shop", "web-0", "app")


def test_equal_content_is_stored_once(tmp_path: Path) -> None:
    path = tmp_path / "r.nriscope.db"
    request = api.StopContainerRequest(pod=a_pod(), container=a_container(a_pod()))
    record(path, [an_item("StopContainer", request, reply=b"\x08\x01")] * 50)
    with Recording.open(path) as recording:
        (objects,) = recording.connection.execute("SELECT count(*) FROM object").fetchone()
    assert objects == 3


def test_map_order_on_the_wire_does_not_add_an_object(tmp_path: Path) -> None:
    def field(key: bytes, value: bytes) -> bytes:
        entry = b"\x0a" + bytes([len(key)]) + key + b"\x12" + bytes([len(value)]) + value
        return b"\x2a" + bytes([len(entry)]) + entry

    one, other = field(b"a", b"1") + field(b"b", b"2"), field(b"b", b"2") + field(b"a", b"1")
    path = tmp_path / "r.nriscope.db"
    record(
        path,
        [an_item("RunPodSandbox", b"\x0a" + bytes([len(pod)]) + pod) for pod in (one, other)],
    )
    with Recording.open(path) as recording:
        assert recording.connection.execute("SELECT count(*) FROM object").fetchone() == (1,)


def test_an_event_has_its_changes_and_owners(tmp_path: Path) -> None:
    path = tmp_path / "r.nriscope.db"
    adjust = api.CreateContainerResponse()
    adjust.adjust.annotations["a/b"] = "1"
    request = api.CreateContainerRequest(pod=a_pod(), container=a_container(a_pod()))
    record(path, [an_item("CreateContainer", request, adjust.SerializeToString())])
    with Recording.open(path) as recording:
        event = recording.event(1)
    assert event is not None
    assert event.changed == ("/annotations/a~1b",)
    assert event.owners == ("00-nri-scope",)
