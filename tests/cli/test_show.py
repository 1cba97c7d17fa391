# SPDX-License-Identifier: Apache-2.0
"""``nri-scope show``."""

from __future__ import annotations

import json
import os
import pty
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from nri_scope._gen.nri.api_pb2 import (
    Container,
    CreateContainerRequest,
    CreateContainerResponse,
)
from nri_scope.cli.demo import bundled_path
from nri_scope.cli.main import cli, run
from nri_scope.nri.plain import plain_bytes
from tests.cli.command import NRI_SCOPE
from tests.recording.recordings import record


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("show") / "x.nriscope.db")


def show(path: Path, subject: str, *more: str) -> bytes:
    result = CliRunner().invoke(cli, ["show", str(path), subject, *more], catch_exceptions=False)
    assert result.exit_code == 0
    assert not result.stderr
    return result.stdout_bytes


def test_yaml_has_the_decoded_messages(path: Path) -> None:
    text = show(path, "4").decode()
    assert "\n    env:\n      - PATH=/bin\n" in text
    assert "note: 'café ☕'" in text
    assert yaml.safe_load(text)["event"]["event"] == "CreateContainer"


@pytest.mark.parametrize("subject", ["4", "shop/web", "shop/web/app"])
def test_json_is_one_object_equal_to_the_yaml(path: Path, subject: str) -> None:
    document = json.loads(show(path, subject, "--format", "json"))
    assert document.pop("schema_version") == 1
    assert document == yaml.safe_load(show(path, subject))


def test_raw_is_protobuf(path: Path) -> None:
    content = show(path, "shop/web/app", "--format", "raw")
    assert Container.FromString(content).name == "app"


def test_raw_to_a_terminal_is_rejected(path: Path) -> None:
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [NRI_SCOPE, "show", str(path), "4", "--format", "raw"],
        stdout=theirs,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 2
    assert done.stderr == (
        "nri-scope: --format raw is binary, and the output is a terminal; "
        "redirect it: > message.bin\n"
    )


def test_an_event_is_shown_though_a_later_one_is_damaged(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = tmp_path / "x.nriscope.db"
    damaged.write_bytes(path.read_bytes())
    with closing(sqlite3.connect(damaged)) as file, file:
        (event,) = file.execute(
            "SELECT max(id) FROM event WHERE container = (SELECT container FROM event WHERE id = 4)"
        ).fetchone()
        file.execute(
            "UPDATE event SET container_object = (SELECT max(id) FROM object) + 1 WHERE id = ?",
            [event],
        )
    assert run(["show", str(damaged), "4"]) == 0
    captured = capsys.readouterr()
    assert captured.out == show(path, "4").decode()
    assert captured.err.startswith("without the changes that only several events show: ")
    assert captured.err.count("\n") == 1
    assert run(["show", str(damaged), str(event)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        ("99", "event 99 is not in {}; it has 1 to 31"),
        (
            "shop/webb",
            'no event, pod, container or changed path "shop/webb" in {}; the nearest is shop/web',
        ),
    ],
)
def test_an_unknown_subject_gives_one_line_and_status_2(
    path: Path, subject: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["show", str(path), subject]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"nri-scope: {words.format(path)}\n"


@pytest.mark.parametrize("part", ["request", "reply"])
def test_one_message_is_shown_alone(part: str) -> None:
    path = bundled_path()
    document = yaml.safe_load(show(path, "21"))
    assert yaml.safe_load(show(path, "21", f"--{part}")) == document[part] != {}
    assert json.loads(show(path, "21", f"--{part}", "--format", "json")) == document[part]
    kind = {"request": CreateContainerRequest, "reply": CreateContainerResponse}[part]
    assert plain_bytes(kind, show(path, "21", f"--{part}", "--format", "raw")) == document[part]


def test_a_pod_has_no_reply(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["show", str(path), "shop/web", "--reply"]) == 2
    assert capfd.readouterr() == (
        "",
        "nri-scope: --reply is of an event, and shop/web is none; give its number\n",
    )
