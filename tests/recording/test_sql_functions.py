# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.recording.reading.reader import Recording
from tests.recording.traffic import a_container, a_pod, an_item, lifecycle, record


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[Recording]:
    path = tmp_path / "r.db"
    pod = a_pod()
    pod.annotations["note"] = "café ☕"
    container = a_container(pod)
    container.created_at = 2**62
    reply = api.CreateContainerResponse()
    reply.adjust.annotations["a"] = "b"
    unknown = api.RunPodSandboxRequest(pod=pod).SerializeToString() + b"\xc2\x3e\x01x"
    record(
        path,
        [
            an_item(
                "CreateContainer",
                api.CreateContainerRequest(pod=pod, container=container),
                reply.SerializeToString(),
            ),
            an_item("StateChange", b"\xff"),
            an_item("FutureEvent", b"\x01\x02", b"\x03"),
            an_item("RunPodSandbox", unknown, b"\xff"),
        ],
    )
    with Recording.open(path) as opened:
        yield opened


def _one(recording: Recording, expression: str) -> object:
    (value,) = recording.connection.execute(f"SELECT {expression}").fetchone()
    return value


def _json(recording: Recording, expression: str) -> object:
    text = _one(recording, expression)
    assert isinstance(text, str)
    return json.loads(text)


def test_a_request_is_json_with_the_protocol_s_names_and_numbers(recording: Recording) -> None:
    extract = "json_extract(nri_json(1), '$.{}')".format
    assert _one(recording, extract("pod.namespace")) == "shop"
    assert _one(recording, extract("pod.annotations.note")) == "café ☕"
    assert _one(recording, extract("container.env[1]")) == "VARIABLE_01=value-01-of-web-0"
    assert _one(recording, extract("container.created_at")) == 2**62


def test_a_reply(recording: Recording) -> None:
    assert _json(recording, "nri_json(1, 'reply')") == {"adjust": {"annotations": {"a": "b"}}}
    assert _json(recording, "nri_json(1, 'request')") == _json(recording, "nri_json(1)")


def test_an_object(recording: Recording) -> None:
    pod = _json(recording, "(SELECT nri_object(pod_object) FROM event WHERE id = 1)")
    container = _json(recording, "(SELECT nri_object(container_object) FROM event WHERE id = 1)")
    assert _json(recording, "nri_json(1)") == {"pod": pod, "container": container}


def test_malformed_or_unknown_messages_are_in_hexadecimal(recording: Recording) -> None:
    assert _json(recording, "nri_json(2)") == {"malformed": "ff"}
    assert _json(recording, "nri_json(2, 'reply')") == {}
    assert _json(recording, "nri_json(3)") == {"raw": "0102"}
    assert _json(recording, "nri_json(3, 'reply')") == {"raw": "03"}
    assert _json(recording, "nri_json(4, 'reply')") == {"malformed": "ff"}


def test_unknown_fields_are_included(recording: Recording) -> None:
    request = _json(recording, "nri_json(4)")
    assert isinstance(request, dict)
    assert request["unknown_fields"] == [{"field": 1000, "value": "78"}]


@pytest.mark.parametrize(
    "expression",
    [
        "nri_json(99)",
        "nri_json(-1)",
        "nri_json(NULL)",
        "nri_json(1, NULL)",
        "nri_object(9999)",
        "nri_object(NULL)",
    ],
)
def test_missing_events_and_objects_are_null(recording: Recording, expression: str) -> None:
    assert _one(recording, expression) is None


@pytest.mark.parametrize(
    "expression",
    [
        "nri_json('1')",
        "nri_json(1.0)",
        "nri_json(x'01')",
        "nri_json(1, 'something')",
        "nri_object('1')",
    ],
)
def test_invalid_arguments_are_an_error(recording: Recording, expression: str) -> None:
    with pytest.raises(sqlite3.OperationalError):
        _one(recording, expression)


def test_functions_work_on_every_row_of_a_query(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    record(path, list(lifecycle(1)))
    with Recording.open(path) as recording:
        rows = recording.connection.execute(
            "SELECT id, json_extract(nri_json(id), '$.pod.name') FROM log ORDER BY id"
        ).fetchall()
    assert rows == [(number, "web-1") for number in range(1, 12)]
