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


class ListListener:
    """Stores the relayed data and the reasons why recording stopped."""

    def __init__(self) -> None:
        self.received: list[tuple[bool, bytes]] = []
        self.reasons: list[str] = []
        self.changed = asyncio.Event()

    def receive(self, forth: bool, data: bytes, arrived_ns: int, passed_ns: int) -> None:
        assert 0 < arrived_ns <= passed_ns
        self.received.append((forth, data))
        self.changed.set()

    def expect_dropped(self, conn_id: int, stream_id: int, reason: str) -> None:
        raise AssertionError(reason)

    def stop_recording(self, reason: str, at_ns: int | None = None) -> None:
        self.reasons.append(reason)
        self.changed.set()


@contextmanager
def relayed(
    relays: Relays, listener: ListListener
) -> Iterator[tuple[socket.socket, socket.socket, Relaying]]:
    """Sockets of a runtime and a plugin, and the relay between them."""
    (runtime, ours), (theirs, plugin) = socket.socketpair(), socket.socketpair()
    with runtime, plugin:
        for sock in (runtime, plugin):
            sock.setblocking(False)
        yield runtime, plugin, relays.begin(ours, theirs, listener)


async def receive_some(sock: socket.socket) -> bytes:
    """Return the next data; b"" at the end of the stream."""
    async with asyncio.timeout(PATIENCE):
        return await asyncio.get_running_loop().sock_recv(sock, 1 << 16)


async def test_relayed_data_and_the_end_are_reported(relays: Relays) -> None:
    listener = ListListener()
    with relayed(relays, listener) as (runtime, plugin, relaying):
        runtime.send(b"a question")
        assert await receive_some(plugin) == b"a question"
        plugin.send(b"an answer")
        assert await receive_some(runtime) == b"an answer"
        plugin.close()
        assert await receive_some(runtime) == b""
        runtime.close()
        async with asyncio.timeout(PATIENCE):
            ended = await relaying.wait_closed()
    assert listener.received == [(True, b"a question"), (False, b"an answer")]
    assert (ended.end.by_first, ended.end.reason, ended.faults) == (False, "", "")


async def test_a_killed_relay_process_disconnects_both_ends_and_is_replaced(
    relays: Relays,
) -> None:
    listener = ListListener()
    with relayed(relays, listener) as (runtime, plugin, relaying):
        runtime.send(b"a question")
        assert await receive_some(plugin) == b"a question"
        os.kill(relayer_of(os.getpid()), signal.SIGKILL)
        assert await receive_some(runtime) == await receive_some(plugin) == b""
        async with asyncio.timeout(PATIENCE):
            ended = await relaying.wait_closed()
    assert ended.end.by_first is None
    assert ended.end.reason == "the relay process ended, killed by SIGKILL"
    relaying.close("too late, and harmless")
    with relayed(relays, listener) as (runtime, plugin, relaying):
        runtime.send(b"again")
        assert await receive_some(plugin) == b"again"


async def test_a_signal_without_a_name_is_reported_by_number(relays: Relays) -> None:
    with relayed(relays, ListListener()) as (_, plugin, relaying):
        os.kill(relayer_of(os.getpid()), signal.SIGRTMIN + 6)
        assert await receive_some(plugin) == b""
        async with asyncio.timeout(PATIENCE):
            ended = await relaying.wait_closed()
    assert ended.end.reason == "the relay process ended, killed by signal 40"


async def test_a_stopped_relay_process_is_killed_if_it_does_not_close_a_connection(
    relays: Relays, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relays_module, "CLOSE_S", 0.1)
    with relayed(relays, ListListener()) as (runtime, plugin, relaying):
        runtime.send(b"a question")
        assert await receive_some(plugin) == b"a question"
        os.kill(relayer_of(os.getpid()), signal.SIGSTOP)
        relaying.close("enough")
        assert await receive_some(runtime) == await receive_some(plugin) == b""
        async with asyncio.timeout(PATIENCE):
            ended = await relaying.wait_closed()
    assert "SIGKILL" in ended.end.reason


