# SPDX-License-Identifier: Apache-2.0
"""Processes of launched plugins, from their start until no process is left."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from nri_scope.errors import UsageError
from nri_scope.process.child import describe_exit
from nri_scope.runtime.command import command_of
from nri_scope.runtime.output import LAST_KEPT, OnOutput, ProcessOutput, Stream
from nri_scope.runtime.plugin_process import Process, launch
from nri_scope.transport.loop import loop_factory

from .scripts import ROOT, children, descriptors, executable, is_running, python


@contextlib.asynccontextmanager
async def launched(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    on_output: OnOutput | None = None,
) -> AsyncIterator[tuple[Process, socket.socket]]:
    """Start a process, yield it with its connection, and kill it afterwards."""
    command = command_of(argv, "10", "name", environment)
    if cwd is not None:
        command = replace(command, cwd=str(cwd))
    process, connection = await launch(command, on_output)
    with connection:
        try:
            yield process, connection
        finally:
            connection.close()
            await process.kill()


async def ended(argv: Sequence[str], *, cwd: Path | None = None) -> Process:
    """Return a process that has ended by itself."""
    async with launched(argv, cwd=cwd) as (process, _):
        await process.wait_exit()
    return process


def stdout(output: ProcessOutput) -> list[str]:
    return output.last(Stream.STDOUT, LAST_KEPT)


# -- environment --------------------------------------------------------------------------------


async def test_plugin_gets_its_connection_and_no_other_descriptor() -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    try:
        async with launched(
            python(
                "import os\n"
                "os.write(3, b'connected')\n"
                "print(*(os.readlink(f'/proc/self/fd/{n}') for n in range(4)), sep='\\n')\n"
                "print([n for n in range(4, 100) if os.path.exists(f'/proc/self/fd/{n}')])"
            )
        ) as (process, connection):
            await process.wait_exit()
            assert connection.recv(100) == b"connected"
    finally:
        os.close(reading)
        os.close(writing)
    nothing, out, err, inherited, others = stdout(process.output)
    assert nothing == "/dev/null"
    assert [words.partition(":")[0] for words in (out, err, inherited)] == [
        "pipe",
        "pipe",
        "socket",
    ]
    assert others == "[]"


async def test_plugin_gets_three_variables_and_added_ones() -> None:
    argv = ["cat", "/proc/self/environ"]
    async with launched(argv, environment={"LOG": "\udcff=€"}) as (process, _):
        await process.wait_exit()
    (line,) = stdout(process.output)
    assert line.split("\0") == [
        "NRI_PLUGIN_NAME=name",
        "NRI_PLUGIN_IDX=10",
        "NRI_PLUGIN_SOCKET=3",
        "LOG=\\xff=€",
        "",
    ]


async def test_plugin_runs_in_the_given_or_current_folder(tmp_path: Path) -> None:
    assert stdout((await ended(["pwd"], cwd=tmp_path)).output) == [str(tmp_path)]
    assert stdout((await ended(["pwd"])).output) == [str(Path.cwd())]


async def test_plugin_starts_with_default_signal_handling() -> None:
    former = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    try:
        process = await ended(["cat", "/proc/self/status"])
    finally:
        signal.signal(signal.SIGUSR1, former)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    status = dict(line.split(":\t", 1) for line in stdout(process.output) if ":\t" in line)
    # Signals 32 and 33 are internal to glibc, whose posix_spawn makes children ignore them.
    found = {name: int(status[name], 16) & ~(0b11 << 31) for name in ("SigBlk", "SigIgn", "SigCgt")}
    assert found == {"SigBlk": 0, "SigIgn": 0, "SigCgt": 0}


async def test_plugin_leads_its_own_session() -> None:
    process = await ended(python("import os; print(os.getsid(0), os.getpgid(0), os.getpid())"))
    assert stdout(process.output) == [" ".join([str(process.pid)] * 3)]


# -- invalid commands ---------------------------------------------------------------------------


async def test_command_that_the_system_rejects_is_a_usage_error(tmp_path: Path) -> None:
    before = descriptors()
    for argv, words in [
        (
            [str(executable(tmp_path / "lost", "#! /no/such -x\n"))],
            "interpreter /no/such does not exist",
        ),
        (
            [str(executable(tmp_path / "text", "just text"))],
            "exec format error; a plugin is a program",
        ),
        ([str(executable(tmp_path / "empty", ""))], "exec format error"),
        (["true", "x" * 3_000_000], "argument list too long"),
    ]:
        with pytest.raises(UsageError) as caught:
            await launch(command_of(argv, "10", "name"))
        assert words in str(caught.value)
    for folder, words in [
        (tmp_path / "none", "none: cannot run a plugin in this folder: no such file"),
        (tmp_path / "text", "text: cannot run a plugin in this folder: not a directory"),
    ]:
        with pytest.raises(UsageError) as caught:
            await launch(replace(command_of(["true"], "10", "name"), cwd=str(folder)))
        assert words in str(caught.value)
    assert descriptors() == before
    assert not children()


async def test_missing_dynamic_loader_is_reported(tmp_path: Path) -> None:
    program = bytearray(Path("/bin/cat").resolve().read_bytes())
    at = program.find(b"/ld-")
    assert at > 0, "cat is linked dynamically"
    program[at : at + 4] = b"/xx-"
    path = executable(tmp_path / "foreign", "")
    path.write_bytes(program)
    with pytest.raises(UsageError, match="its dynamic loader does not exist"):
        await launch(command_of([str(path)], "10", "name"))


# -- output -------------------------------------------------------------------------------------


async def test_output_is_reported_with_stream_and_time() -> None:
    reported: list[tuple[Stream, str, int]] = []
    async with launched(
        ["sh", "-c", "echo one; printf 'no\\377end' >&2"],
        on_output=lambda *line: reported.append(line),
    ) as (process, _):
        await process.wait_exit()
    assert sorted((stream, text) for stream, text, _ in reported) == [
        (Stream.STDERR, "no\\xffend"),
        (Stream.STDOUT, "one"),
    ]
    assert all(mono_ns > 0 for *_, mono_ns in reported)


async def test_lines_are_reported_while_the_plugin_runs() -> None:
    lines_received: asyncio.Queue[str] = asyncio.Queue()
    echo = "import socket; s = socket.socket(fileno=3)\nwhile 1: print(s.recv(9), flush=True)"
    async with launched(
        python(echo), on_output=lambda stream, line, mono_ns: lines_received.put_nowait(line)
    ) as (_, connection):
        for text in (b"first", b"second"):
            connection.send(text)
            assert await lines_received.get() == str(text)


async def test_exception_in_on_output_is_passed_to_the_loop_and_ignored() -> None:
    failed: list[object] = []

    def fail(stream: Stream, line: str, mono_ns: int) -> None:
        raise ValueError(line)

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: failed.append(str(context["exception"])))
    try:
        async with launched(["sh", "-c", "echo one; echo two; exit 3"], on_output=fail) as (
            process,
            _,
        ):
            await process.wait_exit()
    finally:
        loop.set_exception_handler(None)
    assert failed == ["one", "two"]
    assert stdout(process.output) == ["one", "two"]
    assert process.exit_words == "exit status 3"


async def test_flood_of_output_does_not_block_and_is_reported_up_to_a_limit() -> None:
    count = 20_000_000
    reported: list[str] = []
    argv = ["sh", "-c", f"yes | head -n {count}; echo the last words >&2"]
    async with launched(argv, on_output=lambda stream, text, at: reported.append(text)) as (
        process,
        _,
    ):
        await process.wait_exit()
    assert process.exit_words == "exit status 0"
    assert process.output.left_out > 0
    assert len(reported) + process.output.left_out == count + 1
    assert process.output.last(Stream.STDERR, 1) == ["the last words"]


# -- end ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 0", "exit status 0"),
        ("exit 3", "exit status 3"),
        ("kill -SEGV $$", "killed by SIGSEGV"),
        ("kill -KILL $$", "killed by SIGKILL"),
        ("kill -40 $$", "killed by signal 40"),
    ],
)
async def test_exit_of_the_plugin_is_described(script: str, words: str) -> None:
    process = await ended(["sh", "-c", script])
    assert process.exit_words == words
    assert not process.ended_by_us
    assert process.explain("over") == f"over: the plugin ended, {words}"


def test_description_of_exit_codes() -> None:
    assert [describe_exit(code) for code in (0, 3, -11, -40)] == [
        "exit status 0",
        "exit status 3",
        "killed by SIGSEGV",
        "killed by signal 40",
    ]


async def test_explanation_has_the_last_output() -> None:
    script = "exec >&2; seq 5; echo ' ^^^'; printf 'red \\033[31m'; exit 1"
    process = await ended(["sh", "-c", script])
    assert process.explain("closed by the peer") == (
        "closed by the peer: the plugin ended, exit status 1; "
        "its last output: 4 | 5 | red \\x1b[31m"
    )


async def test_explanation_has_the_error_above_the_usage_of_a_go_program() -> None:
    flags = "".join(f"  -flag{number} string\n    \twords\n" for number in range(20))
    for usage in ("Usage of ./thing:", "Usage:"):
        text = f"starting\nflag provided but not defined: -x\n{usage}\n{flags}"
        process = await ended(["sh", "-c", 'printf %s "$0" >&2; exit 2', text])
        assert process.explain("closed").endswith(
            "its last output: starting | flag provided but not defined: -x"
        )
    # A usage that precedes the error remains as it is.
    text = "one\nUsage:\n  thing\nthing: error: bad"
    process = await ended(["sh", "-c", 'printf %s "$0" >&2; exit 2', text])
    assert process.explain("closed").endswith("Usage: | thing | thing: error: bad")


async def test_plugin_is_ended_with_sigkill() -> None:
    script = (
        "import signal; signal.signal(15, signal.SIG_IGN); print(1, flush=True); signal.pause()"
    )
    lines_received = asyncio.Event()
    async with launched(python(script), on_output=lambda *line: lines_received.set()) as (
        process,
        _,
    ):
        await lines_received.wait()
        assert process.running
    assert (process.exit_words, process.ended_by_us) == ("killed by SIGKILL", True)
    assert not is_running(process.pid)
    assert process.explain("no answer within 2 s") == "no answer within 2 s"
    assert not process.left_behind


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("on_signal", "stays", "grace_s", "words"),
    [
        ("SIG_DFL", 0, 60, "ended by itself when its connection was closed, exit status 3"),
        ("SIG_DFL", 1000, 0.2, "ended by SIGTERM"),
        ("default_int_handler", 1000, 5, "ended on SIGTERM, exit status 4"),
        ("SIG_IGN", 1000, 0.2, "was killed, as it ignored SIGTERM"),
        ("SIG_IGN", 1000, 0, "was killed"),
    ],
)
async def test_a_plugin_may_end_by_itself_before_it_is_ended(
    on_signal: str, stays: int, grace_s: float, words: str
) -> None:
    script = f"""
