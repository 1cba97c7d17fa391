# SPDX-License-Identifier: Apache-2.0
"""``nri-scope export`` of bundles and JSON lines, and the form that an output's ending chooses."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from nri_scope.cli.main import run
from nri_scope.recording.reading.reader import Recording
from nri_scope.share.bundle import BundleContent, export
from tests.sample_names import CHECKOUT
from tests.share.bundle.bundles import SAMPLE, a_bundle, with_manifest


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with Recording.open(SAMPLE) as recording:
        return export(
            recording, Path("x.nriscope.zip"), BundleContent(note="It \x1b[31mfails")
        ).path


def files() -> list[str]:
    return sorted(path.name for path in Path().iterdir())


def test_the_recording_of_a_bundle_becomes_a_file(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", str(bundle), "-o", "x.nriscope.db"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("x.nriscope.db: ")
    path = Path("x.nriscope.db")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with Recording.open(path) as one, Recording.open(SAMPLE) as other:
        assert list(one.exchanges()) == list(other.exchanges())
    assert files() == ["x.nriscope.db", "x.nriscope.zip"]


def test_overwrites_a_file_only_with_force(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("y.db").write_text("mine")
    assert run(["export", str(bundle), "-o", "y.db"]) == 2
    assert "y.db exists" in capsys.readouterr().err
    assert Path("y.db").read_text() == "mine"
    assert run(["export", str(bundle), "-o", "y.db", "--force"]) == 0
    with Recording.open("y.db") as recording:
        assert recording.event(1) is not None


def test_a_foreign_view_is_rejected(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle.unlink()
    Path("r.db").write_bytes(SAMPLE.read_bytes())
    with closing(sqlite3.connect("r.db")) as connection:
        connection.execute("DROP VIEW log")
        connection.execute("CREATE VIEW log AS SELECT 'all is well' AS event")
        connection.commit()
    a_bundle(bundle, Path("r.db").read_bytes())
    assert run(["export", str(bundle), "-o", "y.db"]) == 2
    assert "holds a view, which no recording has" in capsys.readouterr().err
    assert files() == ["r.db", "x.nriscope.zip"]


def test_an_output_with_a_write_ahead_log_is_rejected(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("y.db-wal").write_bytes(b"what SQLite would take for a part of it")
    assert run(["export", str(bundle), "-o", "y.db", "--force"]) == 2
    assert capsys.readouterr().err == (
        "nri-scope: y.db is being recorded to; name another file after -o\n"
    )
    assert files() == ["x.nriscope.zip", "y.db-wal"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "no such file; give a "),
        (lambda path: path.write_bytes(b"x"), "not an nri-scope recording"),
        (lambda path: path.write_bytes(b"PK\x03\x04"), "it is cut short"),
        (lambda path: path.mkdir(), "a folder, not a recording"),
        (lambda path: a_bundle(path, b"no database"), "not an nri-scope recording"),
        (lambda path: with_manifest(path, {"version": 2}), "upgrade nri-scope"),
    ],
)
def test_an_invalid_bundle_prints_one_line_and_leaves_no_files(
    make: Callable[[Path], object],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    make(Path("y.zip"))
    before = files()
    assert run(["export", "y.zip", "-o", "y.db"]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("nri-scope: y.zip: ")
    assert words in captured.err and captured.err.count("\n") == 1
    assert files() == before


@pytest.fixture
def lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert run(["export", str(SAMPLE), "-o", "x.jsonl"]) == 0
    return Path("x.jsonl")


def test_json_lines_become_a_recording(lines: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["export", "x.jsonl", "-o", "x.nriscope.db"]) == 0
    assert ", 32 events; values as in the recording" in capsys.readouterr().err
    assert run(["export", "x.nriscope.db", "--format", "jsonl", "-o", "y.jsonl"]) == 0
    assert lines.read_bytes() == Path("y.jsonl").read_bytes()
    lines.write_text('{"schema_version": 7}\n')
    assert run(["export", "x.jsonl", "-o", "z.nriscope.db"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error == "nri-scope: x.jsonl:1: schema_version is 7, not 1; upgrade nri-scope"
    assert files() == ["x.jsonl", "x.nriscope.db", "y.jsonl"]


def test_json_lines_are_selected_from_and_redacted_as_recordings_are(
    lines: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["export", "x.jsonl", "-o", "x.nriscope.zip", "--pod", CHECKOUT, "--redact"]
    assert run(words) == 0
    assert f" events of pod {CHECKOUT} and " in capsys.readouterr().err
    with Recording.open("x.nriscope.zip") as recording:
        assert not any(b"hunter2" in request for _, request, _ in recording.exchanges())
    assert run(["export", "x.jsonl", "--redact", "--preview"]) == 0
    assert "values replaced" in capsys.readouterr().out
    assert run(["export", "x.jsonl", "--format", "jsonl", "--where", "ns:nope"]) == 2
    assert "no event in x.jsonl is selected" in capsys.readouterr().err


def test_json_lines_are_never_overwritten(lines: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = lines.read_bytes()
    assert run(["export", "x.jsonl", "-o", "x.jsonl", "--force"]) == 2
    assert "x.jsonl is the input file" in capsys.readouterr().err
    assert lines.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("a.jsonl", b'{"schema_version": 1, "session"'),
        ("a.OTLP.jsonl", b'{"resourceSpans"'),
        ("a.pftrace", b"\n"),
        ("a.expanded.db", b"SQLite format 3"),
        ("a.nriscope.db", b"SQLite format 3"),
        ("a.zip", b"PK"),
    ],
)
def test_the_ending_of_the_output_chooses_the_form(
    name: str, start: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["export", str(SAMPLE), "-o", name]) == 0
    assert Path(name).read_bytes().startswith(start)
    if name.endswith(".db"):
        with closing(sqlite3.connect(name)) as connection:
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        assert ("events" in tables) == (name == "a.expanded.db")
