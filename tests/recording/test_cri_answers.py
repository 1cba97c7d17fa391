# SPDX-License-Identifier: Apache-2.0
"""Answers of the CRI in a recording."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.events import CONTAINER_STATUS, CRI_SERVICE, Event
from nri_scope.filter import parse
from nri_scope.nri.plain import json_or_malformed
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.display import runtime
from nri_scope.recording.documents import document
from nri_scope.recording.query.stats import summarise
from nri_scope.recording.reading.event_messages import requested_container_id, status_request
from nri_scope.recording.reading.reader import Recording
from nri_scope.text.yaml_text import to_yaml
from tests.recording.cri_answers import ANSWER, CONTAINER, a_cri_session, an_answer
from tests.recording.traffic import a_start, an_item, lifecycle


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a recording of a pod's lifecycle with two CRI answers about its container."""
    path = tmp_path / "a.nriscope.db"
    recorder = Recorder.open(path)
    session, cri = recorder.begin_session(a_start()), recorder.begin_session(a_cri_session())
    for item in lifecycle(1):
        recorder.capture(session, item)
    recorder.capture(cri, an_answer())
    recorder.capture(cri, an_answer(reply=ANSWER.replace(b"7", b"8")))
    recorder.close()
    return path


def _answers(recording: Recording) -> list[Event]:
    return [event for event in recording.events() if event.method == CONTAINER_STATUS]


def test_an_answer_belongs_to_its_container(path: Path) -> None:
    with Recording.open(path) as recording:
        first, second = _answers(recording)
        assert (first.container, first.pod, first.container_id) == ("app-0", "web-1", CONTAINER)
        assert (first.mark, first.plugin) == ("", "cri")
        assert recording.request(first.id) == status_request(CONTAINER)
        assert recording.reply(first.id) == ANSWER
        assert recording.reply(second.id) == ANSWER.replace(b"7", b"8")
        assert len(recording.containers()) == 1


def test_an_answer_is_shown_as_its_json(path: Path) -> None:
    with Recording.open(path) as recording:
        (event, _) = _answers(recording)
        event_document = document(recording, event)
        assert event_document["request"] == {"container_id": CONTAINER, "verbose": True}
        assert event_document["reply"] == json.loads(ANSWER)
        (texts,) = recording.connection.execute(
            "SELECT nri_json(id), nri_json(id, 'reply') FROM event WHERE id = ?", (event.id,)
        ).fetchall()
        assert list(map(json.loads, texts)) == [event_document["request"], event_document["reply"]]


@pytest.mark.parametrize("reply", [b"no json", b"[1]", b'{"x": NaN}', b"[" * 100_000, b"\xff"])
def test_an_answer_that_is_not_json_is_shown_as_hexadecimal(tmp_path: Path, reply: bytes) -> None:
    path = tmp_path / "a.nriscope.db"
    recorder = Recorder.open(path)
    recorder.capture(recorder.begin_session(a_cri_session()), an_answer(reply=reply))
    recorder.close()
    with Recording.open(path) as recording:
        (event,) = _answers(recording)
        assert document(recording, event)["reply"] == {"malformed": reply.hex()}


def test_a_lone_surrogate_in_an_answer_is_printable(tmp_path: Path) -> None:
    path = tmp_path / "a.nriscope.db"
    recorder = Recorder.open(path)
    reply = rb'{"x": "\ud800\u001b"}'
    recorder.capture(recorder.begin_session(a_cri_session()), an_answer(reply=reply))
    recorder.close()
    with Recording.open(path) as recording:
        (event,) = _answers(recording)
        text = "".join(to_yaml(document(recording, event)))
    assert "\x1b" not in text
    text.encode()


def test_statistics_exclude_cri_answers(path: Path) -> None:
    with Recording.open(path) as recording:
        found = summarise(recording)
        events = len(list(recording.events()))
    assert found.stats.count == events - 2
    assert found.record()["cri_answers"] == 2
    assert CONTAINER_STATUS not in {entry.event for entry in found.stats.by_event}


@pytest.mark.parametrize(
    "where", ["container:app-0", "ns:shop", "plugin:cri", f"event:{CONTAINER_STATUS}"]
)
def test_filters_match_answers_in_a_file_and_during_recording(path: Path, where: str) -> None:
    with Recording.open(path) as recording:
        found = list(recording.events(where=parse(f"({where}) AND event:{CONTAINER_STATUS}")))
        assert len(found) == 2
    live_events: list[Event] = []
    live = path.with_name("live.nriscope.db")
    recorder = Recorder.open(live, on_event=lambda event, item: live_events.append(event))
    session, cri = recorder.begin_session(a_start()), recorder.begin_session(a_cri_session())
    for item in lifecycle(1):
        recorder.capture(session, item)
    recorder.capture(cri, an_answer())
    recorder.close()
    assert parse(where).matches(live_events[-1])


def test_other_cri_methods_are_stored_raw(tmp_path: Path) -> None:
    path = tmp_path / "a.nriscope.db"
    recorder = Recorder.open(path)
    cri = recorder.begin_session(a_cri_session())
    recorder.capture(cri, an_item("Status", b"\x08\x01", ANSWER, service=CRI_SERVICE))
    recorder.capture(cri, an_item(CONTAINER_STATUS, b"\x08\x01", ANSWER, service=CRI_SERVICE))
    recorder.close()
    with Recording.open(path) as recording:
        assert [event.mark for event in recording.events()] == ["unknown", "unknown"]
        assert recording.request(1) == b"\x08\x01"


@given(st.text(min_size=1, max_size=31))
def test_container_id_is_parsed_from_any_status_request(container_id: str) -> None:
    try:
        request = status_request(container_id)
    except ValueError:
        return
    assert requested_container_id(request) == container_id


@given(st.binary(max_size=200))
def test_other_bytes_are_not_parsed_as_a_status_request(request: bytes) -> None:
    container_id = requested_container_id(request)
    assert container_id is None or status_request(container_id) == request


def test_an_empty_answer_is_an_empty_object() -> None:
    assert json_or_malformed(b"") == {}


def test_a_cri_session_has_no_nri_version(path: Path) -> None:
    with Recording.open(path) as recording:
        runtimes = [runtime(session) for session in recording.sessions()]
    assert runtimes == ["containerd 1.7.24, NRI 0.6.1 (inferred)", "containerd v2.1.9"]
