# SPDX-License-Identifier: Apache-2.0
"""Root records where other users can write: they read no data, and no file is deleted."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from nri_scope.cli.main import run
from nri_scope.errors import RecordingError
from nri_scope.events import KILLED
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.file.writable_file import RecordingFile
from nri_scope.recording.reading.reader import Recording
from tests.recording.marks.recordings import SAMPLE, a_copy
from tests.recording.other_user import (
    USER,
    acting,
    give,
    journal_naming,
    make_other_kind,
    needs_root,
    public,
)
from tests.recording.traffic import a_start, an_item, lifecycles, record

pytestmark = pytest.mark.beyond_core

__all__ = ["public"]

_SUFFIXES = ["-wal", "-shm", "-journal"]
_ATTEMPTS = 150
_SECRET = b"only for root's eyes"
_PLANTER = """
# Keeps creating each missing companion: a journal that deletes a file, or a file kept open.
name, deadly, kind = arguments
kept = []
while True:
    for suffix in ("-journal", "-wal", "-shm"):
        if kind == "deadly":
            attempt(os.link, deadly, name + suffix)
        else:
            opened = attempt(os.open, name + suffix, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
            if opened is not None:
                # Fails if SQLite has opened the file as root and so changed its owner.
                os.fchmod(opened, 0o666)
                kept.append(opened)
                attempt(os.link, name + suffix, f"kept-{len(kept)}")
        attempt(os.unlink, name + suffix)
"""
_RECORD_AND_DIE = """
import os, sys
from pathlib import Path
from nri_scope.recording.file.writable_file import RecordingFile
from nri_scope.recorder.entry_writer import insert_session
from nri_scope.capture.sink import Begin
from tests.recording.traffic import a_start
connection = RecordingFile.open(Path(sys.argv[1])).connection
insert_session(connection, Begin(1, a_start()), 1)
os.kill(os.getpid(), 9)
"""
_READ = """
import sys
from nri_scope.recording.reading.reader import Recording
with Recording.open(sys.argv[1]) as recording:
    recording.sessions()
    print("a copy" if recording.is_copy else "not a copy")
"""


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "root's own"
    path.write_text("precious")
    return path


def _record(path: Path) -> None:
    """Record one session with a secret; raise RecordingError."""
    recorder = Recorder.open(path)
    session = recorder.begin_session(a_start())
    recorder.capture(session, an_item("StateChange", _SECRET))
    recorder.end_session(session, "", time.time_ns())
    counters = recorder.close()
    assert (counters.recorded, counters.lost) == (1, 0)


def _assert_rejected(work: Callable[[], object], *words: str) -> None:
    with pytest.raises(RecordingError) as caught:
        work()
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


@needs_root
class TestForeignOwners:
    def test_a_recording_of_another_user_is_not_continued(self, tmp_path: Path) -> None:
        path = a_copy(tmp_path)
        give(path)
        before = path.read_bytes()
        _assert_rejected(
            lambda: Recorder.open(path), "belongs to another user", "choose another name"
        )
        assert path.read_bytes() == before

    def test_a_recording_in_another_user_s_folder_is_rejected(self, public: Path) -> None:
        give(public)
        _assert_rejected(
            lambda: Recorder.open(public / "r.db"), "belongs to another user", "your own"
        )
        assert not list(public.iterdir())

    def test_a_recording_below_another_user_s_folder_is_rejected(self, public: Path) -> None:
        (public / "below").mkdir(0o700)
        give(public)
        _assert_rejected(
            lambda: Recorder.open(public / "below" / "r.db"), "belongs to another user"
        )

    def test_the_folder_of_the_user_who_called_sudo_is_accepted(
        self, public: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        give(public)
        monkeypatch.setenv("SUDO_UID", str(USER))
        _record(public / "r.db")
        assert [each.name for each in public.iterdir()] == ["r.db"]
        monkeypatch.setenv("SUDO_UID", "0x")
        _assert_rejected(lambda: Recorder.open(public / "r.db"), "belongs to another user")

    @pytest.mark.parametrize("suffix", _SUFFIXES)
    def test_a_companion_of_another_user_is_rejected(self, tmp_path: Path, suffix: str) -> None:
        path = a_copy(tmp_path)
        beside = path.with_name(f"{path.name}{suffix}")
        beside.touch(0o666)
        give(beside)
        _assert_rejected(lambda: Recorder.open(path), f"{suffix} belongs to another user")


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_a_folder_in_which_others_can_replace_files_is_rejected(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    _assert_rejected(
        lambda: Recorder.open(tmp_path / "r.db"), "other users can write", "of your own"
    )
    path = a_copy(tmp_path)
    before = path.read_bytes()
    _assert_rejected(lambda: Recorder.open(path), "other users can write", "of your own")
    assert path.read_bytes() == before


@pytest.mark.parametrize("mode", [0o700, 0o1777])
class TestBesideOurRecording:
    @pytest.mark.parametrize("suffix", _SUFFIXES)
    def test_a_new_recording_is_rejected_beside_a_companion(
        self, tmp_path: Path, suffix: str, mode: int
    ) -> None:
        tmp_path.chmod(mode)
        beside = tmp_path / f"r.db{suffix}"
        beside.write_bytes(b"")
        _assert_rejected(lambda: Recorder.open(tmp_path / "r.db"), f"r.db{suffix} already exists")
        assert [each.name for each in tmp_path.iterdir()] == [beside.name]

    @pytest.mark.parametrize("suffix", _SUFFIXES)
    @pytest.mark.parametrize("kind", ["pipe", "socket", "folder", "link"])
    def test_companions_that_are_not_regular_files_are_rejected(
        self, tmp_path: Path, suffix: str, kind: str, mode: int
    ) -> None:
        tmp_path.chmod(mode)
        path, other = a_copy(tmp_path), tmp_path / "other"
        make_other_kind(path.with_name(f"{path.name}{suffix}"), kind, other)
        _assert_rejected(lambda: Recorder.open(path), f"{suffix} is not a regular file")
        assert not other.exists()

    def test_a_recorder_does_not_roll_back_an_interrupted_write(
        self, tmp_path: Path, mode: int
    ) -> None:
        tmp_path.chmod(mode)
        path = a_copy(tmp_path)
        victim = tmp_path / "victim"
        victim.touch()
        journal = path.with_name(f"{path.name}-journal")
        journal.write_bytes(journal_naming(victim, path.stat().st_size))
        before = path.read_bytes()
        _assert_rejected(lambda: Recorder.open(path), "-journal is left from an interrupted write")
        assert victim.exists() and journal.exists() and path.read_bytes() == before

    def test_a_killed_recorder_s_recording_is_continued(self, tmp_path: Path, mode: int) -> None:
        tmp_path.chmod(mode)
        path = tmp_path / "r.db"
        done = subprocess.run([sys.executable, "-c", _RECORD_AND_DIE, path], check=False)
        assert done.returncode == -signal.SIGKILL
        assert (tmp_path / "r.db-wal").stat().st_size
        # The recorder restores the private mode of the log too.
        (tmp_path / "r.db-wal").chmod(0o644)
        recorder = Recorder.open(path)
        assert {each.stat().st_mode & 0o777 for each in tmp_path.iterdir()} == {0o600}
        recorder.close()
        assert [each.name for each in tmp_path.iterdir()] == ["r.db"]
        with Recording.open(path) as recording:
            assert not recording.is_copy
            assert [session.end_reason for session in recording.sessions()] == [KILLED]

    def test_a_recording_can_be_read_while_it_is_written(self, tmp_path: Path, mode: int) -> None:
        tmp_path.chmod(mode)
        path = tmp_path / "r.db"
        file = RecordingFile.open(path)
        read = [sys.executable, "-c", _READ, str(path)]
        found = subprocess.run(read, capture_output=True, text=True, check=True).stdout
        assert found == "not a copy\n"
        file.close()
        assert [each.name for each in tmp_path.iterdir()] == ["r.db"]
        # The file format versions of a database without a write-ahead log.
        assert path.read_bytes()[18:20] == b"\x01\x01"


@needs_root
class TestInASticky:
    """Folder, as /tmp is one."""

    @pytest.fixture
    def sticky(self, public: Path) -> Path:
        public.chmod(0o1777)
        return public

    @pytest.mark.exhaustive
    def test_a_journal_planted_at_any_moment_deletes_no_file(
        self, sticky: Path, victim: Path
    ) -> None:
        path = sticky / "r.db"
        deadly = sticky / "deadly"
        deadly.write_bytes(journal_naming(victim, SAMPLE.stat().st_size))
        give(deadly)
        outcomes = {True: 0, False: 0}
        with acting(sticky, _PLANTER, path.name, deadly.name, "deadly"):
            for number in range(20 * _ATTEMPTS):
                if number > _ATTEMPTS and all(outcomes.values()):
                    break
                try:
                    _record(path)
                    outcomes[True] += 1
                except RecordingError:
                    outcomes[False] += 1
                with suppress(RecordingError):
                    Recording.open(path).close()
                assert victim.exists()
                if number % 3 == 2:
                    path.unlink(missing_ok=True)
        assert all(outcomes.values()), outcomes
        assert deadly.stat().st_uid == USER

    def test_another_user_s_files_receive_no_recorded_data(self, sticky: Path) -> None:
        path = sticky / "r.db"
        recorded = 0
        with acting(sticky, _PLANTER, path.name, "", "watched"):
            for number in range(20 * _ATTEMPTS):
                if number > _ATTEMPTS and recorded:
                    break
                with suppress(RecordingError):
                    _record(path)
                    recorded += 1
                if number % 3 == 2:
                    path.unlink(missing_ok=True)
        assert recorded
        for each in sticky.iterdir():
            if each.lstat().st_uid == USER:
                assert _SECRET not in each.read_bytes()


@needs_root
def test_root_alone_reads_a_recording_of_another_user(
    public: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(path := public / "r.nriscope.db", lifecycles(1))
    code = f"import os, sys; os.setuid({USER}); open(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, check=False)
    assert b"PermissionError" in done.stderr
    give(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert run(["log", str(path)]) == 0
    assert "CreateContainer" in capsys.readouterr().out
