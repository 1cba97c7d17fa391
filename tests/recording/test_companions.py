# SPDX-License-Identifier: Apache-2.0
"""Companions of a recording may be another user's: no file is deleted, no read blocks."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope.errors import RecordingError
from nri_scope.recording.reading.opening import private_copy
from nri_scope.recording.reading.reader import Recording
from tests.amount import amount
from tests.in_memory import MEMORY
from tests.recording.companions import RecordingFacts, impatient, one_scene
from tests.recording.marks.recordings import SAMPLE, a_copy, events_of
from tests.recording.other_user import (
    USER,
    acting,
    give,
    journal_naming,
    make_other_kind,
    needs_root,
    public,
)

pytestmark = pytest.mark.beyond_core

__all__ = ["public"]

_ATTEMPTS = amount(300, 60)
_SWAPPER = """
# Swaps two versions of a file atomically, so that the name always exists.
name, harmless, deadly = arguments
while True:
    for version in (harmless, deadly):
        attempt(os.link, version, "next")
        attempt(os.rename, "next", name)
        attempt(os.unlink, "next")
"""
_WRITER = """
connection = sqlite3.connect(arguments[0], isolation_level=None)
connection.execute("PRAGMA journal_mode = WAL")
number = 0
while True:
    number += 1
    connection.execute("UPDATE event SET took_ns = ?", (number,))
    if number % 7 == 0:
        connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
    time.sleep(0.005)
"""


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "root's own"
    path.write_text("precious")
    return path


@pytest.fixture
def theirs(public: Path) -> Path:
    """Return a recording of another user, in that user's folder."""
    path = Path(shutil.copy(SAMPLE, public / "r.nriscope.db"))
    give(path, public)
    return path


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(f"{path.name}{suffix}")


def _listing(folder: Path) -> dict[str, tuple[int, int, int]]:
    found = {}
    for each in folder.iterdir():
        status = each.lstat()
        found[each.name] = (status.st_ino, status.st_size, status.st_mtime_ns)
    return found


@needs_root
class TestOfAnotherUser:
    def test_a_recording_is_read_without_changing_its_folder(self, theirs: Path) -> None:
        before = _listing(theirs.parent)
        with Recording.open(theirs) as recording:
            assert recording.is_copy
            assert list(recording.events()) == events_of()
        assert _listing(theirs.parent) == before

    def test_a_journal_deletes_nothing(self, theirs: Path, victim: Path) -> None:
        journal = _beside(theirs, "-journal")
        journal.write_bytes(journal_naming(victim, theirs.stat().st_size))
        give(journal)
        before = _listing(theirs.parent)
        with pytest.raises(RecordingError, match="only if you trust both files") as raised:
            Recording.open(theirs)
        assert "a write to it was interrupted" in raised.value.problem
        assert victim.exists()
        assert _listing(theirs.parent) == before

    @pytest.mark.exhaustive
    def test_a_journal_that_is_swapped_deletes_nothing(self, theirs: Path, victim: Path) -> None:
        deadly = journal_naming(victim, theirs.stat().st_size)
        for name, content in (("deadly", deadly), ("harmless", deadly[:512])):
            (theirs.parent / name).write_bytes(content)
            give(theirs.parent / name)
        outcomes = set()
        with acting(theirs.parent, _SWAPPER, f"{theirs.name}-journal", "harmless", "deadly"):
            for _ in range(_ATTEMPTS):
                try:
                    Recording.open(theirs).close()
                    outcomes.add("read")
                except RecordingError as error:
                    outcomes.add(error.problem)
                assert victim.exists()
        assert outcomes

    @pytest.mark.parametrize("owner", [0, USER])
    def test_a_recording_with_a_write_ahead_log_is_rejected(self, theirs: Path, owner: int) -> None:
        os.chown(theirs, owner, owner)
        _beside(theirs, "-wal").write_bytes(b"frames of a stranger")
        give(_beside(theirs, "-wal"))
        before = _listing(theirs.parent)
        with pytest.raises(RecordingError, match="copy both files to a folder of your own"):
            Recording.open(theirs)
        assert _listing(theirs.parent) == before

    def test_a_copy_taken_while_a_recorder_writes_is_rejected_or_consistent(
        self, theirs: Path
    ) -> None:
        # Each transaction sets one number in all events: two numbers mean a mixed copy.
        before = frozenset(event.took_ns for event in events_of())
        with acting(theirs.parent, _WRITER, theirs.name):
            for _ in range(20):
                with suppress(RecordingError), Recording.open(theirs) as recording:
                    durations = frozenset(event.took_ns for event in recording.events())
                    assert durations == before or len(durations) == 1

    @pytest.mark.parametrize("suffix", ["-wal", "-journal"])
    @pytest.mark.parametrize("kind", ["pipe", "socket", "folder", "link"])
    def test_companions_that_are_not_regular_files_are_rejected(
        self, theirs: Path, victim: Path, suffix: str, kind: str
    ) -> None:
        make_other_kind(_beside(theirs, suffix), kind, victim)
        give(_beside(theirs, suffix))
        with pytest.raises(RecordingError, match=f"{suffix} is not a regular file"):
            Recording.open(theirs)
        assert victim.read_text() == "precious"

    def test_a_pipe_swapped_for_the_recording_does_not_block(self, theirs: Path) -> None:
        (theirs.parent / "file").write_bytes(theirs.read_bytes())
        os.mkfifo(theirs.parent / "pipe")
        give(theirs.parent / "file", theirs.parent / "pipe")
        with acting(theirs.parent, _SWAPPER, theirs.name, "file", "pipe"):
            for _ in range(_ATTEMPTS):
                with suppress(RecordingError), Recording.open(theirs) as recording:
                    assert list(recording.events())


