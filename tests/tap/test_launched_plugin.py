# SPDX-License-Identifier: Apache-2.0
"""Plugins launched by the tap: exit status, messages and cleanup."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nri_scope.errors import UsageError
from nri_scope.plugin import Identity
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.tap_tables import printed
from nri_scope.runtime import PROFILES, ProfileSetUp
from nri_scope.runtime.command import command_of
from nri_scope.tap.launched_plugin import Launch, to_socket
from nri_scope.tap.run import Tap, TapSettings
from nri_scope.writer.supervisor import WriterProcess
from tests.runtime_emulation.runtime import Runtime
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
        self.messages: list[str] = []
        self.printed: list[str] = []
        self.line = asyncio.Event()

    async def launch(self, argv: list[str], grace_s: float = 60) -> int:
        """Launch a plugin, wait until it exits, and return its exit status."""
        settings = TapSettings(output=str(self.file))
        writer = WriterProcess(settings.recording(), self.messages.append)
        await writer.open()
        try:
            tap = Tap(settings, writer, self.messages.append)
            identity = Identity(index="10", name="thing")
            launch = Launch(command_of(argv, "10", "thing"), identity, grace_s=grace_s)
            return await to_socket(launch, self.socket, self._store, wait=False)(tap)
        finally:
            await writer.close()

    def _store(self, line: str) -> None:
        self.printed.append(line)
        self.line.set()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("ended", "status"), [("sys.exit(0)", 0), ("sys.exit(7)", 7), ("os.kill(os.getpid(), 15)", 143)]
)
async def test_the_exit_status_is_that_of_a_shell(
    ended: str, status: int, runtime: Runtime, tmp_path: Path
) -> None:
    run = Run(tmp_path)
    done = asyncio.ensure_future(run.launch(plugin(ended=ended)))
    await runtime.wait_plugins(1)
    await runtime.shut_down()
    assert await done == status


@pytest.mark.parametrize(
    ("on_signal", "words"),
    [("SIG_DFL", "ended by SIGTERM"), ("SIG_IGN", "was killed, as it ignored SIGTERM")],
)
async def test_a_plugin_that_stays_after_the_runtime_closed_is_ended(
    on_signal: str, words: str, runtime: Runtime, tmp_path: Path
) -> None:
    run = Run(tmp_path)
    ignores = f"import signal; signal.signal(15, signal.{on_signal})"
    stays = "print(os.getpid(), flush=True); import time; time.sleep(1000)"
    done = asyncio.ensure_future(run.launch(plugin(registered=ignores, ended=stays), 0.2))
    await runtime.wait_plugins(1)
    await runtime.shut_down()
    assert await done == 0
    told = f"the plugin {words}: it did not exit when its connection ended"
    assert told in run.messages
    assert not is_running(int(run.printed[0]))


@pytest.mark.exhaustive
async def test_leftover_processes_are_reported_and_killed(runtime: Runtime, tmp_path: Path) -> None:
    run = Run(tmp_path)
    start_child = "child = subprocess.Popen(['sleep', '1000']); print(child.pid, flush=True)"
    done = asyncio.ensure_future(run.launch(plugin(registered=start_child)))
    await runtime.wait_plugins(1)
    await run.line.wait()
    await runtime.shut_down()
    assert await done == 0
    assert any("behind" in line and "sleep 1000" in line for line in run.messages)
    assert not is_running(int(run.printed[0]))


async def test_printed_lines_and_the_exit_status_are_recorded(
    runtime: Runtime, tmp_path: Path
) -> None:
    run = Run(tmp_path)
    first = "print('first', flush=True)"
    last = "print('last words', file=sys.stderr); sys.exit(3)"
    done = asyncio.ensure_future(run.launch(plugin(registered=first, ended=last)))
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


async def test_a_plugin_that_exits_before_it_registers_is_an_error(
    runtime: Runtime, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"never registered.*exit status 4.*not today"):
        await Run(tmp_path).launch(
            python("import sys; print('not today', file=sys.stderr); sys.exit(4)")
        )
