# SPDX-License-Identifier: Apache-2.0
"""``nri-scope import``."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from nri_scope.cli.main import run
from nri_scope.recording.reader import Recording
from nri_scope.share.bundle import export
from tests.share.bundle.bundles import SAMPLE, a_bundle, with_manifest


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with Recording.open(SAMPLE) as recording:
        return export(recording, Path("x.nriscope.zip"), note="It \x1b[31mfails").path


def files() -> list[str]:
    return sorted(path.name for path in Path().iterdir())


def test_writes_the_recording_and_prints_the_manifest(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["import", str(bundle)]) == 0
    captured = capsys.readouterr()
    assert captured.err == "x.nriscope.db: written\n"
    assert "runtime    containerd 2.1.9+unknown, NRI 0.8.0\n" in captured.out
    assert "note       It \\x1b[31mfails\n" in captured.out
    assert (
        "redaction  none when packed: secrets in the original are in the bundle\n" in captured.out
    )
    path = Path("x.nriscope.db")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with Recording.open(path) as one, Recording.open(SAMPLE) as other:
        assert list(one.exchanges()) == list(other.exchanges())
    assert files() == ["x.nriscope.db", "x.nriscope.zip"]


def test_overwrites_a_file_only_with_force(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("y.db").write_text("mine")
    assert run(["import", str(bundle), "-o", "y.db"]) == 2
    assert "y.db exists" in capsys.readouterr().err
    assert Path("y.db").read_text() == "mine"
    assert run(["import", str(bundle), "-o", "y.db", "--force"]) == 0
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
    assert run(["import", str(bundle)]) != 0
    assert "holds a view, which no recording has" in capsys.readouterr().err
    assert files() == ["r.db", "x.nriscope.zip"]


def test_an_output_with_a_write_ahead_log_is_rejected(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("y.db-wal").write_bytes(b"what SQLite would take for a part of it")
    assert run(["import", str(bundle), "-o", "y.db", "--force"]) == 2
    assert capsys.readouterr().err == (
        "nri-scope: y.db is being recorded to; name another file after -o\n"
    )
    assert files() == ["x.nriscope.zip", "y.db-wal"]


def test_an_output_named_like_a_bundle_is_rejected(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["import", str(bundle), "-o", "y.nriscope.zip"]) == 2
    assert "a recording must not be named *.zip; name it y.nriscope.db" in capsys.readouterr().err
    assert files() == ["x.nriscope.zip"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "no such file; give a *.nriscope.zip"),
        (lambda path: path.write_bytes(SAMPLE.read_bytes()), "a recording, not a bundle; use it"),
        (lambda path: path.write_bytes(b"x"), "not a bundle; give a *.nriscope.zip"),
        (lambda path: path.write_bytes(b"PK\x03\x04"), "it is cut short"),
        (lambda path: path.mkdir(), "it is a folder"),
        (lambda path: a_bundle(path, b"no database"), "not an nri-scope recording"),
        (lambda path: with_manifest(path, {"version": 2}), "upgrade nri-scope"),
        (a_bundle, "its manifest lists 31 events, but its recording has 32; ask for it again"),
    ],
)
def test_an_invalid_bundle_prints_one_line_and_leaves_no_files(
    make: object,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert callable(make)
    make(Path("y.zip"))
    before = files()
    assert run(["import", "y.zip", "-o", "y.db"]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("nri-scope: y.zip: ")
    assert words in captured.err and captured.err.count("\n") == 1
    assert files() == before


def test_json_lines_become_a_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["export", str(SAMPLE), "--format", "jsonl", "-o", "x.jsonl"]) == 0
    capsys.readouterr()
    assert run(["import", "x.jsonl"]) == 0
    assert capsys.readouterr().err == "x.nriscope.db: written, with 32 events\n"
    assert run(["export", "x.nriscope.db", "--format", "jsonl", "-o", "y.jsonl"]) == 0
    assert Path("x.jsonl").read_bytes() == Path("y.jsonl").read_bytes()
    Path("x.jsonl").write_text('{"schema_version": 7}\n')
    assert run(["import", "x.jsonl", "-o", "z.nriscope.db"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error == "nri-scope: x.jsonl:1: schema_version is 7, not 1; upgrade nri-scope"
    assert files() == ["x.jsonl", "x.nriscope.db", "y.jsonl"]
