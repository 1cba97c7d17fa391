# SPDX-License-Identifier: Apache-2.0
"""A launched logger writes one private log file as soon as its path is known."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nri_scope.writer.background_output import LOG_MAX, LogFile, log_beside
from tests.recording.other_user import USER, needs_root


def lines_of(path: Path) -> list[str]:
    """Return the lines of a log without their times."""
    return [line.partition("Z ")[2] for line in path.read_text().splitlines()]


def test_the_log_is_private_escaped_and_bounded(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    log = LogFile()
    log.use(path)
    log.write("hello\nworld \x1b[31m")
    log.close()
    assert path.stat().st_mode & 0o777 == 0o600
    assert lines_of(path) == [r"hello\nworld \x1b[31m"]
    path.write_bytes(b"x" * (LOG_MAX + 1))
    log = LogFile()
    log.use(path)
    log.write("anew")
    log.close()
    assert lines_of(path) == ["anew"]


def test_lines_before_the_path_is_known_are_written_later(tmp_path: Path) -> None:
    first, last = tmp_path / "new" / "first.log", tmp_path / "last.log"
    log = LogFile()
    log.write("one")
    log.use_temporarily(first)
    log.write("two")
    log.use_temporarily(first)
    log.use(last)
    log.write("three")
    log.close()
    assert lines_of(first) == ["one", "two"]
    assert lines_of(last) == ["one", "two", "three"]
    assert first.parent.stat().st_mode & 0o777 == 0o700


def test_the_same_temporary_and_final_path_contains_each_line_once(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    log = LogFile()
    log.write("one")
    log.use_temporarily(path)
    log.use(path)
    log.write("two")
    log.close()
    assert lines_of(path) == ["one", "two"]


def test_without_a_path_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = LogFile()
    log.write("one")
    log.close()
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_temporary_path_does_not_affect_the_final_log(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    last = tmp_path / "last.log"
    log = LogFile()
    log.use_temporarily(tmp_path / "file" / "x.log")
    log.write("one")
    log.use(last)
    log.close()
    assert lines_of(last) == ["one"]


def test_links_and_pipes_are_not_written_to(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("")
    (tmp_path / "link.log").symlink_to(precious)
    os.mkfifo(tmp_path / "pipe.log")
    last = tmp_path / "last.log"
    log = LogFile()
    log.use_temporarily(tmp_path / "link.log")
    log.write("hello")
    log.use_temporarily(tmp_path / "pipe.log")
    log.use(last)
    log.close()
    assert precious.read_text() == ""
    assert lines_of(last) == ["hello"]


@needs_root
def test_a_file_of_another_user_is_not_written_to(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.touch()
    os.chown(path, USER, USER)
    log = LogFile()
    log.use(path)
    log.write("hello")
    log.close()
    assert path.read_text() == ""


@pytest.mark.parametrize(
    ("recording", "log"),
    [
        ("/a/x.nriscope.db", "/a/x.nriscope.db.log"),
        ("/var/log/containerd", "/var/log/containerd.nriscope.db.log"),
    ],
)
def test_the_log_name_ends_in_nriscope_db_log(recording: str, log: str) -> None:
    assert log_beside(Path(recording)) == Path(log)
