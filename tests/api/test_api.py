# SPDX-License-Identifier: Apache-2.0
"""`nri_scope.open` tells what the commands tell, and `nri_scope.create` writes what it reads."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import nri_scope
from nri_scope.cli.main import run
from nri_scope.entries import Began, Ended
from nri_scope.errors import FilterError, RecordingError, UsageError
from nri_scope.events import Role, SessionStart

SAMPLES = Path(__file__).parents[2] / "recordings"
CONFLICT = SAMPLES / "containerd-2.1-conflict.nriscope.zip"
NORMAL = SAMPLES / "containerd-2.1-normal-life.nriscope.zip"
CRIO = SAMPLES / "cri-o-1.37.nriscope.zip"


def printed(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    capsys.readouterr()
    assert run([*map(str, arguments)]) in (0, 1)
    return capsys.readouterr().out


@pytest.mark.parametrize("path", [CONFLICT, NORMAL, CRIO], ids=lambda path: path.name)
def test_events_and_operations_are_those_of_the_log(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with nri_scope.open(path) as recording:
        events = [event.id for event in recording.events("event:CreateContainer changed:env")]
        operations = [one.record() for one in recording.operations()]
    told = printed(capsys, "log", path, "--format", "jsonl", "--where",
                   "event:CreateContainer changed:env")  # fmt: skip
    assert events and events == [
        one["id"] for one in map(json.loads, told.splitlines()) if "id" in one
    ]
    told = printed(capsys, "log", path, "--operations", "--format", "jsonl")
    records = [one for one in map(json.loads, told.splitlines()) if "id" in one]
    assert len(operations) == len(records) > 5
    for operation, record in zip(operations, records, strict=True):
        assert operation["events"] == record["events"]
        assert operation["slowest"] == record["slowest"]


@pytest.mark.parametrize("path", [CONFLICT, NORMAL, CRIO], ids=lambda path: path.name)
def test_lines_owners_and_findings_are_those_of_the_commands(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with nri_scope.open(path) as recording:
        findings = [finding.record() for finding in recording.findings()]
        told = printed(capsys, "report", path, "--diagnose", "--format", "json")
        assert json.loads(told)["findings"] == json.loads(json.dumps(findings))
        for container in recording.containers():
            if container.pod is None:
                continue
            name = f"{container.pod.namespace}/{container.pod.name}/{container.name}"
            blame = recording.container(name).blame()
            document: dict[str, Any] = json.loads(printed(capsys, "blame", path, name,
                                                          "--format", "json"))  # fmt: skip
            for line in document["lines"]:
                known = blame[line["path"]]
                assert known.changed == line["changed"]
                if line["changed"] and known.owner is not None:
                    assert str(known.owner) == line["owner"]


def test_events_have_outcomes_and_messages() -> None:
    with nri_scope.open(NORMAL) as recording:
        changing = [event for event in recording.events() if event.changed]
        assert changing and all(len(one.outcomes) == len(one.changed) for one in changing)
        (first, *_) = recording.to_dicts("event:CreateContainer")
    assert {"event", "request", "reply"} <= first.keys()


def test_a_copy_by_hand_has_the_sessions_of_its_original(tmp_path: Path) -> None:
    path = tmp_path / "y.nriscope.db"
    with nri_scope.open(NORMAL) as recording, nri_scope.create(path) as writer:
        sessions = recording.sessions()
        for session in sessions:
            writer.put(Began(session))
            writer.put(Ended(session))
        writer.note(None, sessions[0].started_ns, "made by hand")
    with nri_scope.open(path) as recording:
        assert [one.plugin for one in recording.sessions()] == [one.plugin for one in sessions]
        assert [note.text for note in recording.notes()] == ["made by hand"]
        assert not recording.containers() and not recording.pods()
        assert not [*recording.events(), *recording.operations(), *recording.output()]


def test_errors_are_those_of_the_package(tmp_path: Path) -> None:
    with pytest.raises(RecordingError):
        nri_scope.open(tmp_path / "none.db")
    with pytest.raises(RecordingError):
        nri_scope.create(CONFLICT).__enter__()

    def convert() -> None:
        with nri_scope.create(tmp_path / "x.db") as writer:
            writer.begin_session(SessionStart.unconfigured(Role.LOGGER, "10", "a", 1))
            raise UsageError("a converter failed")

    with pytest.raises(UsageError):
        convert()
    assert not (tmp_path / "x.db").exists()
    with nri_scope.open(CONFLICT) as recording:
        with pytest.raises(FilterError):
            next(recording.events("nonsense:x"))
        with pytest.raises(UsageError):
            recording.container("shop/none/app")
        pod = recording.pods()[0]
        with pytest.raises(UsageError, match="is not a container"):
            recording.container(f"{pod.namespace}/{pod.name}")


def test_the_package_itself_imports_nothing() -> None:
    code = "import sys, nri_scope; sys.exit('sqlite3' in sys.modules or 'click' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_examples_of_the_page_run(tmp_path: Path) -> None:
    page = (SAMPLES.parent / "docs" / "python.md").read_text()
    (tmp_path / "recordings").symlink_to(SAMPLES)
    blocks = [part.partition("```")[0] for part in page.split("```python\n")[1:]]
    for code in blocks:
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
    assert len(blocks) == 4 and (tmp_path / "made.nriscope.db").exists()
