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
from pathlib import Path

import pytest

from nri_scope.errors import UsageError
from nri_scope.process.child import describe_exit
from nri_scope.runtime.command import command_of
from nri_scope.runtime.output import OnOutput, Output, Stream
from nri_scope.runtime.plugin_process import Process, launch
from nri_scope.transport.loop import loop_factory

from .scripts import ROOT, children, descriptors, executable, is_running, python


@contextlib.asynccontextmanager
async def launched(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    on_output: OnOutput | None = None,
) -> AsyncIterator[tuple[Process, socket.socket]]:
    """Start a process, yield it with its connection, and check that nothing is left of it."""
    command = command_of(argv, "10", "name", environment, cwd)
    process, connection = await launch(command, on_output)
    with connection:
        try:
            yield process, connection
        finally:
            connection.close()
            await process.kill()


async def ended(argv: Sequence[str], *, cwd: str | Path | None = None) -> Process:
    """Return a process that has ended by itself."""
    async with launched(argv, cwd=cwd) as (process, _):
        await process.wait_exit()
    return process


def stdout(output: Output) -> list[str]:
    return [line.text for line in output.lines if line.stream is Stream.STDOUT]


# -- what it gets -------------------------------------------------------------------------------


async def test_it_gets_its_connection_and_no_other_descriptor() -> None:
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


async def test_it_gets_three_variables_and_what_is_added() -> None:
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


async def test_it_runs_in_the_given_folder_or_in_ours(tmp_path: Path) -> None:
    assert stdout((await ended(["pwd"], cwd=tmp_path)).output) == [str(tmp_path)]
    assert stdout((await ended(["pwd"])).output) == [str(Path.cwd())]


async def test_it_handles_signals_as_if_nobody_had_changed_that() -> None:
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


async def test_it_leads_a_session_of_its_own() -> None:
    process = await ended(python("import os; print(os.getsid(0), os.getpgid(0), os.getpid())"))
    assert stdout(process.output) == [" ".join([str(process.pid)] * 3)]


# -- what it cannot be --------------------------------------------------------------------------


async def test_what_the_system_refuses_is_a_usage_error(tmp_path: Path) -> None:
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
            await launch(command_of(["true"], "10", "name", cwd=folder))
        assert words in str(caught.value)
    assert descriptors() == before
    assert not children()


async def test_program_for_a_system_with_another_loader_is_told(tmp_path: Path) -> None:
    program = bytearray(Path("/bin/cat").resolve().read_bytes())
    at = program.find(b"/ld-")
    assert at > 0, "cat is linked dynamically"
    program[at : at + 4] = b"/xx-"
    path = executable(tmp_path / "foreign", "")
    path.write_bytes(program)
    with pytest.raises(UsageError, match="its dynamic loader does not exist"):
        await launch(command_of([str(path)], "10", "name"))


# -- what it prints -----------------------------------------------------------------------------


async def test_what_it_prints_is_told_with_stream_and_time() -> None:
    told: list[tuple[Stream, str, int]] = []
    async with launched(
        ["sh", "-c", "echo one; printf 'no\\377end' >&2"], on_output=lambda *line: told.append(line)
    ) as (process, _):
        await process.wait_exit()
    assert sorted((stream, text) for stream, text, _ in told) == [
        (Stream.STDERR, "no\\xffend"),
        (Stream.STDOUT, "one"),
    ]
    assert [(line.stream, line.text, line.mono_ns) for line in process.output.lines] == told
    assert all(mono_ns > 0 for *_, mono_ns in told)


async def test_lines_come_while_it_runs() -> None:
    came: asyncio.Queue[str] = asyncio.Queue()
    echo = "import socket; s = socket.socket(fileno=3)\nwhile 1: print(s.recv(9), flush=True)"
    async with launched(
        python(echo), on_output=lambda stream, line, mono_ns: came.put_nowait(line)
    ) as (_, connection):
        for text in (b"first", b"second"):
            connection.send(text)
            assert await came.get() == str(text)


async def test_failing_listener_is_told_to_the_loop_and_changes_nothing() -> None:
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


async def test_a_flood_of_output_neither_stalls_it_nor_is_kept_whole() -> None:
    count = 20_000_000
    process = await ended(["sh", "-c", f"yes | head -n {count}; echo the last words >&2"])
    assert process.exit_words == "exit status 0"
    assert process.output.left_out > 0
    assert len(process.output.lines) + process.output.left_out == count + 1
    assert process.output.last(Stream.STDERR, 1) == ["the last words"]