async def test_a_slow_listener_receives_all_data_before_the_end(
    relays: Relays, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(ListListener):
        def receive(self, forth: bool, data: bytes, arrived_ns: int, passed_ns: int) -> None:
            super().receive(forth, data, arrived_ns, passed_ns)
            sleep(0.02)

    monkeypatch.setattr(relays_module, "CLOSE_S", 0.05)
    listener = Slow()
    with relayed(relays, listener) as (runtime, plugin, relaying):
        # The listener receives nothing meanwhile: the event loop does not run.
        for sock in (runtime, plugin):
            sock.setblocking(True)
        for _ in range(40):
            runtime.sendall(b"x" * 8000)
            remaining = 8000
            while remaining:
                remaining -= len(plugin.recv(remaining))
        relaying.close("enough")
        async with asyncio.timeout(PATIENCE):
            ended = await relaying.wait_closed()
    assert ended.end.reason == "enough"
    assert sum(len(data) for _, data in listener.received) == 40 * 8000


async def test_stop_signals_do_not_end_the_relay_process(relays: Relays) -> None:
    with relayed(relays, ListListener()) as (runtime, plugin, _):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(relayer_of(os.getpid()), number)
        runtime.send(b"still there")
        assert await receive_some(plugin) == b"still there"


async def test_closing_a_relay_closes_both_ends(relays: Relays) -> None:
    with relayed(relays, ListListener()) as (runtime, plugin, relaying):
        relaying.close("enough")
        assert await receive_some(runtime) == await receive_some(plugin) == b""
        async with asyncio.timeout(PATIENCE):
            ended = await relaying.wait_closed()
    assert (ended.end.by_first, ended.end.reason) == (None, "enough")


async def test_closing_the_relay_process_closes_all_connections() -> None:
    relays = Relays()
    await relays.start()
    with relayed(relays, ListListener()) as (runtime, plugin, relaying):
        relays.close()
        assert await receive_some(runtime) == await receive_some(plugin) == b""
        assert (await relaying.wait_closed()).end.reason == "the tap has ended"


async def test_a_failed_listener_receives_no_more_data_and_the_relay_continues(
    relays: Relays,
) -> None:
    class Failing(ListListener):
        def receive(self, forth: bool, data: bytes, arrived_ns: int, passed_ns: int) -> None:
            raise ValueError("on purpose")

    listener = Failing()
    with relayed(relays, listener) as (runtime, plugin, _):
        runtime.send(b"one")
        assert await receive_some(plugin) == b"one"
        async with asyncio.timeout(PATIENCE):
            await listener.changed.wait()
        runtime.send(b"two")
        assert await receive_some(plugin) == b"two"
    assert len(listener.reasons) == 1
    assert listener.reasons[0].endswith("an internal error: ValueError: on purpose")


async def test_a_connection_is_closed_at_the_limit_of_open_files(relays: Relays) -> None:
    resource.prlimit(relayer_of(os.getpid()), resource.RLIMIT_NOFILE, (1, 1))
    with relayed(relays, ListListener()) as (runtime, plugin, relaying):
        assert await receive_some(runtime) == await receive_some(plugin) == b""
        async with asyncio.timeout(PATIENCE):
            ended = await relaying.wait_closed()
    assert ended.end.reason == "the relay process has too many open files"


async def test_sockets_that_cannot_be_passed_on_are_closed(
    relays: Relays, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ETOOMANYREFS, os.strerror(errno.ETOOMANYREFS))

    monkeypatch.setattr(socket, "send_fds", refuse)
    with relayed(relays, ListListener()) as (runtime, plugin, relaying):
        assert runtime.recv(1) == plugin.recv(1) == b""
        ended = await relaying.wait_closed()
    assert ended.end.reason == "the sockets could not be handed over: " + (
        os.strerror(errno.ETOOMANYREFS).lower()
    )


async def test_a_large_order_arrives_with_its_sockets(relays: Relays) -> None:
    fault = Fault("x" * (8 << 20), frozenset(("CreateContainer",)), 1.0)
    (runtime, ours), (theirs, plugin) = socket.socketpair(), socket.socketpair()
    with runtime, plugin:
        relaying = relays.begin(ours, theirs, ListListener(), Faults(drops=(fault,)))
        async with asyncio.timeout(PATIENCE):
            ended = await relaying.wait_closed()
    # "x" * (8 << 20) is not a valid event.
    assert "UsageError" in ended.end.reason


_TAP_PROCESS = """
import asyncio, os, signal, socket, sys
from nri_scope.tap.relay_process import Relays
from tests.tap.test_relay_process import ListListener

async def main():
    relays = Relays()
    await relays.start()
    listener = ListListener()
    ends = [socket.socket(fileno=int(one)) for one in sys.argv[1:]]
    relaying = relays.begin(*ends, listener)
    print("ready", flush=True)
    await relaying.wait_closed()
    received = sum(len(data) for _, data in listener.received)
    print(received, *listener.reasons, flush=True)

asyncio.run(main())
"""


@pytest.fixture
def tap_process() -> Iterator[tuple[subprocess.Popen[str], socket.socket, socket.socket]]:
    """A process with a relay, and the sockets of runtime and plugin."""
    (runtime, ours), (theirs, plugin) = socket.socketpair(), socket.socketpair()
    with runtime, plugin, ours, theirs:
        descriptors = (ours.fileno(), theirs.fileno())
        with subprocess.Popen(
            [sys.executable, "-c", _TAP_PROCESS, *map(str, descriptors)],
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


def test_a_stopped_tap_keeps_relaying_with_bounded_memory(
    tap_process: tuple[subprocess.Popen[str], socket.socket, socket.socket],
) -> None:
    process, runtime, plugin = tap_process
    relayer = relayer_of(process.pid)
    os.kill(process.pid, signal.SIGSTOP)
    block, count = bytes(1 << 17), 640
    for _ in range(count):
        runtime.sendall(block)
        remaining = len(block)
        while remaining:
            remaining -= len(plugin.recv(remaining))
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
    received, _, reason = process.stdout.readline().partition(" ")
    assert 32 << 20 < int(received) < count * len(block)
    assert reason.startswith("recording stopped: the recorder could not follow")


def test_a_killed_tap_disconnects_both_ends(
    tap_process: tuple[subprocess.Popen[str], socket.socket, socket.socket],
) -> None:
    process, runtime, plugin = tap_process
    relayer = relayer_of(process.pid)
    process.kill()
    assert runtime.recv(1) == plugin.recv(1) == b""
    until = monotonic() + PATIENCE
    while is_running(relayer):
        assert monotonic() < until, "the relay process still runs"
        sleep(0.01)


def test_a_stopped_relay_process_ends_with_the_tap(
    tap_process: tuple[subprocess.Popen[str], socket.socket, socket.socket],
) -> None:
    process, runtime, plugin = tap_process
    os.kill(relayer_of(process.pid), signal.SIGSTOP)
    process.kill()
    assert runtime.recv(1) == plugin.recv(1) == b""


async def test_a_failed_start_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(UsageError, match="cannot be started: /nowhere/python: no such file"):
        await Relays().start()


async def test_an_unknown_interpreter_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", None)
    with pytest.raises(UsageError, match="path of the Python interpreter is unknown"):
        await Relays().start()


async def test_an_immediate_exit_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "start.py"
    program.write_text("import sys; sys.exit(3)")
    monkeypatch.setattr(child_module, "START", program)
    with pytest.raises(UsageError, match="the relay process ended, exit status 3"):
        await Relays().start()
