# SPDX-License-Identifier: Apache-2.0
"""``nri-scope export``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from nri_scope.cli.main import run
from nri_scope.events import REDACTED
from nri_scope.recording.bundle.manifest import to_bytes
from nri_scope.recording.bundle.unpack import read_manifest
from nri_scope.recording.query.event_times import is_redacted
from nri_scope.recording.reading.reader import Recording
from nri_scope.share.bundle import Bundle
from nri_scope.share.redaction.tokens import PLAIN_TOKEN
from tests.cli.command import NRI_SCOPE
from tests.sample_names import CHECKOUT, CHECKOUT_API, CHECKOUT_POD, NAMESPACE, REPLICA
from tests.share.bundle.bundles import SAMPLE
from tests.tui.terminal import needs_tmux, terminal

RunCommand = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> RunCommand:
    """Function that runs a command in a new folder; returns status, stdout and stderr."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def command(*words: str) -> tuple[int, str, str]:
        status = run(words)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return command


def files() -> list[str]:
    return sorted(path.name for path in Path().iterdir())


def test_redact_removes_secrets_and_lists_replacements(run_command: RunCommand) -> None:
    status, out, err = run_command("export", str(SAMPLE), "-o", "x.nriscope.zip", "--redact")
    assert (status, out) == (0, "")
    assert err.startswith("x.nriscope.zip: ") and err.count("\n") == 1
    assert "32 events; " in err and "credential-keys" in err
    assert files() == ["x.nriscope.zip"]
    with Recording.open("x.nriscope.zip") as recording:
        assert not any(b"hunter2" in request for _, request, _ in recording.exchanges())


def test_without_redact_secrets_are_warned_about(run_command: RunCommand) -> None:
    status, _, err = run_command(
        "export", str(SAMPLE), "-o", "x.nriscope.zip", "--note", "Look at 5"
    )
    assert status == 0
    assert "values as in the recording; --redact removes secrets" in err
    assert read_manifest(Path("x.nriscope.zip")).note == "Look at 5"


def test_unreadable_marks_are_reported(run_command: RunCommand) -> None:
    Path("one.nriscope.db").write_bytes(SAMPLE.read_bytes())
    Path("one.nriscope.db.marks.json").write_text("{")
    words = "one.nriscope.db.marks.json is damaged: it is not JSON; its marks were not copied"
    status, _, err = run_command("export", "one.nriscope.db", "-o", "x.nriscope.zip", "--redact")
    assert status == 0 and words in err
    status, _, err = run_command("export", "one.nriscope.db", "--redact", "-o", "y.nriscope.db")
    assert status == 0 and words in err
    Path("one.nriscope.db.marks.json").unlink()
    assert (
        "marks"
        not in run_command("export", "one.nriscope.db", "--redact", "-o", "z.nriscope.db")[2]
    )


def test_a_redacted_source_is_not_said_to_include_secrets(run_command: RunCommand) -> None:
    assert run_command("export", str(SAMPLE), "-o", "x.nriscope.zip", "--redact")[0] == 0
    for more in (("-o", "y.nriscope.zip"), ("--format", "jsonl", "-o", "y.jsonl")):
        status, _, err = run_command("export", "x.nriscope.zip", *more)
        assert status == 0 and "redacted" in err and "secrets" not in err and "--redact" not in err
    with zipfile.ZipFile("y.nriscope.zip") as bundle:
        assert "Unless the recording was already redacted" in bundle.read("README.md").decode()


