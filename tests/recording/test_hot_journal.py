# SPDX-License-Identifier: Apache-2.0
"""An interrupted write is rolled back, unless its journal may be a trap."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from nri_scope.errors import RecordingError
from nri_scope.recording.hot_journal import _SUPER_JOURNAL, undo
from nri_scope.recording.reader import Recording
from tests.recording.marks.recordings import a_copy, events_of

_INTERRUPTED = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE event SET at_ns = 1, status_message = hex(randomblob(2000))")
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = a_copy(tmp_path)
    before = path.read_bytes()
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(_INTERRUPTED), path], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() != before
    return path


def _journal(path: Path) -> Path:
    return path.with_name(f"{path.name}-journal")


def test_an_interrupted_write_is_rolled_back(path: Path) -> None:
    assert events_of(path) == events_of()
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_an_open_reader_continues_during_an_interrupted_write(tmp_path: Path) -> None:
    path = a_copy(tmp_path)
    with Recording.open(path) as recording:
        before = list(recording.events())
        command = [sys.executable, "-c", textwrap.dedent(_INTERRUPTED), str(path)]
        subprocess.run(command, check=False)
        assert _journal(path).exists()
        assert list(recording.events()) == before


def test_a_journal_that_names_another_file_is_not_used(path: Path, tmp_path: Path) -> None:
    # SQLite would delete that file, which a stranger may have chosen.
    other = tmp_path / "other"
    other.write_bytes(b"another file\0")
    name = os.fsencode(other)
    checksum = sum(name)
    with _journal(path).open("ab") as journal:
        journal.write(b"\0\0\0\1" + name)
        journal.write(len(name).to_bytes(4, "big") + checksum.to_bytes(4, "big"))
        journal.write(_SUPER_JOURNAL)
    before = path.read_bytes()
    with pytest.raises(RecordingError, match="names another file, which SQLite would") as raised:
        Recording.open(path)
    # Copying the recording to a private folder, the hint for other journals, would not help.
    assert "do not trust the recording" in raised.value.hint and "copy" not in raised.value.hint
    assert "\n" not in str(raised.value)
    assert path.read_bytes() == before
    assert other.exists() and _journal(path).exists()


def test_a_journal_that_is_not_a_regular_file_is_not_used(path: Path, tmp_path: Path) -> None:
    journal = _journal(path)
    moved = journal.rename(tmp_path / "moved")
    journal.symlink_to(moved)
    assert not undo(path)
    journal.unlink()
    os.mkfifo(journal)
    assert not undo(path)


def test_two_readers_may_roll_back_the_same_write(path: Path) -> None:
    assert undo(path)
    assert not _journal(path).exists()
    # The second reader detected the interrupted write before the first one rolled it back.
    assert undo(path)
    assert events_of(path) == events_of()
