# SPDX-License-Identifier: Apache-2.0
"""Recorders that share the size of their folder, as on a node during an update."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.cli.main import run
from nri_scope.nri.events import EventKind
from nri_scope.recording.file.heartbeat import heartbeat_of
from nri_scope.recording.reading.reader import Recording
from nri_scope.runtime import PROFILES, ProfileSetUp
from tests.cli.recording_process import recording
from tests.runtime_emulation.runtime import Runtime

RECORDINGS = Path(__file__).parents[2] / "recordings"
MIB = 1 << 20


async def noise(runtime: Runtime, number: int) -> None:
    """Send 300 kB in ten events, which cannot be compressed by much."""
    message = api.StartContainerRequest()
    message.pod.CopyFrom(api.PodSandbox(id="pod-1", namespace="shop", name="web"))
    message.container.CopyFrom(
        api.Container(id="c1", pod_sandbox_id="pod-1", name="app", env=["A=1"])
    )
    for each in range(10):
        message.container.env[0] = random.Random(number * 10 + each).randbytes(30_000).hex()
        await runtime.dispatch(EventKind.StartContainer, message)


def finished(folder: Path, name: str, modified: int, size: int = MIB) -> Path:
    """Make a recording of about ``size`` bytes that no process records."""
    path = folder / f"{name}.nriscope.db"
    shutil.copy(RECORDINGS / "demo.nriscope.db", path)
    with path.open("ab") as file:
        file.truncate(max(size, path.stat().st_size))
    os.utime(path, (modified, modified))
    return path


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir() if not file.name.endswith("-shm"))


@pytest.mark.exhaustive
async def test_oldest_finished_recordings_go_and_active_ones_stay(tmp_path: Path) -> None:
    folder = tmp_path / "node"
    folder.mkdir()
    old, older = finished(folder, "a", 2_000), finished(folder, "b", 1_000)
    log = older.with_name(f"{older.name}-wal")
    log.write_bytes(b"")
    # Of a recorder that was killed.
    heartbeat = heartbeat_of(older)
    heartbeat.write_bytes(b"0 0 0 ")
    os.utime(log, (1_000, 1_000))
    foreign = folder / "c.nriscope.db"
    foreign.write_bytes(bytes(3 * MIB))
    os.utime(foreign, (1, 1))
    link = folder / "d.nriscope.db"
    target = finished(tmp_path, "elsewhere", 1)
    link.symlink_to(target)
    async with (
        Runtime(ProfileSetUp(PROFILES["containerd-2.1"])) as runtime,
        AsyncExitStack() as stack,
    ):
        await runtime.listen(tmp_path / "nri.sock")
        options = ("--socket", tmp_path / "nri.sock", "--max-folder-size", "2M", "--max-size", "1M")
        # Another recorder with an older recording than any: it is locked.
        other = await stack.enter_async_context(
            recording("--socket", tmp_path / "nri.sock", "-o", folder / "other.nriscope.db")
        )
        await runtime.wait_plugins(1)
        os.utime(folder / "other.nriscope.db", (10, 10))
        new = await stack.enter_async_context(recording(*options, "-o", folder / "new.nriscope.db"))
        await other.wait_for_text("recording")
        assert str(older) in await new.wait_for_text("removed")
        assert str(old) in await new.wait_for_text("removed")
        await new.interrupt()
        assert not (older.exists() or log.exists() or heartbeat.exists() or old.exists())
        # Still above the limit, but none of these is a finished recording of this folder.
        assert foreign.exists() and target.exists() and link.is_symlink()
        assert (folder / "other.nriscope.db").exists()
        _, _, errors = await other.interrupt()
        assert "deleted" not in errors


@pytest.mark.exhaustive
async def test_two_recorders_together_stay_below_the_limit(tmp_path: Path) -> None:
    folder = tmp_path / "node"
    folder.mkdir()
    limit = 6 * MIB
    old = finished(folder, "old", 1_000, 5 * MIB)
    async with (
        Runtime(ProfileSetUp(PROFILES["containerd-2.1"])) as runtime,
        AsyncExitStack() as stack,
    ):
        await runtime.listen(tmp_path / "nri.sock")
        # Same index and name, as two pods of a DaemonSet.
        recorders = [
            await stack.enter_async_context(
                recording(
                    *("--socket", tmp_path / "nri.sock", "--max-folder-size", "6M"),
                    *("-o", folder / f"{name}.nriscope.db"),
                )
            )
            for name in ("one", "two")
        ]
        await runtime.wait_plugins(2)
        for number in range(30):
            await noise(runtime, number)
            # Smaller than the largest batch, which the limit would not divide.
            await asyncio.sleep(0.05)
        for recorder in recorders:
            status, _, errors = await recorder.interrupt()
            assert (status, "lost" in errors) == (0, False), errors
    assert not old.exists()
    sizes = [path.stat().st_size for path in sorted(folder.glob("*.nriscope.db"))]
    assert len(sizes) == 2
    assert size_of(folder) <= limit
    assert min(sizes) > limit // 6
    for name in ("one", "two"):
        with Recording.open(folder / f"{name}.nriscope.db") as recorded:
            assert list(recorded.events(last=1))


@pytest.mark.exhaustive
async def test_the_recording_of_a_killed_recorder_counts_as_finished(tmp_path: Path) -> None:
    folder = tmp_path / "node"
    folder.mkdir()
    killed_path = folder / "killed.nriscope.db"
    async with (
        Runtime(ProfileSetUp(PROFILES["containerd-2.1"])) as runtime,
        AsyncExitStack() as stack,
    ):
        await runtime.listen(tmp_path / "nri.sock")
        socket = ("--socket", tmp_path / "nri.sock")
        killed = await stack.enter_async_context(recording(*socket, "-o", killed_path))
        await runtime.wait_plugins(1)
        for number in range(20):
            await noise(runtime, number)
        await killed.interrupt(signal.SIGKILL)
        new = await stack.enter_async_context(
            recording(*socket, "--max-folder-size", "2M", "-o", folder / "new.nriscope.db")
        )
        assert str(killed_path) in await new.wait_for_text("removed")
        while len(list(folder.glob("killed*"))) > 0:
            await asyncio.sleep(0.01)
        await new.interrupt()


def test_a_recording_larger_than_its_folder_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["record", "-o", str(tmp_path / "r.db"), "--max-size", "2G"]
    assert run([*arguments, "--max-folder-size", "1G"]) == 2
    assert "--max-size is above --max-folder-size" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