def test_a_second_redaction_says_that_there_was_one_before(run_command: RunCommand) -> None:
    assert run_command("export", str(SAMPLE), "--redact", "-o", "x.nriscope.db")[0] == 0
    said = "already redacted: no other values to replace were found"
    bundle = ("-o", "x.nriscope.zip")
    for source, more in (
        ("x.nriscope.db", bundle),
        ("x.nriscope.zip", ("-o", "y.nriscope.zip")),
        ("y.nriscope.zip", ("--format", "jsonl", "-o", "y.jsonl")),
    ):
        status, _, err = run_command("export", source, "--redact", *more)
        assert status == 0 and said in err and "replaced (" not in err
    with zipfile.ZipFile("y.nriscope.zip") as packed:
        assert "The original had already been redacted." in packed.read("README.md").decode()
    assert said in run_command("export", "y.nriscope.zip", "--redact", "-o", "y.nriscope.db")[2]
    # Not because nothing was found.
    assert run_command("export", str(SAMPLE), "-o", "z.nriscope.zip")[0] == 0
    with Recording.open("z.nriscope.zip") as recording:
        assert not is_redacted(recording)
    with Recording.open("y.nriscope.db") as recording:
        assert is_redacted(recording)
        assert [note.text for note in recording.notes()] == [REDACTED]


def test_the_name_of_the_selected_pod_is_redacted_if_the_rules_say_so(
    run_command: RunCommand,
) -> None:
    Path("rules.toml").write_text("[switches]\npods = true\nnamespaces = true\n")
    pack = ("export", str(SAMPLE), "--pod", CHECKOUT, "-o", "x.nriscope.zip", "--redact")
    assert f" events of pod {CHECKOUT} and " in run_command(*pack)[2]
    status, _, err = run_command(*pack, "rules.toml", "--force")
    assert status == 0 and " events of pod redacted-" in err
    assert NAMESPACE not in re.sub(PLAIN_TOKEN, "", err)
    with Recording.open("x.nriscope.zip") as recording:
        texts = "".join(note.text for note in recording.notes())
        pods = {f"pod {pod.namespace}/{pod.name}" for pod in recording.pods()}
    manifest = read_manifest(Path("x.nriscope.zip"))
    assert manifest.subject in pods and f"({manifest.subject})" in texts


def test_other_pods_in_the_bundle_of_a_pod_are_named(run_command: RunCommand) -> None:
    demo = str(SAMPLE.parent / "demo.nriscope.db")
    pack = ("export", demo, "-o", "x.nriscope.zip", "--force", "--pod")
    err = run_command(*pack, CHECKOUT)[2]
    assert f"31 events of pod {CHECKOUT} and 34 that they need, also of pod {REPLICA}, 23" in err
    manifest = to_bytes(read_manifest(Path("x.nriscope.zip"))).decode()
    assert CHECKOUT_POD in manifest and REPLICA not in manifest
    assert "also of" not in run_command("export", demo, "-o", "y.nriscope.zip")[2]


def test_at_most_three_other_pods_are_named(run_command: RunCommand) -> None:
    run_command("export", str(SAMPLE), "-o", "x.nriscope.zip")
    pods = tuple(f"shop/{number}" for number in range(1005))
    bundle = Bundle(Path("x"), 1, read_manifest(Path("x.nriscope.zip")), pods)
    assert bundle.other_pods_words == ", also of pods shop/0, shop/1, shop/2 and 1,002 more"


def test_a_part_can_be_read_by_every_command(run_command: RunCommand) -> None:
    status, _, err = run_command(
        *("export", str(SAMPLE), "-o", "x.nriscope.zip", "--pod", CHECKOUT),
        *("--where", "event:StartContainer"),
    )
    assert status == 0 and f"2 events of pod {CHECKOUT} and " in err and " left out" in err
    with Recording.open("x.nriscope.zip") as recording:
        (note,) = recording.notes()
    assert f"2 of its 32 events were selected (pod {CHECKOUT})" in note.text
    assert read_manifest(Path("x.nriscope.zip")).selection == {
        "--pod": CHECKOUT,
        "--where": "event:StartContainer",
    }
    assert run_command("export", "x.nriscope.zip", "-o", "y.nriscope.db")[0] == 0
    for words in (
        ("log", "x.nriscope.zip"),
        ("show", "x.nriscope.zip", CHECKOUT_API),
        ("sql", "x.nriscope.zip", "SELECT * FROM log"),
        ("report", "x.nriscope.zip"),
        ("blame", "x.nriscope.zip", CHECKOUT_API),
        ("log", "y.nriscope.db"),
    ):
        status, out, _ = run_command(*words)
        assert status == 0 and out


