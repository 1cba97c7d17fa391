# SPDX-License-Identifier: Apache-2.0
"""A redactor is applied to all data written."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import CONTAINER_STATUS, CRI_SERVICE, REDACTED, RING_REMOVED, Role
from nri_scope.filter import parse
from nri_scope.nri.events import METHODS
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.reading.event_messages import status_request
from nri_scope.recording.reading.reader import Recording
from nri_scope.share.extract import extract
from nri_scope.share.redaction import NameKind, Redactor, Rules
from tests.recording.traffic import (
    NOW,
    a_container,
    a_pod,
    a_start,
    a_synchronize,
    an_item,
    lifecycles,
)
from tests.share.extract.unchanged import Unchanged

_SECRET = b"secret"
_MASK = b"******"


class Masking(Unchanged):
    """Change that masks one word."""

    def request(self, method: str, message: bytes, *, service: str = "") -> bytes:
        return self.reply(method, message)

    def reply(self, method: str, message: bytes, *, service: str = "") -> bytes:
        return message.replace(_SECRET, _MASK)

    def text(self, text: str, place: str = "text", *, of_event: bool = False) -> str:
        assert re.fullmatch(r"(event|session|gap|note|mark|output)\.[a-z_]+", place)
        return self.path(text)

    def name(self, kind: NameKind, text: str) -> str:
        return self.path(text)

    def id(self, text: str) -> str:
        return self.path(text)

    def path(self, pointer: str) -> str:
        return pointer.replace("secret", "******")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "whole.db"
    pod = a_pod(0, namespace="secret-ns")
    pod.annotations["x"] = "a secret"
    container = a_container(pod, "secret-app")
    container.id = "secret-id"
    container.env.append("A=secret")
    adjustment = api.ContainerAdjustment()
    adjustment.env.add(key="secret", value="secret")
    synchronized = a_synchronize(1)
    synchronized.pods.append(pod)
    synchronized.containers.append(container)
    recorder = Recorder.open(path)
    start = a_start("10-secret", role=Role.TAP)
    session = recorder.begin_session(
        replace(start, runtime_version="1.7-secret", nri_version="0.6-secret")
    )
    items = [
        an_item("Synchronize", synchronized),
        an_item(
            "CreateContainer",
            api.CreateContainerRequest(pod=pod, container=container),
            api.CreateContainerResponse(adjust=adjustment).SerializeToString(),
        ),
        an_item(
            "StopContainer",
            api.StopContainerRequest(pod=pod, container=container),
            status_code=2,
            status_message="the secret was refused",
        ),
        an_item("FutureEvent", b"\xff secret", b"secret"),
        *lifecycles(1, first=7),
    ]
    for item in items:
        recorder.capture(session, item)
    cri_session = recorder.begin_session(a_start("-cri", role=Role.CRI))
    answer = b'{"runtimeSpec": {"process": {"env": ["A=secret"]}}}'
    question = status_request("secret-id")
    recorder.capture(cri_session, an_item(CONTAINER_STATUS, question, answer, service=CRI_SERVICE))
    recorder.note_gap(session, NOW, NOW, "a secret gap", 1)
    recorder.note_gap(None, NOW, NOW, RING_REMOVED, 1)
    recorder.note(session, NOW, "a secret note")
    recorder.end_session(session, "it secretly ended", NOW)
    recorder.close()
    return path


def readable_content(recording: Recording) -> bytes:
    """Return all texts and messages of a recording."""
    messages = [message for _, *both in recording.exchanges() for message in both]
    state = recording.state(1)
    objects = [recording.object(number)[1] for (number,) in recording.rows("SELECT id FROM object")]
    tables = ("session", "event", "pod", "container", "gap", "note", "name")
    rows = [repr(recording.rows(f"SELECT * FROM {table}")).encode() for table in tables]
    return b"\n".join([*messages, *state.pods, *state.containers, *objects, *rows])


def test_all_texts_and_messages_are_changed(path: Path, tmp_path: Path) -> None:
    with Recording.open(path) as whole:
        assert readable_content(whole).count(_SECRET) > 20
        extract(whole, tmp_path / "new.db", redactor=Masking())
        with Recording.open(tmp_path / "new.db") as new:
            assert _SECRET not in readable_content(new).replace(REDACTED.encode(), b"")
            created = next(iter(new.events(where=parse("event:CreateContainer"))))
            assert created.changed == ("/process/env/******",)
            assert created.owners == ("10-******",)
            assert (created.namespace, created.container) == ("******-ns", "******-app")
            assert created.container_id == "******-id"
            # Unchanged: sizes on the wire, and texts without the word.
            assert [event.size for event in new.events()] == [e.size for e in whole.events()]
            assert [gap.reason for gap in new.gaps()] == ["a ****** gap", RING_REMOVED]
            assert new.request(6) == whole.request(6)
    content = (tmp_path / "new.db").read_bytes().replace(REDACTED.encode(), b"")
    assert _SECRET not in content


def test_a_message_that_becomes_unreadable_is_marked(path: Path, tmp_path: Path) -> None:
    class Breaking(Unchanged):
        def request(self, method: str, message: bytes, *, service: str = "") -> bytes:
            return b"\xff" if method == "CreateContainer" else message

    with Recording.open(path) as whole:
        extract(whole, tmp_path / "new.db", redactor=Breaking())
    with Recording.open(tmp_path / "new.db") as new:
        created = [(event.mark, request) for event, request, _ in new.exchanges()]
    assert ("malformed", b"\xff") in created


def test_a_redacted_part_has_the_shape_of_the_original(path: Path, tmp_path: Path) -> None:
    redactor = Redactor(Rules.DEFAULT, bytes(32))
    with Recording.open(path) as whole:
        extract(whole, tmp_path / "new.db", redactor=redactor)
        with Recording.open(tmp_path / "new.db") as new:
            before, after = list(whole.exchanges()), list(new.exchanges())
            assert [event.event for event, *_ in before] == [event.event for event, *_ in after]
            for (one, *_), (other, request, _) in zip(before, after, strict=True):
                assert (one.mark, one.seq, one.at_ns) == (other.mark, other.seq, other.at_ns)
                if one.event == "CreateContainer":
                    message = METHODS["CreateContainer"].request.FromString(request)
                    assert isinstance(message, api.CreateContainerRequest)
                    assert (message.pod.id, message.container.id) == (
                        other.pod_id,
                        other.container_id,
                    )
                    assert message.container.env[0].partition("=")[0] in {"VARIABLE_00", "A"}
