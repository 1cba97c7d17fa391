# SPDX-License-Identifier: Apache-2.0
"""Plugins that connect to a private socket by themselves, in a tap."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from nri_scope.errors import UsageError
from nri_scope.plugin import Identity
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.tap_tables import printed
from nri_scope.runtime import PROFILES, ProfileSetUp
from nri_scope.runtime.command import command_of
from nri_scope.tap.launched_plugin import Launch, as_external, to_socket
from nri_scope.tap.run import Tap, TapSettings
from nri_scope.writer.supervisor import WriterProcess
from tests.runtime_emulation.runtime import Runtime
from tests.runtime_emulation.scripts import (
    children,
    external,
    is_running,
    plugin,
    python,
    registering,
)


class Run:
    """A tap of one plugin in this process, to a runtime at ``nri.sock``."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "t.nriscope.db"
        self.socket = folder / "nri.sock"
        self.messages: list[str] = []
        self.printed: list[str] = []
        self.tap: Tap | None = None

    async def start(self, argv: list[str], *, launched: bool = False) -> int:
        """Start a plugin, wait until it exits, and return its exit status."""
        writer = WriterProcess(TapSettings(output=str(self.file)).recording(), self.messages.append)
        await writer.open()
        started = as_external(argv, {}, self.socket, self.printed.append, wait=False, grace_s=60)
        if launched:
            launch = Launch(command_of(argv, "10", "thing"), Identity(index="10", name="thing"))
            show = self.printed.append
            started = to_socket(launch, self.socket, show, wait=False, fallback=started)
        try:
            self.tap = Tap(TapSettings(output=str(self.file)), writer, self.messages.append)
            return await started(self.tap)
        finally:
            await writer.close()


@pytest.mark.exhaustive
@pytest.mark.parametrize("launched", [True, False])
async def test_an_external_plugin_is_tapped(launched: bool, tmp_path: Path) -> None:
    run = Run(tmp_path)
    first, last = "print('first', flush=True)", "print('last words', file=sys.stderr); sys.exit(3)"
    async with Runtime(ProfileSetUp(PROFILES["containerd-2.1"])) as runtime:
        await runtime.listen(run.socket)
        argv = external("42-own", registered=first, ended=last)
        done = asyncio.ensure_future(run.start(argv, launched=launched))
        await runtime.wait_plugins(1)
        assert runtime.plugins[0].id == "42-own"
        await runtime.shut_down()
        assert await done == 3
    with Recording.open(run.file) as recorded:
        (session,) = recorded.sessions()
        assert session.plugin == "42-own"
        assert "exit status 3" in session.end_reason and "last words" in session.end_reason
        lines = [(line.stream, line.text) for line in printed(recorded)]
    assert lines == [("stdout", "first"), ("stderr", "last words")]
    again = "10-thing sets its own index, so it is started again as an external plugin"
    assert (again in run.messages) is launched
    assert not [pid for pid in children() if "launched_process" in _words(pid)]


def _words(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


async def test_each_connection_of_an_external_plugin_is_a_session(tmp_path: Path) -> None:
    run = Run(tmp_path)
    again = "await plugin.connect('{socket}'); await plugin.register()"
    argv = external(ended=f"{again}; await plugin.connected.wait_closed()")
    async with Runtime(ProfileSetUp(PROFILES["containerd-2.1"])) as runtime:
        await runtime.listen(run.socket)
        done = asyncio.ensure_future(run.start(argv))
        await runtime.wait_plugins(1)
        await runtime.drop("42-own")
        await runtime.wait_plugins(1)
        await runtime.shut_down()
        assert await done == 0
    with Recording.open(run.file) as recorded:
        assert [session.plugin for session in recorded.sessions()] == ["42-own"] * 2


async def test_each_registration_of_an_external_plugin_is_a_session(tmp_path: Path) -> None:
    """Upstream's differ registers at several indices with one process."""
    run, names = Run(tmp_path), ["42-own", "99-last", "05-first"]
    async with Runtime(ProfileSetUp(PROFILES["containerd-2.1"])) as runtime:
        await runtime.listen(run.socket)
        done = asyncio.ensure_future(run.start(registering(*names)))
        await runtime.wait_plugins(len(names))
        await runtime.shut_down()
        assert await done == 0
    with Recording.open(run.file) as recorded:
        sessions = {session.id: session.plugin for session in recorded.sessions()}
        events = [(sessions[event.session], event.event) for event in recorded.events()]
    assert sorted(sessions.values()) == sorted(names)
    setup = ("RegisterPlugin", "Configure", "Synchronize")
    assert sorted(events) == sorted((name, event) for name in names for event in setup)


async def test_a_stop_signal_is_forwarded_to_an_external_plugin(tmp_path: Path) -> None:
    run = Run(tmp_path)
    argv = external(
        registered="print(os.getpid(), flush=True)", ended="import time; time.sleep(1000)"
    )
    async with Runtime(ProfileSetUp(PROFILES["containerd-2.1"])) as runtime:
        await runtime.listen(run.socket)
        done = asyncio.ensure_future(run.start(argv))
        await runtime.wait_plugins(1)
        assert run.tap is not None
        run.tap.stop.set(signal.SIGTERM, "terminated")
        assert await done == 128 + signal.SIGTERM
    assert not is_running(int(run.printed[0]))
    assert not any("never registered" in line for line in run.messages)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (python("import sys; sys.exit('no config, {socket}')"), "never registered: it did not"),
        (plugin(), "KeyError: 'NRI_PLUGIN_SOCKET'"),
        (["no-such-program", "{socket}"], "no such program"),
    ],
)
async def test_an_external_plugin_that_fails_to_start_is_an_error(
    argv: list[str], words: str, tmp_path: Path
) -> None:
    async with Runtime(ProfileSetUp(PROFILES["containerd-2.1"])) as runtime:
        run = Run(tmp_path)
        await runtime.listen(run.socket)
        with pytest.raises(UsageError, match=words):
            await run.start(argv)


@pytest.mark.exhaustive
async def test_a_plugin_that_does_not_connect_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nri_scope.tap.launched_plugin.CONNECT_S", 0.1)
    run = Run(tmp_path)
    done = asyncio.ensure_future(run.start(["sh", "-c", "echo $$; sleep 1000", "{socket}"]))
    while not run.messages:
        await asyncio.sleep(0.01)
    assert "did not connect to its socket within 0.1 s" in run.messages[0]
    os.kill(int(run.printed[0]), signal.SIGKILL)
    with pytest.raises(UsageError, match="killed by SIGKILL"):
        await done