# -- how it ends --------------------------------------------------------------------------------


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
async def test_its_own_end_is_told_in_words(script: str, words: str) -> None:
    process = await ended(["sh", "-c", script])
    assert process.exit_words == words
    assert not process.ended_by_us
    assert process.explain("over") == f"over: the plugin ended, {words}"


def test_exit_words_of_an_exit_code() -> None:
    assert [describe_exit(code) for code in (0, 3, -11, -40)] == [
        "exit status 0",
        "exit status 3",
        "killed by SIGSEGV",
        "killed by signal 40",
    ]


async def test_its_last_words_explain_its_end() -> None:
    script = "exec >&2; seq 5; echo ' ^^^'; printf 'red \\033[31m'; exit 1"
    process = await ended(["sh", "-c", script])
    assert process.explain("closed by the peer") == (
        "closed by the peer: the plugin ended, exit status 1; "
        "its last output: 4 | 5 | red \\x1b[31m"
    )


async def test_it_is_ended_with_sigkill() -> None:
    script = (
        "import signal; signal.signal(15, signal.SIG_IGN); print(1, flush=True); signal.pause()"
    )
    came = asyncio.Event()
    async with launched(python(script), on_output=lambda *line: came.set()) as (process, _):
        await came.wait()
        assert process.running
    assert (process.exit_words, process.ended_by_us) == ("killed by SIGKILL", True)
    assert not is_running(process.pid)
    assert process.explain("no answer within 2 s") == "no answer within 2 s"
    assert not process.left_behind
    assert not process.survived


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


@pytest.mark.parametrize("last", ["socket.socket(fileno=3).recv(100)", "os._exit(0)"])
async def test_what_it_leaves_behind_is_found_told_and_killed(last: str) -> None:
    came: asyncio.Queue[str] = asyncio.Queue()
    async with launched(
        python(LEAVING.replace("LAST", last)),
        on_output=lambda stream, line, mono_ns: came.put_nowait(line),
    ) as (process, _):
        plain, heir, daemon = map(int, (await came.get()).split())
        assert is_running(plain)
    # The daemon may be found before its execve.
    left = {(one.pid, one.detached) for one in process.left_behind}
    assert left == {(plain, False), (daemon, True)}
    assert "sleep 1000" in [one.command for one in process.left_behind]
    assert not any(is_running(pid) for pid in (plain, heir, daemon))
    assert not process.survived


async def test_what_is_not_its_own_is_left_alone() -> None:
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


async def test_launching_again_and_again_leaves_nothing() -> None:
    await ended(["true"])
    before = descriptors()
    for argv in (["sleep", "1000"], ["sleep", "1000"], ["sh", "-c", "exit 3"]):
        async with launched(argv) as (process, _):
            assert children()
        assert descriptors() == before
        assert not children()
        assert not is_running(process.pid)


async def test_launch_that_is_cancelled_leaves_nothing() -> None:
    before = descriptors()
    task = asyncio.create_task(launch(command_of(["sleep", "1000"], "10", "name")))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert descriptors() == before
    assert not children()


async def test_its_keeper_ends_with_the_runtime_and_not_before() -> None:
    async with launched(["sleep", "1000"]) as (process, _):
        (keeper,) = children()
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            os.kill(keeper, number)
    assert process.ended_by_us
    assert not process.survived
    assert not children()


async def test_it_ends_though_its_keeper_was_killed() -> None:
    before = descriptors()
    async with launched(["sleep", "1000"]) as (process, _):
        (keeper,) = children()
        watched = os.pidfd_open(process.pid)
        os.kill(keeper, signal.SIGKILL)
        await process.wait_gone()
        assert select.select([watched], [], [], 60)[0]
        os.close(watched)
    assert process.survived
    assert not process.running
    assert descriptors() == before


def test_it_ends_with_a_runtime_that_is_killed() -> None:
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


def test_it_runs_on_the_other_event_loop_too() -> None:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        process = runner.run(ended(["sh", "-c", "echo out; exit 3"]))
    assert process.exit_words == "exit status 3"
    assert stdout(process.output) == ["out"]
    assert not children()


async def test_it_does_not_matter_who_reaps_our_children() -> None:
    former = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        process = await ended(["sh", "-c", "true; exit 3"])
    finally:
        signal.signal(signal.SIGCHLD, former)
    assert process.exit_words == "exit status 3"


def test_keeper_is_no_part_of_what_the_package_imports() -> None:
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
