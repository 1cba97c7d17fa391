# SPDX-License-Identifier: Apache-2.0
"""All that is known of an event, a pod or a container."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nri_scope._gen.nri.api_pb2 import Container as ContainerMessage
from nri_scope.nri.plain import Plain, plain
from nri_scope.nri.request_subject import decode_request
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.documents import document, message_bytes
from nri_scope.recording.lookup import find
from nri_scope.recording.reader import Recording
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


def shown(recording: Recording, what: str) -> dict[str, Plain]:
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


def test_an_event_comes_with_request_and_reply(recording: Recording) -> None:
    told = shown(recording, "2")
    assert list(told) == ["event", "request", "reply"]
    message = decode_request("CreateContainer", ITEMS[1].request).message
    assert message is not None
    assert told["request"] == plain(message)
    assert part(told, "reply", "adjust", "env", 0, "key")
    assert part(told, "event", "owners") == ["30-env-injector"]
    assert "/process/env/FOO" in str(part(told, "event", "changed"))


def test_what_is_no_message_is_in_hexadecimal(recording: Recording) -> None:
    malformed, unknown = len(ITEMS) + 1, len(ITEMS) + 2
    for number, mark, content in ((malformed, "malformed", "ffff"), (unknown, "unknown", "0801")):
        told = shown(recording, str(number))
        assert part(told, "event", "mark") == mark
        assert told["request"] == {"raw" if mark == "unknown" else mark: content}
        assert told["reply"] == {}


def test_an_error_comes_with_its_words(recording: Recording) -> None:
    told = shown(recording, str(len(ITEMS) + 3))
    assert part(told, "event", "status") == "error"
    assert part(told, "event", "status_code") == 2
    assert part(told, "event", "status_message") == "it is \x1b[31mbroken"


def test_a_container_comes_with_its_newest_message_and_its_events(recording: Recording) -> None:
    told = shown(recording, "shop/web/sidecar")
    assert list(told) == ["container", "told_by_event", "message", "events"]
    assert part(told, "container", "pod") == "web"
    assert part(told, "message", "name") == "sidecar"
    events = told["events"]
    assert isinstance(events, list)
    assert part(events, 0, "event") == "CreateContainer"
    assert part(events, 0, "id") == told["told_by_event"]


def test_a_pod_comes_with_its_containers(recording: Recording) -> None:
    told = shown(recording, "jobs/batch")
    assert list(told) == ["pod", "told_by_event", "message", "events"]
    containers = part(told, "pod", "containers")
    assert isinstance(containers, list)
    assert [part(container, "name") for container in containers] == ["job", "broken"]
    assert part(told, "events", 0, "container") == "job"


def test_the_bytes_are_those_of_the_message(recording: Recording) -> None:
    assert message_bytes(recording, find(recording, "2")) == recording.request(2)
    content = message_bytes(recording, find(recording, "shop/web/app"))
    assert ContainerMessage.FromString(content).name == "app"
