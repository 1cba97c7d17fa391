# SPDX-License-Identifier: Apache-2.0
"""The relay process: death, stop or delay of either process."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest

from nri_scope.errors import UsageError
from nri_scope.process import child as child_module
from nri_scope.tap import relay_process as relays_module
from nri_scope.tap.faults import Fault, Faults
from nri_scope.tap.relay_process import Relaying, Relays
from tests.runtime_emulation.scripts import is_running
from tests.tap.processes import relayer_of

PATIENCE = 60


class Listening:
    """Remembers what it hears."""

    def __init__(self) -> None:
        self.heard_data: list[tuple[bool, bytes]] = []
        self.words: list[str] = []
        self.something = asyncio.Event()

    def receive(self, forth: bool, data: bytes, arrived_ns: int, passed_ns: int) -> None:
        assert 0 < arrived_ns <= passed_ns
        self.heard_data.append((forth, data))
        self.something.set()

    def expect_dropped(self, conn_id: int, stream_id: int, words: str) -> None:
        raise AssertionError(words)

    def stop_recording(self, words: str, at_ns: int | None = None) -> None:
        self.words.append(words)
        self.something.set()


@contextmanager
def relayed(
    relays: Relays, listening: Listening
) -> Iterator[tuple[socket.socket, socket.socket, Relaying]]:
    """A runtime's and a plugin's socket, and what is between them."""
    (runtime, ours), (theirs, plugin) = socket.socketpair(), socket.socketpair()
    with runtime, plugin:
        for sock in (runtime, plugin):
            sock.setblocking(False)
        yield runtime, plugin, relays.begin(ours, theirs, listening)


async def said(sock: socket.socket) -> bytes:
    """What is read next; b"" for the end."""
    async with asyncio.timeout(PATIENCE):
        return await asyncio.get_running_loop().sock_recv(sock, 1 << 16)


async def test_what_is_relayed_is_heard(relays: Relays) -> None:
    listening = Listening()
    with relayed(relays, listening) as (runtime, plugin, relaying):
        runtime.send(b"a question")
        assert await said(plugin) == b"a question"
        plugin.send(b"an answer")
        assert await said(runtime) == b"an answer"
        plugin.close()
        assert await said(runtime) == b""
        runtime.close()
        async with asyncio.timeout(PATIENCE):
            ended = await relaying.wait_closed()
    assert listening.heard_data == [(True, b"a question"), (False, b"an answer")]
    assert (ended.end.by_first, ended.end.reason, ended.faults) == (False, "", "")


async def test_when_it_is_killed_both_ends_see_a_disconnect_and_another_takes_its_place(
    relays: Relays,
) -> None:
    listening = Listening()
    with relayed(relays, listening) as (runtime, plugin, relaying):
        runtime.send(b"a question")
        assert await said(plugin) == b"a question"
        os.kill(relayer_of(os.getpid()), signal.SIGKILL)
        assert await said(runtime) == await said(plugin) == b""
        async with asyncio.timeout(PATIENCE):
            ended = await relaying.wait_closed()
    assert ended.end.by_first is None
    assert ended.end.reason == "the relay process ended, killed by SIGKILL"
    relaying.close("too late, and harmless")
    with relayed(relays, listening) as (runtime, plugin, relaying):
        runtime.send(b"again")
        assert await said(plugin) == b"again"


async def test_a_signal_without_a_name_is_told_by_its_number(relays: Relays) -> None:
    with relayed(relays, Listening()) as (_, plugin, relaying):
        os.kill(relayer_of(os.getpid()), signal.SIGRTMIN + 6)
        assert await said(plugin) == b""
        async with asyncio.timeout(PATIENCE):
            ended = await relaying.wait_closed()
    assert ended.end.reason == "the relay process ended, killed by signal 40"


async def test_one_that_stands_still_is_killed_when_it_is_to_close_a_connection(
    relays: Relays, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relays_module, "CLOSE_S", 0.1)
    with relayed(relays, Listening()) as (runtime, plugin, relaying):
        runtime.send(b"a question")
        assert await said(plugin) == b"a question"
        os.kill(relayer_of(os.getpid()), signal.SIGSTOP)
        relaying.close("enough")
        assert await said(runtime) == await said(plugin) == b""
        async with asyncio.timeout(PATIENCE):
            ended = await relaying.wait_closed()
    assert "SIGKILL" in ended.end.reason


async def test_one_that_has_much_to_tell_is_left_to_tell_it(
    relays: Relays, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(Listening):
        def receive(self, forth: bool, data: bytes, arrived_ns: int, passed_ns: int) -> None:
            super().receive(forth, data, arrived_ns, passed_ns)
            sleep(0.02)

    monkeypatch.setattr(relays_module, "CLOSE_S", 0.05)
    listening = Slow()
    with relayed(relays, listening) as (runtime, plugin, relaying):
        # Nothing is heard meanwhile: this loop does not run.
        for sock in (runtime, plugin):
            sock.setblocking(True)
        for _ in range(40):
            runtime.sendall(b"x" * 8000)
            left = 8000
            while left:
                left -= len(plugin.recv(left))
        relaying.close("enough")
        async with asyncio.timeout(PATIENCE):
            ended = await relaying.wait_closed()
    assert ended.end.reason == "enough"
    assert sum(len(data) for _, data in listening.heard_data) == 40 * 8000


async def test_signals_that_are_for_the_tap_do_not_end_it(relays: Relays) -> None:
    with relayed(relays, Listening()) as (runtime, plugin, _):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(relayer_of(os.getpid()), number)
        runtime.send(b"still there")
        assert await said(plugin) == b"still there"


async def test_closes_what_it_is_told_to(relays: Relays) -> None:
    with relayed(relays, Listening()) as (runtime, plugin, relaying):
        relaying.close("enough")
        assert await said(runtime) == await said(plugin) == b""
        async with asyncio.timeout(PATIENCE):
            ended = await relaying.wait_closed()
    assert (ended.end.by_first, ended.end.reason) == (None, "enough")


async def test_its_end_closes_all_connections() -> None:
    relays = Relays()
    await relays.start()
    with relayed(relays, Listening()) as (runtime, plugin, relaying):
        relays.close()
        assert await said(runtime) == await said(plugin) == b""
        assert (await relaying.wait_closed()).end.reason == "the tap has ended"


async def test_a_listener_that_fails_hears_no_more_and_the_relay_goes_on(relays: Relays) -> None:
    class Failing(Listening):
        def receive(self, forth: bool, data: bytes, arrived_ns: int, passed_ns: int) -> None:
            raise ValueError("on purpose")

    listening = Failing()
    with relayed(relays, listening) as (runtime, plugin, _):
        runtime.send(b"one")
        assert await said(plugin) == b"one"
        async with asyncio.timeout(PATIENCE):
            await listening.something.wait()
        runtime.send(b"two")
        assert await said(plugin) == b"two"
    assert len(listening.words) == 1
    assert listening.words[0].endswith("an internal error: ValueError: on purpose")


async def test_where_it_can_have_no_more_files_the_connection_is_closed(relays: Relays) -> None:
    resource.prlimit(relayer_of(os.getpid()), resource.RLIMIT_NOFILE, (1, 1))
    with relayed(relays, Listening()) as (runtime, plugin, relaying):
        assert await said(runtime) == await said(plugin) == b""
        async with asyncio.timeout(PATIENCE):
            ended = await relaying.wait_closed()
    assert ended.end.reason == "the relay process has too many open files"


async def test_what_cannot_be_handed_over_is_closed(
    relays: Relays, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ETOOMANYREFS, os.strerror(errno.ETOOMANYREFS))

    monkeypatch.setattr(socket, "send_fds", refuse)
    with relayed(relays, Listening()) as (runtime, plugin, relaying):
        assert runtime.recv(1) == plugin.recv(1) == b""
        ended = await relaying.wait_closed()
    assert ended.end.reason == "the sockets could not be handed over: " + (
        os.strerror(errno.ETOOMANYREFS).lower()
    )


async def test_an_order_of_any_size_arrives_with_its_sockets(relays: Relays) -> None:
    fault = Fault("x" * (8 << 20), frozenset(("CreateContainer",)), 1.0)
    (runtime, ours), (theirs, plugin) = socket.socketpair(), socket.socketpair()
    with runtime, plugin:
        relaying = relays.begin(ours, theirs, Listening(), Faults(drops=(fault,)))
        async with asyncio.timeout(PATIENCE):
            ended = await relaying.wait_closed()
    # There is no such event.
    assert "UsageError" in ended.end.reason


_STOPPED = """
import asyncio, os, signal, socket, sys
from nri_scope.tap.relay_process import Relays
from tests.tap.test_relay_process import Listening

