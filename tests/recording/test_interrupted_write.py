# SPDX-License-Identifier: Apache-2.0
"""A recording with an interrupted write of another program is refused, and nothing is changed."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from sqlite3 import connect

import pytest

from nri_scope.errors import RecordingError
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.reading.reader import Recording
from tests.recording.marks.recordings import a_copy, events_of
from tests.recording.other_user import give, journal_naming, needs_root, public

__all__ = ["public"]

_INTERRUPTED = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE event SET at_ns = 1, status_message = hex(randomblob(2000))")
os.kill(os.getpid(), 9)
"""
_HINT = "only if you trust both files, open the recording once with sqlite3, which undoes"
_RECORDED = """
import os, sys
from pathlib import Path
from nri_scope.recording.file import writable_file
path, step = Path(sys.argv[1]), int(sys.argv[2])
left = [step]
def die(statement):
    left[0] -= 1
    if not left[0]:
        print(statement, flush=True)
        os.kill(os.getpid(), 9)
connect = writable_file.connect
def traced(path):
    connection = connect(path)
    connection.set_trace_callback(die)
    return connection
writable_file.connect = traced
writable_file.RecordingFile.open(path).close()
"""


def _interrupt(path: Path) -> None:
    before = path.read_bytes()
    command = [sys.executable, "-c", _INTERRUPTED, str(path)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert path.read_bytes() != before and _journal(path).stat().st_size


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = a_copy(tmp_path)
    _interrupt(path)
    return path


def _journal(path: Path) -> Path:
    return path.with_name(f"{path.name}-journal")


def _state(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {each.name: (each.read_bytes(), each.stat().st_mtime_ns) for each in folder.iterdir()}


def _assert_refused(path: Path) -> None:
    before = _state(path.parent)
    with pytest.raises(RecordingError) as raised:
        Recording.open(path)
    assert (
        raised.value.problem == f"a write to it was interrupted: {_journal(path).name} is beside it"
    )
    assert raised.value.hint.startswith(_HINT)
    assert "\n" not in str(raised.value)
    assert _state(path.parent) == before


@pytest.mark.parametrize("mode", [0o700, 0o500, 0o1777, 0o777])
def test_an_interrupted_write_is_refused_in_one_line_and_unchanged(path: Path, mode: int) -> None:
    path.parent.chmod(mode)
    try:
        _assert_refused(path)
    finally:
        path.parent.chmod(0o700)


@needs_root
def test_an_interrupted_write_is_refused_in_another_user_s_folder(path: Path, public: Path) -> None:
    theirs = Path(shutil.copy(path, public))
    shutil.copy(_journal(path), public)
    give(theirs, _journal(theirs), public)
    _assert_refused(theirs)


def test_a_journal_that_names_another_file_deletes_nothing(tmp_path: Path) -> None:
    path = a_copy(tmp_path)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    _journal(path).write_bytes(journal_naming(victim, path.stat().st_size))
    _assert_refused(path)
    assert victim.read_text() == "precious"


def test_the_hint_recovers_the_recording(path: Path) -> None:
    with closing(connect(path)) as connection:
        connection.execute("SELECT count(*) FROM event").fetchone()
    assert events_of(path) == events_of()
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_recorder_refuses_an_interrupted_write_with_the_same_hint(path: Path) -> None:
    before = _state(path.parent)
    with pytest.raises(RecordingError, match="is left from an interrupted write") as raised:
        Recorder.open(path)
    assert raised.value.hint.startswith(_HINT)
    assert _state(path.parent) == before


def test_an_open_reader_reports_an_interrupted_write(tmp_path: Path) -> None:
    path = a_copy(tmp_path)
    with Recording.open(path) as recording:
        assert list(recording.events()) == events_of()
        _interrupt(path)
        before = _state(tmp_path)
        with pytest.raises(RecordingError, match="a write to it was interrupted"):
            list(recording.events())
        assert _state(tmp_path) == before


@pytest.mark.exhaustive
def test_a_killed_recorder_leaves_no_journal(tmp_path: Path) -> None:
    events = events_of()
    died: list[str] = []
    for step in range(1, 100):
        (tmp_path / f"{step}").mkdir()
        path = a_copy(tmp_path / f"{step}")
        command = [sys.executable, "-c", _RECORDED, str(path), f"{step}"]
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
        assert not _journal(path).exists()
        assert events_of(path) == events
        if not done.returncode:
            break
        assert done.returncode == -signal.SIGKILL
        died.append(done.stdout.strip())
    assert {"PRAGMA journal_mode = WAL", "PRAGMA journal_mode = OFF"} <= set(died)
