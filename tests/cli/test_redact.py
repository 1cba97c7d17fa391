# SPDX-License-Identifier: Apache-2.0
"""``nri-scope redact``."""

from __future__ import annotations

import json
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
    """Where the command runs; its key and its temporary files are elsewhere."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def test_preview_shows_what_would_be_replaced_and_writes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["redact", "--preview", str(SAMPLE)]) == 0
    said = capsys.readouterr()
    assert "credential-keys       8  container.env.DB_PASSWORD" in said.out
    assert said.out.endswith("nothing was written\n") and said.err == ""
    assert "hunter2" not in said.out
    assert not any(folder.iterdir()) and not any((folder.parent / "temporary").iterdir())


def test_preview_tells_programs_the_same_as_the_bundle_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["redact", "--preview", str(SAMPLE), "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert run(["export", str(SAMPLE), "-o", "x.zip", "--redact"]) == 0
    redaction = read_manifest(Path("x.zip")).redaction
    assert redaction is not None
    assert told["total"] == redaction.total and told["by_rule"] == redaction.by_rule()
    assert [tuple(one.values()) for one in told["replaced"]] == [
        (one.rule, one.place, one.values) for one in redaction.replaced
    ]


def test_writes_a_recording_without_secrets(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["redact", str(SAMPLE), "-o", "y.nriscope.db"]) == 0
    assert capsys.readouterr().err.startswith("y.nriscope.db: 32 events; 63 values replaced (")
    with Recording.open("y.nriscope.db") as recording, Recording.open(SAMPLE) as original:
        assert [one.id for one in recording.events()] == [one.id for one in original.events()]
        assert not any(b"hunter2" in request for _, request, _ in recording.exchanges())
    assert run(["redact", "--preview", "y.nriscope.db"]) == 0
    assert capsys.readouterr().out == "no values to replace were found; nothing was written\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["FILE"], "neither --preview nor -o was given; add --preview, or -o"),
        (["FILE", "--preview", "-o", "y.db"], "--preview and -o exclude each other"),
        (["FILE", "--preview", "--force"], "--force is only valid with -o"),
        (["FILE", "-o", "y.db", "--format", "json"], "--format is only valid with --preview"),
        (["FILE", "-o", "taken"], "taken exists"),
        (
            ["FILE", "-o", "x.nriscope.zip"],
            "must not be named *.zip; name it x.nriscope.db",
        ),
        (["FILE", "--preview", "--rules", "nowhere"], "nowhere: no such file"),
        (["nowhere", "--preview"], "nowhere: no such file"),
    ],
)
def test_what_cannot_be_is_one_line(
    words: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("taken").write_text("mine")
    assert run(["redact", *(str(SAMPLE) if one == "FILE" else one for one in words)]) == 2
    got = capsys.readouterr()
    assert got.out == "" and said in got.err and got.err.count("\n") == 1
    assert [path.name for path in folder.iterdir()] == ["taken"]


def test_a_bundle_can_be_previewed(capsys: pytest.CaptureFixture[str]) -> None:
    a_bundle(Path("x.zip"))
    assert run(["redact", "--preview", "x.zip"]) == 0
    assert "DB_PASSWORD" in capsys.readouterr().out


def _tokens(path: str) -> set[str]:
    with Recording.open(path) as recording:
        messages = b"".join(request for _, request, _ in recording.exchanges())
    return {token.decode() for token in re.findall(rb"redacted-[a-z2-7]{12}", messages)}


def test_tokens_are_others_each_time_unless_they_are_to_be_stable() -> None:
    tokens = []
    for number, options in enumerate(([], [], ["--stable-tokens"], ["--stable-tokens"])):
        assert run(["redact", str(SAMPLE), "-o", f"{number}.nriscope.db", *options]) == 0
        tokens.append(_tokens(f"{number}.nriscope.db"))
    once, again, stable, the_same = tokens

    assert once and stable and stable == the_same
    assert not once & again and not once & stable


def test_unlinked_tokens_are_many() -> None:
    assert run(["redact", str(SAMPLE), "-o", "x.nriscope.db"]) == 0
    assert run(["redact", str(SAMPLE), "-o", "y.nriscope.db", "--unlinked"]) == 0

    assert len(_tokens("y.nriscope.db")) > len(_tokens("x.nriscope.db")) > 0


@pytest.mark.parametrize(
    "options",
    [
        ["redact", "--preview", "--stable-tokens"],
        ["redact", "--preview", "--unlinked"],
        ["redact", "-o", "x.nriscope.db", "--unlinked", "--stable-tokens"],
        ["export", "-o", "x.zip", "--stable-tokens"],
        ["export", "-o", "x.zip", "--unlinked"],
        ["export", "-o", "x.zip", "--redact", "--unlinked", "--stable-tokens"],
    ],
)
def test_options_for_tokens_that_make_no_sense(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command, *rest = options
    assert run([command, str(SAMPLE), *rest]) == 2
    said = capsys.readouterr().err
    assert "--stable-tokens" in said and len(said.splitlines()) == 1
