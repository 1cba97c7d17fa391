# SPDX-License-Identifier: Apache-2.0
"""Recorder process beside a viewer: its messages, and its end in all cases."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_scope.errors import UsageError
from nri_scope.logger.recorder_process import RecorderProcess
from nri_scope.logger.run import RecordOptions
from nri_scope.plugin import Identity
from nri_scope.recording.reading.reader import Recording
from nri_scope.writer.messages import RecordingOptions
from tests.runtime_emulation.runtime import Runtime
from tests.runtime_emulation.stored_requests import (
    play,
    requests_of_the_first_session,
    split_setup,
)
from tests.tui.screen import RECORDING

PATIENCE = 60.0

PARENT = """
import sys, time
from pathlib import Path
from nri_scope.logger.recorder_process import RecorderProcess
from nri_scope.logger.run import RecordOptions
from nri_scope.plugin import Identity
from nri_scope.writer.messages import RecordingOptions
options = RecordOptions(
    RecordingOptions(Path(sys.argv[1]), existed=False),
    Path(sys.argv[2]),
    Identity(index="00", name="nri-scope"),
    wait=True,
)
recorder = RecorderProcess("nri_scope.logger.recorder_process", nicer=5)
recorder.begin(options)
print(recorder._child.pid, flush=True)
recorder.ready(60)
print(recorder.status_text, flush=True)
time.sleep(1000)
"""
"""Viewer that reads no messages of the recorder once it is ready."""


def a_file(folder: Path) -> RecordingOptions:
    return RecordingOptions(folder / "a.db", existed=False)


def is_running(pid: int) -> bool:
    """Return whether a process runs."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.mark.exhaustive
async def test_a_stopped_and_killed_viewer_loses_no_events_and_the_session_is_ended(
    tmp_path: Path,
) -> None:
    with Recording.open(RECORDING) as recording:
        stored = requests_of_the_first_session(recording)
    setup, rest = split_setup(stored)
    events = list(rest)
    path, socket = tmp_path / "a.nriscope.db", tmp_path / "nri.sock"
    async with Runtime(setup) as runtime, asyncio.timeout(PATIENCE):
        await runtime.listen(socket)
        parent = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PARENT, str(path), str(socket)), stdout=asyncio.subprocess.PIPE
        )
        assert parent.stdout is not None
        pid = int(await parent.stdout.readline())
        assert b"recording containerd" in await parent.stdout.readline()
        await runtime.wait_plugins(1)
        os.kill(parent.pid, signal.SIGSTOP)
        for _ in range(10):
            await play(runtime, events)
        # The viewer dies without stopping the recorder.
        os.kill(parent.pid, signal.SIGKILL)
        await parent.wait()
        while is_running(pid):
            await asyncio.sleep(0.05)
    with Recording.open(path) as recording:
        sessions = recording.sessions()
        assert len(list(recording.events())) >= 10 * len(events)
        assert not recording.gaps()
        assert [session.end_reason for session in sessions] == ["terminated"]


@pytest.fixture
def recorder() -> Iterator[RecorderProcess]:
    process = RecorderProcess("nri_scope.logger.recorder_process", nicer=0)
    try:
        yield process
    finally:
        process.stop(seconds=0)


def test_a_recorder_without_a_runtime_reports_it(recorder: RecorderProcess, tmp_path: Path) -> None:
    recorder.begin(
        RecordOptions(a_file(tmp_path), tmp_path / "no.sock", Identity(index="00", name="x"))
    )
    with pytest.raises(UsageError, match=r"no\.sock.*doctor"):
        recorder.ready(PATIENCE)
    recorder.stop()
    assert not list(tmp_path.iterdir())


def test_a_recorder_that_never_began_ends_without_a_message(recorder: RecorderProcess) -> None:
    recorder.stop(signal.SIGINT)
    recorder.check()
    assert not is_running(recorder._child.pid)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_failing_callback_ends_the_recorder(tmp_path: Path) -> None:
    def fail(_notice: str) -> None:
        raise RuntimeError

    recorder = RecorderProcess("nri_scope.logger.recorder_process", nicer=0, on_notice=fail)
    identity = Identity(index="00", name="x")
    recorder.begin(RecordOptions(a_file(tmp_path), tmp_path / "s", identity, wait=True))
    recorder._listener.join(PATIENCE)
    assert recorder.ended and not is_running(recorder._child.pid)
    recorder.stop(signal.SIGINT)


@pytest.mark.parametrize(
    ("number", "words"), [(signal.SIGSTOP, ""), (signal.SIGKILL, "has ended, killed by SIGKILL")]
)
def test_a_stopped_recorder_ends_normally_and_a_killed_one_is_reported(
    number: signal.Signals, words: str, recorder: RecorderProcess, tmp_path: Path
) -> None:
    options = RecordOptions(
        a_file(tmp_path), tmp_path / "s", Identity(index="00", name="x"), wait=True
    )
    recorder.begin(options)
    recorder.ready(PATIENCE)
    os.kill(recorder._child.pid, number)
    if number == signal.SIGKILL:
        recorder._listener.join(PATIENCE)
        assert recorder.ended
        assert words in recorder.status_text
    recorder.stop(signal.SIGINT, seconds=PATIENCE)
    assert words in recorder.failure and bool(words) is bool(recorder.failure)
    if not words:
        assert recorder.status_text == "nothing recorded: no connection to a runtime"
    assert not is_running(recorder._child.pid)
