# SPDX-License-Identifier: Apache-2.0
"""Documents about an event, a pod or a container."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nri_scope._gen.nri.api_pb2 import Container as ContainerMessage
from nri_scope.nri.plain import Plain, plain
from nri_scope.nri.request_subject import decode_request
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.documents import document, message_bytes
from nri_scope.recording.query.lookup import find
from nri_scope.recording.reading.reader import Recording
from tests.recording.recordings import captured, record

ITEMS = [item for plugin, item in captured() if plugin == "30-env-injector"]


def more(recorder: Recorder, session: int) -> None:
    last = ITEMS[-1]
    recorder.capture(session, last._replace(request=b"\xff\xff", reply=b""))
    recorder.capture(session, last._replace(method="Frobnicate", request=b"\x08\x01", reply=b""))
    recorder.capture(
        session, last._replace(reply=b"", status_code=2, status_message="it is \x1b[31mbroken")
    )


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recording]:
    path = tmp_path_factory.mktemp("documents") / "x.nriscope.db"
    with Recording.open(record(path, "30-env-injector", more=more)) as recording:
        yield recording


def document_of(recording: Recording, what: str) -> dict[str, Plain]:
    return document(recording, find(recording, what))


def part(value: Plain, *keys: str | int) -> Plain:
    for key in keys:
        if isinstance(key, int):
            assert isinstance(value, list)
            value = value[key]
        else:
            assert isinstance(value, dict)
            value = value[key]
    return value


def test_an_event_s_document_has_request_and_reply(recording: Recording) -> None:
    found = document_of(recording, "2")
    assert list(found) == ["event", "request", "reply"]
    message = decode_request("CreateContainer", ITEMS[1].request).message
    assert message is not None
    assert found["request"] == plain(message)
    assert part(found, "reply", "adjust", "env", 0, "key")
    assert part(found, "event", "owners") == ["30-env-injector"]
    assert "/process/env/FOO" in str(part(found, "event", "changed"))


def test_undecodable_messages_are_shown_in_hexadecimal(recording: Recording) -> None:
    malformed, unknown = len(ITEMS) + 1, len(ITEMS) + 2
    for number, mark, content in ((malformed, "malformed", "ffff"), (unknown, "unknown", "0801")):
        found = document_of(recording, str(number))
        assert part(found, "event", "mark") == mark
        assert found["request"] == {"raw" if mark == "unknown" else mark: content}
        assert found["reply"] == {}


def test_an_error_s_document_has_its_message(recording: Recording) -> None:
    found = document_of(recording, str(len(ITEMS) + 3))
    assert part(found, "event", "status") == "error"
    assert part(found, "event", "status_code") == 2
    assert part(found, "event", "status_message") == "it is \x1b[31mbroken"


def test_a_container_s_document_has_its_newest_message_and_events(recording: Recording) -> None:
    found = document_of(recording, "shop/web/sidecar")
    assert list(found) == ["container", "told_by_event", "message", "events", "coverage"]
    assert part(found, "container", "pod") == "web"
    assert part(found, "message", "name") == "sidecar"
    events = found["events"]
    assert isinstance(events, list)
    assert part(events, 0, "event") == "CreateContainer"
    assert part(events, 0, "id") == found["told_by_event"]


def test_a_pod_s_document_has_its_containers(recording: Recording) -> None:
    found = document_of(recording, "jobs/batch")
    assert list(found) == ["pod", "told_by_event", "message", "events", "coverage"]
    containers = part(found, "pod", "containers")
    assert isinstance(containers, list)
    assert [part(container, "name") for container in containers] == ["job", "broken"]
    assert part(found, "events", 0, "container") == "job"


def test_message_bytes_are_the_stored_bytes(recording: Recording) -> None:
    assert message_bytes(recording, find(recording, "2")) == recording.request(2)
    content = message_bytes(recording, find(recording, "shop/web/app"))
    assert ContainerMessage.FromString(content).name == "app"
