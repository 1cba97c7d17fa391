# SPDX-License-Identifier: Apache-2.0
"""Redacted recordings by ``nri-scope export``, and previews."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest

from nri_scope.cli.main import run
from nri_scope.recording.bundle.unpack import read_manifest
from nri_scope.recording.reader import Recording
from tests.share.bundle.bundles import SAMPLE, a_bundle


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Working folder of the command; its key and temporary files are elsewhere."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def test_preview_shows_what_would_be_replaced_and_writes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", str(SAMPLE), "--preview"]) == 0
    printed = capsys.readouterr()
    assert "credential-keys       8  container.env.DB_PASSWORD" in printed.out
    assert printed.out.endswith("nothing was written\n") and printed.err == ""
    assert "hunter2" not in printed.out
    assert not any(folder.iterdir()) and not any((folder.parent / "temporary").iterdir())


def test_a_preview_counts_as_the_manifest_of_a_bundle_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["export", str(SAMPLE), "--preview"]) == 0
    _, _, *rows, _, _ = capsys.readouterr().out.splitlines()
    assert run(["export", str(SAMPLE), "-o", "x.zip", "--redact"]) == 0
    redaction = read_manifest(Path("x.zip")).redaction
    assert redaction is not None
    listed = {(rule, place): int(values) for rule, values, place in map(str.split, rows)}
    assert listed == {(one.rule, one.place): one.values for one in redaction.replaced}


def test_writes_a_recording_without_secrets(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", str(SAMPLE), "--redact", "-o", "y.nriscope.db"]) == 0
    assert capsys.readouterr().err.startswith(
        "y.nriscope.db: 128 KiB, 32 events; 261 values replaced ("
    )
    with Recording.open("y.nriscope.db") as recording, Recording.open(SAMPLE) as original:
        assert [one.id for one in recording.events()] == [one.id for one in original.events()]
        assert not any(b"hunter2" in request for _, request, _ in recording.exchanges())
    assert run(["export", "y.nriscope.db", "--preview"]) == 0
    nothing = "already redacted: no other values to replace were found"
    assert capsys.readouterr().out == f"{nothing}; nothing was written\n"
    assert run(["export", "y.nriscope.db", "--redact", "-o", "z.nriscope.db"]) == 0
    assert capsys.readouterr().err == f"z.nriscope.db: 128 KiB, 32 events; {nothing}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["FILE"], "neither -o, --format nor --preview was given; add -o"),
        (["FILE", "--preview", "-o", "y.db"], "--preview and -o exclude each other"),
        (["FILE", "--preview", "--force"], "--preview and --force exclude each other"),
        (["FILE", "--preview", "--note", "x"], "--preview and --note exclude each other"),
        (["FILE", "--preview", "--format", "jsonl"], "--preview and --format exclude each"),
        (["FILE", "--redact", "-o", "taken.db"], "taken.db exists"),
        (["FILE", "--redact", "-o", "y.db", "--note", "x"], "only bundles have --max-size"),
        (["FILE", "--redact", "-o", "y"], "must end in .zip, that of a recording in .db; name it"),
        (["FILE", "--preview", "--redact", "nowhere"], "nowhere: no such file"),
        (["nowhere", "--preview"], "nowhere: no such file"),
    ],
)
def test_invalid_input_prints_one_line(
    words: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("taken.db").write_text("mine")
    assert run(["export", *(str(SAMPLE) if one == "FILE" else one for one in words)]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and message in captured.err and captured.err.count("\n") == 1
    assert [path.name for path in folder.iterdir()] == ["taken.db"]


def test_a_part_is_a_recording_and_can_be_previewed(capsys: pytest.CaptureFixture[str]) -> None:
    part = ["export", str(SAMPLE), "--where", "pod:web", "--redact"]
    assert run([*part, "-o", "part.nriscope.db"]) == 0
    written = capsys.readouterr().err
    assert written.startswith("part.nriscope.db: ")
    with Recording.open("part.nriscope.db") as recording:
        assert {event.pod for event in recording.events() if event.pod} == {"web"}
    assert run([*part, "--preview"]) == 0
    shown = capsys.readouterr().out.splitlines()[-1]
    assert shown == f"{written.partition('; ')[2].strip()}; nothing was written"
    assert run(["export", str(SAMPLE), "--where", "pod:web", "-o", "plain.nriscope.db"]) == 0
    assert "values as in the recording; --redact removes secrets" in capsys.readouterr().err


def test_a_bundle_can_be_previewed(capsys: pytest.CaptureFixture[str]) -> None:
    a_bundle(Path("x.zip"))
    assert run(["export", "x.zip", "--preview"]) == 0
    assert "DB_PASSWORD" in capsys.readouterr().out


def _tokens(path: str) -> set[str]:
    with Recording.open(path) as recording:
        messages = b"".join(request for _, request, _ in recording.exchanges())
    return {token.decode() for token in re.findall(rb"redacted-[a-z2-7]{12}", messages)}


def test_tokens_differ_in_each_run_unless_stable() -> None:
    tokens = []
    for number, options in enumerate(([], [], ["--stable-tokens"], ["--stable-tokens"])):
        assert (
            run(["export", str(SAMPLE), "--redact", "-o", f"{number}.nriscope.db", *options]) == 0
        )
        tokens.append(_tokens(f"{number}.nriscope.db"))
    first, second, stable, stable_again = tokens

    assert first and stable and stable == stable_again
    assert not first & second and not first & stable


@pytest.mark.parametrize(
    "options",
    [
        ["--preview", "--stable-tokens"],
        ["-o", "x.zip", "--stable-tokens"],
    ],
)
def test_invalid_token_options_print_one_line(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", str(SAMPLE), *options]) == 2
    printed = capsys.readouterr().err
    assert options[-1] in printed and len(printed.splitlines()) == 1
