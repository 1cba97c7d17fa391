# SPDX-License-Identifier: Apache-2.0
"""Recordings that exceed the work limit are rejected with one line and without output."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.cli.main import run
from nri_scope.errors import UsageError
from nri_scope.recording import work_budget
from nri_scope.recording.work_budget import REDACTION
from nri_scope.share.redaction import Redactor, Rules
from nri_scope.share.redaction.limits import Memory
from tests.bombs.recordings import make, many_rows
from tests.recording.traffic import lifecycles, record

KEY = bytes(range(32))


def a_message(number: int, variables: int = 20) -> bytes:
    container = api.Container(
        id=f"c{number}", env=[f"V{n}=value {number} {n}" for n in range(variables)]
    )
    return api.CreateContainerRequest(container=container).SerializeToString()


@pytest.mark.parametrize("method", ["learn", "request"])
@pytest.mark.parametrize("is_one", [True, False], ids=["one message again and again", "others"])
def test_searched_messages_count_as_work(method: str, is_one: bool) -> None:
    redactor = Redactor(Rules.DEFAULT, KEY, memory=Memory(work=100_000))

    def redact_all() -> None:
        for number in range(3_000):
            content = a_message(0 if is_one else number)
            if method == "learn":
                redactor.learn("CreateContainer", content, b"")
            else:
                redactor.request("CreateContainer", content)

    with pytest.raises(UsageError, match="for a file of its size"):
        redact_all()


def test_elements_without_text_count_as_work() -> None:
    redactor = Redactor(Rules.DEFAULT, KEY, memory=Memory(work=200_000))
    container = api.Container(id="c", mounts=[api.Mount()] * 20_000)
    content = api.CreateContainerRequest(container=container).SerializeToString()

    def redact_all() -> None:
        for _ in range(10):
            redactor.request("CreateContainer", content)

    with pytest.raises(UsageError, match="for a file of its size"):
        redact_all()


def test_texts_of_tables_count_as_work() -> None:
    redactor = Redactor(Rules.DEFAULT, KEY, memory=Memory(work=100_000))
    notes = [f"note {number}" for number in range(10_000)]
    with pytest.raises(UsageError, match="for a file of its size"):
        list(map(redactor.learn_text, notes))


def test_too_many_learned_values_are_an_error() -> None:
    redactor = Redactor(Rules.DEFAULT, KEY, memory=Memory(values=100, work=1 << 40))
    redactor.learn("CreateContainer", a_message(0, 90), b"")
    with pytest.raises(UsageError, match="too many different values"):
        redactor.learn("CreateContainer", a_message(1, 90), b"")


def test_too_many_values_while_recording_are_no_error() -> None:
    redactor = Redactor(Rules.DEFAULT, KEY, memory=Memory(values=100))
    for number in range(10):
        given = redactor.request("CreateContainer", a_message(number))
        assert b"value" not in given


def test_the_limit_grows_with_the_file() -> None:
    least = REDACTION.least_bytes
    assert REDACTION.units(0) == REDACTION.units(least)
    assert REDACTION.units(2 * least) == 2 * REDACTION.units(least)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "command",
    [
        ("export", "FILE", "--redact", "-o", "OUT/r.nriscope.db"),
        ("export", "FILE", "--preview"),
        ("export", "FILE", "--redact", "-o", "OUT/r.nriscope.zip"),
        ("export", "FILE", "--redact", "--format", "jsonl", "-o", "OUT/r.jsonl"),
    ],
    ids=["redact", "preview", "bundle", "format"],
)
def test_a_command_reports_the_limit_and_leaves_no_file(
    command: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(work_budget, "REDACTION", REDACTION._replace(per_byte=0.05))
    path, out = tmp_path / "r.nriscope.db", tmp_path / "out"
    out.mkdir()
    make(path, many_rows("event", 10_000 * 65))

    words = [word.replace("OUT", str(out)) for word in command]
    assert run([str(path) if word == "FILE" else word for word in words]) == 2

    output = capsys.readouterr()
    assert "searching this recording for secrets" in output.err and "--where" in output.err
    assert "Traceback" not in output.err and not output.out
    assert not list(out.iterdir())


@pytest.mark.exhaustive
def test_an_ordinary_recording_is_below_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "r.nriscope.db"
    record(path, lifecycles(20))

    assert run(["export", str(path), "--redact", "-o", str(tmp_path / "x.nriscope.db")]) == 0
