# SPDX-License-Identifier: Apache-2.0
"""Plugins launched by the tap: exit status, messages and cleanup."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nri_scope.errors import UsageError
from nri_scope.plugin import Identity
from nri_scope.recording.reader import Recording
from nri_scope.recording.tap_tables import printed
from nri_scope.runtime import PROFILES, ProfileSetUp, Runtime
from nri_scope.runtime.command import command_of
from nri_scope.runtime.output import Stream
from nri_scope.tap import launched_plugin
from nri_scope.tap.launched_plugin import Launch, to_socket
from nri_scope.tap.run import Tap
from nri_scope.tap.settings import Settings
from tests.runtime_emulation.scripts import is_running, plugin, python


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[Runtime]:
    async with Runtime(ProfileSetUp(PROFILES["containerd-2.1"])) as runtime:
        await runtime.listen(tmp_path / "nri.sock")
        yield runtime


class Run:
    """One tapped launch in this process."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "t.nriscope.db"
        self.socket = folder / "nri.sock"
        self.said: list[str] = []
        self.printed: list[str] = []
        self.line = asyncio.Event()

    async def of(self, argv: list[str]) -> int:
        """Launch a plugin, and wait for its end; its status."""
        settings = Settings(output=str(self.file))
        recorder = settings.open(self.said.append)
        tap = Tap(settings, recorder, self.said.append)
        try:
            # With time enough for a busy machine, as `run_tap` does.
            await tap.relays.start()
            launch = Launch(command_of(argv, "10", "thing"), Identity(index="10", name="thing"))
            return await to_socket(launch, self.socket, self._take, wait=False)(tap)
        finally:
            tap.relays.close()
            recorder.close()

    def _take(self, stream: Stream, line: str, mono_ns: int) -> None:
        self.printed.append(line)
        self.line.set()


@pytest.mark.parametrize(
    ("ended", "status"), [("sys.exit(0)", 0), ("sys.exit(7)", 7), ("os.kill(os.getpid(), 15)", 143)]
)
async def test_its_status_is_a_shells(
    ended: str, status: int, runtime: Runtime, tmp_path: Path
) -> None:
    run = Run(tmp_path)
    done = asyncio.ensure_future(run.of(plugin(ended=ended)))
    await runtime.wait_plugins(1)
    await runtime.shut_down()
    assert await done == status


async def test_one_that_stays_when_the_runtime_is_gone_is_killed(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launched_plugin, "END_GRACE_S", 0.1)
    run = Run(tmp_path)
    stays = "print(os.getpid(), flush=True); import time; time.sleep(1000)"
    done = asyncio.ensure_future(run.of(plugin(ended=stays)))
    await runtime.wait_plugins(1)
    await runtime.shut_down()
    assert await done == 0
    assert any("was killed" in line for line in run.said)
    assert not is_running(int(run.printed[0]))


async def test_what_it_leaves_behind_is_told_and_killed(runtime: Runtime, tmp_path: Path) -> None:
    run = Run(tmp_path)
    starts = "child = subprocess.Popen(['sleep', '1000']); print(child.pid, flush=True)"
    done = asyncio.ensure_future(run.of(plugin(registered=starts)))
    await runtime.wait_plugins(1)
    await run.line.wait()
    await runtime.shut_down()
    assert await done == 0
    assert any("behind" in line and "sleep 1000" in line for line in run.said)
    assert not is_running(int(run.printed[0]))


async def test_what_it_prints_is_recorded_with_how_it_ended(
    runtime: Runtime, tmp_path: Path
) -> None:
    run = Run(tmp_path)
    first = "print('first', flush=True)"
    last = "print('last words', file=sys.stderr); sys.exit(3)"
    done = asyncio.ensure_future(run.of(plugin(registered=first, ended=last)))
    await runtime.wait_plugins(1)
    await run.line.wait()
    await runtime.shut_down()
    assert await done == 3
    with Recording.open(run.file) as recorded:
        (session,) = recorded.sessions()
        assert "the runtime closed" in session.end_reason
        assert "exit status 3" in session.end_reason and "last words" in session.end_reason
        lines = [(line.stream, line.text) for line in printed(recorded)]
    assert lines == [("stdout", "first"), ("stderr", "last words")]


async def test_one_that_ends_before_it_registers_is_none(runtime: Runtime, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"never registered.*exit status 4.*not today"):
        await Run(tmp_path).of(
            python("import sys; print('not today', file=sys.stderr); sys.exit(4)")
        )
