# SPDX-License-Identifier: Apache-2.0
"""A secret that is a word of ours keeps nothing from being written; any other one does."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import RedactionLeak
from nri_scope.recording.reader import Recording
from nri_scope.share.formats import FORMATS
from nri_scope.share.redacted_copy import convert, redact
from nri_scope.share.redaction import Redactor, Rules
from tests.recording.traffic import a_container, a_pod, an_item, record

KEY = bytes(32)
WORDS = {
    "jsonl": ["schema_version", "request", "tested", "container"],
    "otlp-json": ["startTimeUnixNano", "container.runtime.name", "stringValue"],
    "perfetto": ["plugin connections", "deadline_ms", "CreateContainer"],
    "sqlite-expanded": ["environment", "SQLite format 3", "CREATE VIEW"],
}


def a_recording(path: Path, secrets: list[str]) -> Path:
    pod = a_pod()
    container = a_container(pod, variables=0)
    container.env.extend(f"SECRET_KEY_{number}={one}" for number, one in enumerate(secrets))
    request = api.CreateContainerRequest(pod=pod, container=container)
    record(path, [an_item("CreateContainer", request)])
    return path


@pytest.mark.parametrize("name", FORMATS)
def test_what_formats_say_themselves_is_no_leak(name: str, tmp_path: Path) -> None:
    path = a_recording(tmp_path / "r.db", WORDS[name])
    redactor = Redactor(Rules.DEFAULT, KEY)
    draft = tmp_path / "draft"
    with Recording.open(path) as recording:
        assert convert(recording, FORMATS[name], draft, redactor=redactor, target=draft) == 1
    assert redactor.tally.total == len(WORDS[name])


@pytest.mark.parametrize("name", FORMATS)
def test_what_comes_from_elsewhere_is_one(name: str, tmp_path: Path) -> None:
    path = a_recording(tmp_path / "r.db", ["hunter2-hunter2"])
    target = tmp_path / "of-hunter2-hunter2"
    with Recording.open(path) as recording:
        redactor = Redactor(Rules.DEFAULT, KEY)
        with pytest.raises(RedactionLeak, match="the file's name; choose another name"):
            convert(recording, FORMATS[name], tmp_path / "x", redactor=redactor, target=target)
        with pytest.raises(RedactionLeak, match="the file's name; choose another name"):
            redact(recording, target, Redactor(Rules.DEFAULT, KEY))
    assert not target.exists()


def test_a_redacted_recording_may_have_them(tmp_path: Path) -> None:
    secrets = ["SQLite format 3", "CREATE TABLE", "StartContainer", "environment"]
    path = a_recording(tmp_path / "r.db", secrets)
    with Recording.open(path) as recording:
        rebuilt = redact(recording, tmp_path / "x.db", Redactor(Rules.DEFAULT, KEY))
    assert rebuilt.path == tmp_path / "x.db" and rebuilt.path.exists()