import signal, socket, sys, time
signal.signal(15, signal.{on_signal})
print(1, flush=True)
try:
    socket.socket(fileno=3).recv(9)
    time.sleep({stays})
except KeyboardInterrupt:
    sys.exit(4)
sys.exit(3)
"""
    ready = asyncio.Event()
    async with launched(python(script), on_output=lambda *line: ready.set()) as (
        process,
        connection,
    ):
        await ready.wait()
        assert not process.ending_words
        process.closing = bool(grace_s)
        connection.close()
        await process.stop(grace_s)
        await process.wait_gone()
    assert process.ending_words == words
    assert process.ended_by_us
    assert process.explain("over") == "over"
    assert not is_running(process.pid)


LEAVING = """
import os, socket, subprocess, sys, time
plain = subprocess.Popen(["sleep", "1000"])
# This process inherits the connection, and ends when it closes.
heir = subprocess.Popen(["cat"], stdin=3)
reading, writing = os.pipe()
if not os.fork():
    os.setsid()
    if not os.fork():
        os.setsid()
        os.write(writing, str(os.getpid()).encode())
        os.closerange(0, 10)
        os.execve("/bin/sleep", ["a daemon", "1000"], {})
    os._exit(0)
print(plain.pid, heir.pid, int(os.read(reading, 100)), flush=True)
LAST
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("last", ["socket.socket(fileno=3).recv(100)", "os._exit(0)"])
async def test_processes_left_behind_are_found_reported_and_killed(last: str) -> None:
    lines_received: asyncio.Queue[str] = asyncio.Queue()
    async with launched(
        python(LEAVING.replace("LAST", last)),
        on_output=lambda stream, line, mono_ns: lines_received.put_nowait(line),
    ) as (process, _):
        plain, heir, daemon = map(int, (await lines_received.get()).split())
        assert is_running(plain)
    # The daemon may be found before its execve.
    left = {(one.pid, one.detached) for one in process.left_behind}
    assert left == {(plain, False), (daemon, True)}
    assert "sleep 1000" in [one.command for one in process.left_behind]
    assert not any(is_running(pid) for pid in (plain, heir, daemon))


