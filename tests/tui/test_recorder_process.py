# SPDX-License-Identifier: Apache-2.0
"""The recorder beside the screen: what it tells, and how it ends, however the other one does."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from pathlib import Path

from nri_scope.cli.demo import _first_session
from nri_scope.recorder.reader import Recording
from nri_scope.runtime import Runtime, play, split_setup
from tests.tui.screen import RECORDING

PATIENCE = 60.0

PARENT = """
import sys, time
from pathlib import Path
from nri_scope.logger.run import RecordOptions
from nri_scope.plugin import Identity
from nri_scope.tui.recorder_process import RecorderProcess
options = RecordOptions(
    Path(sys.argv[1]), Path(sys.argv[2]), Identity(index="00", name="nri-scope"), wait=True
)
recorder = RecorderProcess.fork(options)
print(recorder._pid, flush=True)
recorder.ready()
print(recorder.latest, flush=True)
time.sleep(1000)
"""
"""A screen that stands still from the beginning: nothing that the recorder tells is read."""


def is_there(pid: int) -> bool:
    """Whether a process runs."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


async def test_nothing_is_lost_while_nobody_looks_and_the_end_is_in_good_order(
    tmp_path: Path,
) -> None:
    with Recording.open(RECORDING) as recording:
        _, stored = _first_session(recording)
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
        # The screen's process dies without a word.
        os.kill(parent.pid, signal.SIGKILL)
        await parent.wait()
        while is_there(pid):
            await asyncio.sleep(0.05)
    with Recording.open(path) as recording:
        sessions = recording.sessions()
        assert len(list(recording.events())) >= 10 * len(events)
        assert not recording.gaps()
        assert [session.end_reason for session in sessions] == ["terminated"]


def test_a_recorder_that_cannot_record_says_why(tmp_path: Path) -> None:
    # In a process of its own: this one has threads.
    code = f"""
from pathlib import Path
from nri_scope.errors import UsageError
from nri_scope.logger.run import RecordOptions
from nri_scope.plugin import Identity
from nri_scope.tui.recorder_process import RecorderProcess
folder = Path({str(tmp_path)!r})
options = RecordOptions(folder / "a.db", folder / "no.sock", Identity(index="00", name="x"))
recorder = RecorderProcess.fork(options)
try:
    recorder.ready()
except UsageError as error:
    assert "no.sock" in str(error) and "doctor" in str(error), error
    recorder.close()
    raise SystemExit(7)
"""
    status = os.system(f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}")
    assert os.waitstatus_to_exitcode(status) == 7
    assert not list(tmp_path.iterdir())