@needs_root
def test_a_recording_with_another_user_s_journal_in_a_sticky_folder_is_rejected(
    public: Path, victim: Path
) -> None:
    path = Path(shutil.copy(SAMPLE, public / "r.db"))
    public.chmod(0o1777)
    with Recording.open(path) as recording:
        assert not recording.is_copy
    journal = _beside(path, "-journal")
    journal.write_bytes(journal_naming(victim, path.stat().st_size))
    give(journal)
    with pytest.raises(RecordingError, match="a write to it was interrupted"):
        Recording.open(path)
    assert victim.exists() and journal.exists()


class TestInOurOwnFolder:
    @pytest.mark.parametrize("suffix", ["-wal", "-journal"])
    @pytest.mark.parametrize("kind", ["pipe", "socket", "folder", "link"])
    def test_companions_that_are_not_regular_files_are_rejected(
        self, tmp_path: Path, suffix: str, kind: str
    ) -> None:
        path = a_copy(tmp_path)
        other = tmp_path / "other"
        other.write_text("precious")
        make_other_kind(_beside(path, suffix), kind, other)
        with pytest.raises(RecordingError, match=f"{suffix} is not a regular file"):
            Recording.open(path)
        assert other.read_text() == "precious"

    def test_a_copy_without_disk_space_is_rejected(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = a_copy(tmp_path)
        tmp_path.chmod(0o777)
        monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=9))
        with pytest.raises(RecordingError, match=r"no private copy .*; set TMPDIR"):
            Recording.open(path)

    def test_sparse_files_are_copied_sparse(self, tmp_path: Path) -> None:
        path = a_copy(tmp_path)
        size = path.stat().st_size
        with path.open("r+b") as file:
            file.truncate(1 << 34)
        folder = tmp_path / "private"
        folder.mkdir(0o700)
        copy = private_copy(path, folder)
        assert (copy.stat().st_size, copy.stat().st_mode & 0o777) == (1 << 34, 0o600)
        assert copy.stat().st_blocks * 512 <= size + 4096
        with copy.open("rb") as file:
            assert file.read(size) == SAMPLE.read_bytes()

    @pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777, 0o700])
    def test_a_recording_is_copied_if_others_can_write_to_its_folder(
        self, tmp_path: Path, mode: int
    ) -> None:
        path = a_copy(tmp_path)
        tmp_path.chmod(mode)
        with Recording.open(path) as recording:
            assert list(recording.events()) == events_of()
            assert recording.is_copy == (mode in (0o777, 0o775))


@pytest.mark.exhaustive
@settings(max_examples=amount(150, 30))
@given(data=st.binary(min_size=16, max_size=16))
def test_any_companions_do_no_harm(data: bytes) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder, impatient():
        one_scene(Path(folder), RecordingFacts.of(data))