def test_rules_of_a_file_are_used(run_command: RunCommand) -> None:
    Path("rules.toml").write_text('[allow]\nenv = ["DB_PASSWORD"]\n')
    for more, kept in (([], False), (["rules.toml"], True)):
        status, _, err = run_command(
            "export", str(SAMPLE), "-o", "x.zip", "--force", "--redact", *more
        )
        assert status == 0, err
        with Recording.open("x.zip") as recording:
            assert kept == any(b"DB_PASSWORD=hunter2" in one for _, one, _ in recording.exchanges())


class TestFormats:
    def test_lines_go_to_standard_output(self, run_command: RunCommand) -> None:
        status, out, err = run_command(
            "export", str(SAMPLE), "--format", "jsonl", "--where", "event:Stop*"
        )
        assert (status, err) == (0, "")
        events = [json.loads(line) for line in out.splitlines() if '"event": {' in line]
        assert events and all("Stop" in event["event"]["event"] for event in events)

    @pytest.mark.parametrize("name", ["jsonl", "otlp-json", "perfetto", "sqlite-expanded"])
    def test_every_format_can_be_redacted(self, name: str, run_command: RunCommand) -> None:
        status, out, err = run_command(
            "export", str(SAMPLE), "--format", name, "-o", "x", "--redact"
        )
        assert (status, out) == (0, "")
        assert err.startswith("x: ") and "values replaced" in err
        assert b"hunter2" not in Path("x").read_bytes()
        assert files() == ["x"] and Path("x").stat().st_mode & 0o777 == 0o600

    @pytest.mark.parametrize("more", [[], ["--redact"]])
    def test_temporary_files_are_beside_the_output(
        self, more: list[str], run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tempfile, "tempdir", "nowhere")
        status, _, err = run_command(
            "export", str(SAMPLE), "--format", "sqlite-expanded", "-o", "x", *more
        )
        assert status == 0, err
        assert files() == ["x"]

    def test_without_room_for_temporary_files_nothing_is_printed(
        self, run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tempfile, "tempdir", "nowhere")
        status, out, err = run_command("export", str(SAMPLE), "--format", "jsonl", "--redact")
        assert (status, out) == (2, "")
        assert re.search("^nri-scope: a temporary file: cannot .*; set TMPDIR", err), err

    @pytest.mark.exhaustive
    def test_a_closed_output_pipe_is_no_error(self, run_command: RunCommand) -> None:
        line = f"{NRI_SCOPE} export {SAMPLE} --format jsonl | head -n 1"
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True)
        assert json.loads(done.stdout)["session"]["id"] == 1 and not done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["FILE"], "neither -o, --format nor --preview was given; add -o X.nriscope.zip"),
        (
            ["--redact", "FILE", "-o", "x.zip"],
            "a recording, not a file of rules; name the recording first",
        ),
        (
            ["FILE", "-o", "x"],
            "the name of a bundle must end in .zip, that of a recording in .db; name it x.nriscope",
        ),
        (["FILE", "-o", "nowhere/x.zip"], "nowhere/x.zip: no such folder; make it"),
        (["FILE", "-o", "taken.zip"], "taken.zip exists; name another file, .*--force"),
        (
            ["FILE", "-o", "x.zip", "--where", "ns:nope"],
            "no event in .* is selected; the recording has events from .*; list its",
        ),
        (["FILE", "-o", "x.zip", "--where", "pood:x"], "pood"),
        (["FILE", "-o", "x.zip", "--pod", f"{CHECKOUT}b"], f"the nearest is {CHECKOUT}"),
        (["FILE", "-o", "x.zip", "--since", "12:00", "--until", "11:00"], "is not before --until"),
        (["FILE", "-o", "x.zip", "--redact", "nowhere"], "nowhere: no such file"),
        (["FILE", "-o", "x.zip", "--redact", "bad.toml"], "bad.toml: line 2: "),
        (["FILE", "-o", "x.zip", "--max-size", "5000"], "the limit is 4.88 KiB; .*--pod"),
        (
            ["FILE", "--format", "jsonl", "--max-size", "1M"],
            "--format and --max-size exclude each other",
        ),
        (
            ["FILE", "--format", "jsonl", "--max-size", "5k"],
            "--format and --max-size exclude each other",
        ),
        (
            ["FILE", "-o", "x.jsonl", "--note", "a"],
            "x.jsonl: only bundles have --max-size and --note",
        ),
        (["FILE", "--format", "jsonl", "-o", "bad.toml"], "bad.toml exists"),
        (["FILE", "--format", "jsonl", "-o", "x.zip"], "x.zip: --format does not write zip files"),
        (["nowhere", "-o", "x.zip"], "nowhere: no such file"),
        (["FILE", "-o", "x.zip", "--pod", ""], "'--pod': the text is empty"),
        (["FILE", "-o", "x.zip", "--where", " "], "--where is empty; write a filter"),
        (["FILE", "-o", "pipe.zip", "--force"], "pipe.zip is not a regular file; name another"),
        (["FILE", "--format", "jsonl", "-o", "link", "--force"], "link is not a regular file"),
    ],
)
def test_invalid_input_prints_one_line_and_leaves_no_files(
    words: list[str], message: str, run_command: RunCommand
) -> None:
    Path("taken.zip").write_text("mine")
    os.mkfifo("pipe.zip")
    Path("link").symlink_to("/dev/null")
    Path("bad.toml").write_text("# rules\nx = \n")
    before = files()
    status, out, err = run_command(
        "export", *(str(SAMPLE) if word == "FILE" else word for word in words)
    )
    assert (status, out) == (2, "")
    assert err.startswith("nri-scope: ") and err.count("\n") == 1
    assert re.search(message, err), err
    assert files() == before and Path("taken.zip").read_text() == "mine"