async def main():
    relays = Relays()
    await relays.start()
    listening = Listening()
    ends = [socket.socket(fileno=int(one)) for one in sys.argv[1:]]
    relaying = relays.begin(*ends, listening)
    print("ready", flush=True)
    await relaying.wait_closed()
    heard = sum(len(data) for _, data in listening.heard_data)
    print(heard, *listening.words, flush=True)

asyncio.run(main())
"""


@pytest.fixture
def apart() -> Iterator[tuple[subprocess.Popen[str], socket.socket, socket.socket]]:
    """A process that has a relay, and both of its ends."""
    (runtime, ours), (theirs, plugin) = socket.socketpair(), socket.socketpair()
    with runtime, plugin, ours, theirs:
        descriptors = (ours.fileno(), theirs.fileno())
        with subprocess.Popen(
            [sys.executable, "-c", _STOPPED, *map(str, descriptors)],
            pass_fds=descriptors,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        ) as process:
            ours.close()
            theirs.close()
            for sock in (runtime, plugin):
                sock.settimeout(PATIENCE)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            try:
                yield process, runtime, plugin
            finally:
                process.kill()


def test_while_the_other_process_stands_still_relaying_goes_on_and_only_so_much_is_kept(
    apart: tuple[subprocess.Popen[str], socket.socket, socket.socket],
) -> None:
    process, runtime, plugin = apart
    relayer = relayer_of(process.pid)
    os.kill(process.pid, signal.SIGSTOP)
    block, count = bytes(1 << 17), 640
    for _ in range(count):
        runtime.sendall(block)
        left = len(block)
        while left:
            left -= len(plugin.recv(left))
    (memory,) = (
        int(line.split()[1])
        for line in Path(f"/proc/{relayer}/status").read_text().splitlines()
        if line.startswith("VmRSS:")
    )
    assert memory < 160 << 10
    os.kill(process.pid, signal.SIGCONT)
    runtime.close()
    plugin.close()
    assert process.stdout is not None
    heard, _, words = process.stdout.readline().partition(" ")
    assert 32 << 20 < int(heard) < count * len(block)
    assert words.startswith("recording stopped: the recorder could not follow")


def test_when_the_other_process_is_killed_both_ends_see_a_disconnect(
    apart: tuple[subprocess.Popen[str], socket.socket, socket.socket],
) -> None:
    process, runtime, plugin = apart
    relayer = relayer_of(process.pid)
    process.kill()
    assert runtime.recv(1) == plugin.recv(1) == b""
    until = monotonic() + PATIENCE
    while is_running(relayer):
        assert monotonic() < until, "it was left behind"
        sleep(0.01)


def test_one_that_stands_still_ends_with_the_other_process(
    apart: tuple[subprocess.Popen[str], socket.socket, socket.socket],
) -> None:
    process, runtime, plugin = apart
    os.kill(relayer_of(process.pid), signal.SIGSTOP)
    process.kill()
    assert runtime.recv(1) == plugin.recv(1) == b""


async def test_where_it_cannot_be_started_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(UsageError, match="cannot be started: /nowhere/python: no such file"):
        await Relays().start()


async def test_without_an_interpreter_to_run_it_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", None)
    with pytest.raises(UsageError, match="path of the Python interpreter is unknown"):
        await Relays().start()


async def test_one_that_ends_at_once_is_told_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "start.py"
    program.write_text("import sys; sys.exit(3)")
    monkeypatch.setattr(child_module, "START", program)
    with pytest.raises(UsageError, match="the relay process ended, exit status 3"):
        await Relays().start()
