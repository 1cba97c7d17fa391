# SPDX-License-Identifier: Apache-2.0
"""A file that is not an intact recording gives one clear line and exit status 2."""

from __future__ import annotations

import os
import random
import sqlite3
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from nri_scope.cli.main import run
from tests.recording.recordings import record

COMMANDS = {
    "log": [],
    "show": ["shop/web/app"],
    "sql": ["SELECT nri_json(id), nri_json(id, 'reply') FROM log"],
    "report": [],
    "diff": [],
    "blame": ["shop/web/app"],
}


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("intact") / "x.nriscope.db")


def no_file(path: Path, intact: Path) -> None:
    pass


def dangling(path: Path, intact: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


def loop(path: Path, intact: Path) -> None:
    path.symlink_to(path)


def pipe(path: Path, intact: Path) -> None:
    os.mkfifo(path)


def folder(path: Path, intact: Path) -> None:
    path.mkdir()


def empty(path: Path, intact: Path) -> None:
    path.touch()


def text(path: Path, intact: Path) -> None:
    path.write_text("hello\n")


def bundle(path: Path, intact: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.write(intact, "x.nriscope.db")


def truncated(path: Path, intact: Path) -> None:
    path.write_bytes(intact.read_bytes()[:20_000])


def newer(path: Path, intact: Path) -> None:
    path.write_bytes(intact.read_bytes())
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()


def other_database(path: Path, intact: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE event (id)")
    connection.commit()
    connection.close()


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (no_file, "no such file; give a *.nriscope.db"),
        (dangling, "no such file; give a *.nriscope.db"),
        (loop, "leads back to itself; name the file itself"),
        (pipe, "not a regular file; give a *.nriscope.db"),
        (folder, "a folder, not a recording; give a *.nriscope.db"),
        (empty, "empty, not a recording; give a *.nriscope.db"),
        (text, "not an nri-scope recording; give a *.nriscope.db that `nri-scope record` wrote"),
        (bundle, "not a bundle, or damaged: it has no manifest.json; ask for it again"),
        (truncated, "damaged, or cut short; `sqlite3 FILE .dump` prints what can"),
        (newer, "version 99"),
        (other_database, "not an nri-scope recording"),
    ],
)
def test_a_bad_file_gives_one_line_and_status_2(
    name: str,
    make: Callable[[Path, Path], object],
    words: str,
    intact: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "bad.nriscope.db"
    make(path, intact)
    before = path.read_bytes() if path.is_file() else None
    assert run([name, str(path), *COMMANDS[name]]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"nri-scope: {path}: ")
    assert words in printed.err and printed.err.count("\n") == 1
    assert (path.read_bytes() if path.is_file() else None) == before


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("/proc", "no such file; give a *.nriscope.db"),
        ("nowhere", "no such file; give a *.nriscope.db"),
        ("file", "a part of its path is a file, not a folder; check the path"),
        ("loop", "a symbolic link in its path leads back to itself; name the file itself"),
        ("n" * 300, "file name too long; check the path"),
    ],
)
def test_an_invalid_path_gives_one_line_and_status_2(
    name: str, place: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    path = tmp_path / place / "x.nriscope.db"
    assert run([name, str(path), *COMMANDS[name]]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"nri-scope: {path}: {words}") and printed.err.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [
        *([name, "FILE", *rest] for name, rest in COMMANDS.items()),
        ["export", "FILE", "-o", "OTHER.zip"],
        ["export", "FILE", "--redact", "-o", "OTHER.db"],
        ["replay", "FILE", "--", "true"],
        ["report", "FILE", "-o", "OTHER.html"],
        ["tui", "FILE"],
    ],
    ids=lambda command: str(command[0]),
)
def test_permission_denied_says_who_may_read(
    command: list[str],
    intact: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Root may read everything, and is not told to be root.
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    others = ("OTHER.db", "OTHER.zip", "OTHER.html")
    names = {"FILE": str(intact), **{name: str(tmp_path / name) for name in others}}
    assert run([names.get(word, word) for word in command]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    last = printed.err.splitlines()[-1]
    assert last.startswith(f"nri-scope: {intact}: permission denied; only its owner may read")


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("seed", range(12))
def test_damaged_bytes_are_skipped_or_reported(
    name: str, seed: int, intact: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(seed)
    content = bytearray(intact.read_bytes())
    for _ in range(1 << chance.randrange(12)):
        content[chance.randrange(100, len(content))] = chance.randrange(256)
    path = tmp_path / "bad.nriscope.db"
    path.write_bytes(content)
    status = run([name, str(path), *COMMANDS[name]])
    printed = capsys.readouterr()
    # diff exits with 1 if the readable events contain a change.
    assert status in ((0, 1, 2) if name == "diff" else (0, 2))
    assert printed.err.count("\n") == (status == 2)
    assert "\x1b" not in printed.out + printed.err
