# SPDX-License-Identifier: Apache-2.0
"""A recorder is detected by its lock, without disturbing it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from nri_scope.recorder.writer import Recorder
from nri_scope.recording.marks.recorder_lock import RecorderLockProbe
from tests.recording.marks.recordings import a_copy

ROOT = Path(__file__).parents[3]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return a_copy(tmp_path)


def test_another_process_that_records_is_detected_and_not_disturbed(path: Path) -> None:
    recording = """
        import sys
        from pathlib import Path
        from nri_scope.recorder.writer import Recorder
        recorder = Recorder.open(Path(sys.argv[1]))
        print("ready", flush=True)
        sys.stdin.read()
        recorder.close()
    """
    command = [sys.executable, "-c", textwrap.dedent(recording), str(path)]
    watch = RecorderLockProbe(path)
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        assert watch.is_recorder_active()
        other.communicate("")
    assert other.returncode == 0
    assert not watch.is_recorder_active()
    watch.close()
    # The probe does not prevent a later recorder.
    Recorder.open(path).close()


def test_probes_take_no_lock_from_recorders_or_each_other(path: Path) -> None:
    watches = [RecorderLockProbe(path) for _ in range(2)]
    assert [watch.is_recorder_active() for watch in watches] == [False, False]
    recorder = Recorder.open(path)
    assert [watch.is_recorder_active() for watch in watches] == [True, True]
    recorder.close()
    for watch in watches:
        watch.close()


def test_a_recorder_that_starts_during_a_probe_waits_and_opens(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = os.open(path, os.O_RDONLY)
    fcntl.flock(asked, fcntl.LOCK_SH)
    waited = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        fcntl.flock(asked, fcntl.LOCK_UN)

    monkeypatch.setattr("nri_scope.recording.writable_file.time.sleep", wait)
    recorder = Recorder.open(path)
    assert len(waited) == 1
    monkeypatch.undo()
    recorder.close()
    os.close(asked)