def test_what_the_sender_says_comes_first_in_each_view(run_command: RunCommand) -> None:
    note = "Missing since Tuesday; look at 30-env-injector"
    bundle, pod = "x.nriscope.zip", CHECKOUT
    status, _, _ = run_command(
        *("export", str(SAMPLE), "-o", bundle, "--redact", "--pod", pod, "--note", note)
    )
    assert status == 0
    expected = [f"note: {note}", f"selection: --pod {pod}"]
    _, log, _ = run_command("log", bundle)
    assert log.splitlines()[:2] == [f"── {each}" for each in expected]
    assert re.match(r"── redacted: [0-9]+ values replaced$", log.splitlines()[2])
    _, stats, _ = run_command("report", bundle)
    assert stats.splitlines()[1:3] == [f"note      {note}", f"selection --pod {pod}"]
    _, findings, _ = run_command("report", bundle, "--diagnose")
    assert findings.splitlines()[:2] == expected
    for command in (("report",), ("report", "--diagnose")):
        _, text, _ = run_command(command[0], bundle, *command[1:], "--format", "json")
        assert json.loads(text)["bundle"]["note"] == note
    for report in ("x.html", "x.md"):
        assert run_command("report", bundle, "-o", report)[0] == 0
        text = Path(report).read_text()
        assert note in text and text.index(note) < text.index("containerd ")


@needs_tmux
async def test_the_sender_note_is_shown_at_the_start(
    run_command: RunCommand, tmp_path: Path
) -> None:
    path = str(tmp_path / "x.nriscope.zip")
    assert run_command("export", str(SAMPLE), "-o", path, "--redact", "--note", "look here")[0] == 0
    async with terminal(tmp_path, f"tui {path}", (100, 24)) as window:
        await window.shows("note of the sender: look here")
        await window.press("q")
        await window.shows("ended with 0")
