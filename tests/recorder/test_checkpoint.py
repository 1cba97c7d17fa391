# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nri_scope.recorder.ring import Checkpointer
from nri_scope.recording.reader import Recording
from nri_scope.recording.writable_file import RecordingFile, wal_of

_TARGET_BYTES = 100_000
_MAX_BYTES = 400_000


@pytest.fixture
def file(tmp_path: Path) -> Iterator[RecordingFile]:
    file = RecordingFile.open(tmp_path / "r.db")
    file.connection.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
    file.connection.execute(f"PRAGMA journal_size_limit = {_TARGET_BYTES}").fetchall()
    yield file
    file.close()


def _write(file: RecordingFile, size: int = 20_000) -> None:
    file.connection.execute(
        "INSERT INTO object (kind, hash, size, data) VALUES (0, x'', 0, zeroblob(?))", (size,)
    )


def _log(file: RecordingFile) -> int:
    return wal_of(file.path).stat().st_size


def _wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(3000):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("the condition was not met in time")


def test_the_log_is_moved_into_the_file_and_restarted(file: RecordingFile) -> None:
    checkpointer = Checkpointer(file.path, _TARGET_BYTES, 1 << 40)
    before = file.path.stat().st_size
    while _log(file) <= _TARGET_BYTES:
        _write(file)
        checkpointer.after_commit()
    _wait_until(lambda: file.path.stat().st_size > before)
    checkpointer.close()
    _write(file)
    assert _log(file) <= _TARGET_BYTES


def test_the_log_stays_near_its_maximum_size(file: RecordingFile) -> None:
    checkpointer = Checkpointer(file.path, _TARGET_BYTES, _MAX_BYTES)
    for _ in range(200):
        _write(file)
        checkpointer.after_commit()
        assert _log(file) <= _MAX_BYTES + 50_000
    checkpointer.close()


def test_a_reader_that_needs_the_log_does_not_block_the_writer(file: RecordingFile) -> None:
    _write(file)
    checkpointer = Checkpointer(file.path, _TARGET_BYTES, _MAX_BYTES)
    with Recording.open(file.path) as recording:
        reading = recording.connection.execute("SELECT id FROM object UNION ALL SELECT 2")
        assert next(reading) == (1,)
        for _ in range(100):
            _write(file)
            checkpointer.after_commit()
        # All rows were written while the reader was open.
        assert _log(file) > 4 * _MAX_BYTES
        assert list(reading) == [(2,)]
    checkpointer.request()

    def begins_anew() -> bool:
        # Rows written during a checkpoint remain for the next one.
        _write(file)
        checkpointer.after_commit()
        return _log(file) <= _TARGET_BYTES

    _wait_until(begins_anew)
    checkpointer.close()


def test_close_ends_a_running_checkpoint(file: RecordingFile) -> None:
    checkpointer = Checkpointer(file.path, 0, 1 << 40)
    for _ in range(50):
        _write(file)
        checkpointer.after_commit()
    checkpointer.close()
    file.close()
    assert not wal_of(file.path).exists()