async def test_other_processes_are_not_killed() -> None:
    with subprocess.Popen(["sh", "-c", "sleep 1000 & echo $!"], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        orphan = int(other.stdout.readline())
    child = subprocess.Popen(["sleep", "1000"])
    try:
        async with launched(["sleep", "1000"]):
            pass
        assert child.poll() is None
        assert is_running(orphan)
        assert orphan not in children()
    finally:
        os.kill(orphan, signal.SIGKILL)
        child.kill()
        child.wait()


async def test_repeated_launches_leak_nothing() -> None:
    await ended(["true"])
    before = descriptors()
    for argv in (["sleep", "1000"], ["sleep", "1000"], ["sh", "-c", "exit 3"]):
        async with launched(argv) as (process, _):
            assert children()
        assert descriptors() == before
        assert not children()
        assert not is_running(process.pid)


async def test_cancelled_launch_leaks_nothing() -> None:
    before = descriptors()
    task = asyncio.create_task(launch(command_of(["sleep", "1000"], "10", "name")))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert descriptors() == before
    assert not children()


async def test_keeper_ignores_signals_and_ends_with_the_runtime() -> None:
    async with launched(["sleep", "1000"]) as (process, _):
        (keeper,) = children()
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            os.kill(keeper, number)
    assert process.ended_by_us
    assert not children()


async def test_plugin_ends_even_if_its_keeper_was_killed() -> None:
    before = descriptors()
    async with launched(["sleep", "1000"]) as (process, _):
        (keeper,) = children()
        watched = os.pidfd_open(process.pid)
        os.kill(keeper, signal.SIGKILL)
        await process.wait_gone()
        assert select.select([watched], [], [], 60)[0]
        os.close(watched)
    assert not process.running
    assert descriptors() == before


def test_plugin_ends_with_a_killed_runtime() -> None:
    program = f"""
import asyncio, os, signal, sys
sys.path.insert(0, {str(ROOT)!r})
from nri_scope.runtime.command import command_of
from nri_scope.runtime.plugin_process import launch
async def main():
    process, _ = await launch(command_of(["sleep", "1000"], "10", "name"))
    print(process.pid, flush=True)
    sys.stdin.read()
asyncio.run(main())
"""
    argv = [sys.executable, "-c", program]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as runtime:
        assert runtime.stdout is not None
        plugin = int(runtime.stdout.readline())
        watched = os.pidfd_open(plugin)
        runtime.kill()
    assert select.select([watched], [], [], 60)[0]
    os.close(watched)


def test_plugin_runs_on_the_other_event_loop() -> None:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        process = runner.run(ended(["sh", "-c", "echo out; exit 3"]))
    assert process.exit_words == "exit status 3"
    assert stdout(process.output) == ["out"]
    assert not children()


async def test_exit_status_is_known_with_sigchld_ignored() -> None:
    former = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        process = await ended(["sh", "-c", "true; exit 3"])
    finally:
        signal.signal(signal.SIGCHLD, former)
    assert process.exit_words == "exit status 3"


def test_keeper_module_is_not_imported_by_the_package() -> None:
    found = subprocess.check_output(
        [
            sys.executable,
            "-c",
            "import json, sys, nri_scope.runtime; print(json.dumps([*sys.modules]))",
        ],
        text=True,
        cwd=ROOT,
    )
    assert "nri_scope.process.launched_process" not in json.loads(found)
