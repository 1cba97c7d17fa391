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
from nri_scope.api import redacted
from nri_scope.cli.main import run
from nri_scope.entries import Began, Ended
from nri_scope.errors import FilterError, RecordingError, UsageError
from nri_scope.events import Event, Role, SessionStart
from nri_scope.recording.reading.records import to_json
from nri_scope.share.redaction import Rules
from tests.sample_names import CHECKOUT, CHECKOUT_API

SAMPLES = Path(__file__).parents[2] / "recordings"
CONFLICT = SAMPLES / "containerd-2.1-conflict.nriscope.zip"
NORMAL = SAMPLES / "containerd-2.1-normal-life.nriscope.zip"
PLAIN = SAMPLES / "containerd-2.1.nriscope.db"
"""Not redacted."""
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
        operations = [operation.record() for operation in recording.operations()]
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


def test_each_heading_of_a_spec_has_a_line() -> None:
    with nri_scope.open(PLAIN) as recording:
        blame = recording.container(CHECKOUT_API).blame()
    members = [path for path in blame if path.startswith("/mounts/") and path.count("/") == 2]
    assert members
    for path in members:
        assert blame[path].heading and blame[path].member
    parents = {path.rpartition("/")[0] for path in blame} - {""}
    assert parents <= set(blame)


def test_events_have_outcomes_and_messages() -> None:
    with nri_scope.open(NORMAL) as recording:
        changing = [event for event in recording.events() if event.changed]
        assert changing and all(len(one.outcomes) == len(one.changed) for one in changing)
        (first, *_) = recording.to_dicts("event:CreateContainer")
    assert {"event", "request", "reply"} <= first.keys()


def test_statistics_and_documents_are_those_of_the_commands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with nri_scope.open(CRIO) as recording:
        told = json.loads(printed(capsys, "report", CRIO, "--format", "json"))
        assert told == {"schema_version": 1} | json.loads(to_json(recording.statistics().record()))
        container = recording.containers()[0]
        for what in ("1", container.id, container.pod.id if container.pod else ""):
            subject = recording.find(what)
            if isinstance(subject, Event):
                subject = recording.with_outcomes(subject)
            told = json.loads(printed(capsys, "show", CRIO, what, "--format", "json"))
            assert told == {"schema_version": 1} | json.loads(to_json(recording.document(subject)))


@pytest.mark.parametrize("name", ["x.nriscope.zip", "x.nriscope.db", "x.jsonl"])
def test_exported_files_are_those_of_the_command(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    form = "jsonl" if name.endswith("jsonl") else ""
    where, pod = "event:CreateContainer", CHECKOUT
    with nri_scope.open(NORMAL) as recording:
        pods = [f"{pod.namespace}/{pod.name}" for pod in recording.pods()]
        assert pod in pods
        chosen = recording.selection(where, pod=pod)
        written = recording.export(tmp_path / name, chosen, form=form)
        with pytest.raises(UsageError):
            recording.export(tmp_path / name, form=form)
        with pytest.raises(UsageError):
            recording.export(tmp_path / f"none{name}", recording.selection(pod="shop/none"))
    assert written.size == (tmp_path / name).stat().st_size
    assert written.events > 0 and not written.damage
    assert (written.bundle is not None) == name.endswith("zip")
    (tmp_path / "by").mkdir()
    printed(capsys, "export", NORMAL, "-o", tmp_path / "by" / name, "--where", where, "--pod", pod,
            *(("--format", form) if form else ()))  # fmt: skip
    assert (tmp_path / name).read_bytes() == (tmp_path / "by" / name).read_bytes()


def test_redacted_recordings_have_the_numbers_and_names_of_the_original() -> None:
    with nri_scope.open(PLAIN) as original, redacted([original], Rules.DEFAULT) as (recording,):
        assert [event.id for event in recording.events()] == [one.id for one in original.events()]
        assert not original.is_redacted and recording.redactor is not None
        container = original.containers()[0]
        plain, hidden = (one.container(container.id) for one in (original, recording))
        assert plain.name == hidden.name
        values = {path: line.value for path, line in plain.blame().items()}
        replaced = {path: line.value for path, line in hidden.blame().items()}
        assert values.keys() == replaced.keys() and values != replaced


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
        registered = next(event for event in recording.events() if not event.container)
        with pytest.raises(UsageError, match="does not concern a container"):
            recording.container(str(registered.id))


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
    assert len(blocks) == 5 and (tmp_path / "made.nriscope.db").exists()
