# SPDX-License-Identifier: Apache-2.0
"""``record`` when one of its two processes dies, stands still or cannot write.

The runtime is answered all the same; what is lost is one counted gap; nothing is left running.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import resource
import signal
import sqlite3
import sys
import termios
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nri_scope.logger.writer_main import ORPHANED
from nri_scope.recording.reader import Recording
from nri_scope.runtime import Runtime
from tests.cli.live_process import live
from tests.cli.recording_process import Record, recording
from tests.cli.test_record import setup, start

PATIENCE = 60.0
POLL = 0.01


def children(pid: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def is_there(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


async def gone(pid: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while is_there(pid):
            await asyncio.sleep(POLL)


async def writer_of(record: Record, *, other_than: int = 0) -> int:
    """The process that writes for one that answers."""
    async with asyncio.timeout(PATIENCE):
        while True:
            for pid in children(record.process.pid):
                if pid != other_than:
                    return pid
            await asyncio.sleep(POLL)


def stored(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return int(connection.execute("SELECT count(*) FROM event").fetchone()[0])


async def all_stored(path: Path, events: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while stored(path) < events:
            await asyncio.sleep(POLL)


def assert_whole(path: Path, sent: int) -> int:
    """Everything that was sent is in the file or counted as lost, just there where it is missing.

    Returns how many events are lost.
    """
    with Recording.open(path) as recorded:
        (session,) = recorded.sessions()
        seqs = [event.seq for event in recorded.events()]
        gaps = recorded.gaps()
        lost = sum(gap.lost or 0 for gap in gaps)
        # Configure and Synchronize, too.
        assert len(seqs) + lost == sent + 2
        assert seqs == sorted(set(seqs))
        assert session.ended_ns is not None
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert_free(path)
    return lost


def assert_free(path: Path) -> None:
    """Check that no process has its lock, and that nothing is left beside it."""
    assert_unlocked(path)
    assert [one.name for one in path.parent.iterdir() if one.name.startswith(path.name)] == [
        path.name
    ]


def assert_unlocked(path: Path) -> None:
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextlib.asynccontextmanager
async def recorded(folder: Path, *more: str) -> AsyncIterator[tuple[Runtime, Record, Path]]:
    """A runtime, and what records it to a file."""
    path = folder / "x.nriscope.db"
    async with Runtime(setup()) as runtime:
        await runtime.listen(folder / "s")
        async with recording("--socket", folder / "s", "-o", path, *more) as record:
            await record.said("recording")
            await runtime.wait_plugins(1)
            yield runtime, record, path


# -- the process that writes ------------------------------------------------------------------


async def test_one_that_is_killed_is_replaced_and_what_it_had_is_one_counted_gap(
    tmp_path: Path,
) -> None:
    async with recorded(tmp_path) as (runtime, record, path):
        await start(runtime, 20)
        await all_stored(path, 22)
        first = await writer_of(record)
        # It is given these, and cannot write them.
        os.kill(first, signal.SIGSTOP)
        await start(runtime, 30)
        await asyncio.sleep(0.3)
        os.kill(first, signal.SIGKILL)
        await start(runtime, 40)
        await record.said("killed by SIGKILL; starting another one")
        await writer_of(record, other_than=first)
        await start(runtime, 5)
        status, _, errors = await record.interrupt()
    lost = assert_whole(path, 95)
    assert lost >= 30
    with Recording.open(path) as one:
        (gap,) = one.gaps()
        assert gap.reason == "the writer process ended, killed by SIGKILL"
        assert gap.session == 1
        events = list(one.events())
        assert events[21].at_ns <= gap.from_ns <= gap.to_ns <= events[22].at_ns
    assert status == 2
    assert f"killed by SIGKILL: {lost} events were lost" in errors.splitlines()[-1]
    assert f"({lost} events lost)" in errors.splitlines()[-2]
    assert f"recorded {97 - lost} events in 1 session" in errors.splitlines()[-2]


async def test_where_nothing_was_lost_with_it_a_note_says_so(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (runtime, record, path):
        await start(runtime, 20)
        await all_stored(path, 22)
        # It has told of it, too.
        await asyncio.sleep(0.3)
        os.kill(await writer_of(record), signal.SIGKILL)
        await record.said("starting another one")
        await start(runtime, 5)
        status, _, errors = await record.interrupt()
    assert status == 0
    assert "recorded 27 events in 1 session" in errors
    assert assert_whole(path, 25) == 0
    with Recording.open(path) as one:
        assert [note.text for note in one.notes()] == [
            "the writer process ended, killed by SIGKILL; nothing was lost"
        ]
        assert not one.gaps()


async def test_one_after_the_other_is_killed(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (runtime, record, path):
        before = 0
        for _ in range(4):
            before = await writer_of(record, other_than=before)
            await start(runtime, 10)
            os.kill(before, signal.SIGKILL)
            await gone(before)
        await writer_of(record, other_than=before)
        await start(runtime, 10)
        status, _, _ = await record.interrupt()
    lost = assert_whole(path, 50)
    assert status == (2 if lost else 0)


async def test_killed_while_the_end_is_being_written(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (runtime, record, path):
        first = await writer_of(record)
        os.kill(first, signal.SIGSTOP)
        await start(runtime, 30)
        record.process.send_signal(signal.SIGINT)
        os.kill(first, signal.SIGKILL)
        status, _, errors = await record.ended()
    lost = assert_whole(path, 30)
    assert status == (2 if lost else 0), errors


async def test_one_that_stands_still_keeps_nobody_waiting(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (runtime, record, path):
        pid = await writer_of(record)
        for _ in range(3):
            os.kill(pid, signal.SIGSTOP)
            await start(runtime, 200)
            os.kill(pid, signal.SIGCONT)
            await start(runtime, 10)
        # The end wakes it.
        os.kill(pid, signal.SIGSTOP)
        await start(runtime, 10)
        status, _, _ = await record.interrupt()
    assert status == 0
    assert assert_whole(path, 640) == 0


async def test_full_disk(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (runtime, record, path):
        pid = await writer_of(record)
        _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, most))
        await start(runtime, 100)
        await record.said("events wait in memory")
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))
        await record.said("recording goes on")
        status, _, _ = await record.interrupt()
    assert status == 0
    assert assert_whole(path, 100) == 0


async def test_too_little_memory(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (runtime, record, path):
        pid = await writer_of(record)
        # Without a session in the file there is nothing that a gap could belong to.
        await all_stored(path, 2)
        resource.prlimit(pid, resource.RLIMIT_AS, (1 << 20, 1 << 20))
        before = stored(path)
        for number in range(20):
            # More than what it has set aside.
            await start(runtime, 10, container="c" * 40_000 + str(number))
        async with asyncio.timeout(PATIENCE):
            while is_there(pid) and stored(path) == before:
                await asyncio.sleep(POLL)
        status, _, errors = await record.interrupt()
    lost = assert_whole(path, 200)
    assert (status == 0) == (not lost), errors


# -- the process that answers -------------------------------------------------------------------


@pytest.mark.parametrize("is_stopped", [False, True])
async def test_the_other_one_writes_what_it_has_when_it_is_killed(
    is_stopped: bool, tmp_path: Path
) -> None:
    async with recorded(tmp_path) as (runtime, record, path):
        pid = await writer_of(record)
        await start(runtime, 50)
        await all_stored(path, 52)
        if is_stopped:
            os.kill(pid, signal.SIGSTOP)
        await start(runtime, 5)
        record.process.kill()
        await gone(pid)
        await runtime.wait_for(lambda: not runtime.plugins)
        # The file can be continued at once.
        async with recording("--socket", tmp_path / "s", "-o", path) as another:
            await another.said("recording")
            assert (await another.interrupt())[0] == 0
    with Recording.open(path) as one:
        first, _ = one.sessions()
        assert first.end_reason == ORPHANED
        count = sum(event.session == first.id for event in one.events())
    # What had not been handed over is lost with it.
    assert 52 <= count <= 57
    assert_free(path)


async def test_the_next_one_waits_for_one_that_is_about_to_end(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (runtime, record, path):
        await start(runtime, 50)
        record.process.kill()
        async with recording("--socket", tmp_path / "s", "-o", path) as another:
            await another.said("recording")
            assert (await another.interrupt())[0] == 0
    assert_free(path)


# -- signals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("everyone", [False, True])
async def test_stop_signals_in_the_middle_of_a_burst(
    number: signal.Signals, everyone: bool, tmp_path: Path
) -> None:
    """Also sent to both, as a service manager does, and twice, as the impatient do."""
    async with recorded(tmp_path) as (runtime, record, path):
        pid = await writer_of(record)
        await start(runtime, 300)
        for _ in range(2):
            if everyone:
                os.kill(pid, number)
            record.process.send_signal(number)
        status, _, errors = await record.ended()
        assert not is_there(pid)
    assert (status, assert_whole(path, 300)) == (0, 0), errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
@pytest.mark.parametrize("looks", [0, 3, 30])
async def test_signals_while_it_starts_leave_nothing_behind(
    number: signal.Signals, looks: int, tmp_path: Path
) -> None:
    path = tmp_path / "x.nriscope.db"
    async with recording("--socket", tmp_path / "s", "-o", path, "--wait") as record:
        pid = await writer_of(record)
        for _ in range(looks):
            await asyncio.sleep(POLL)
        record.process.send_signal(number)
        await record.process.wait()
        await gone(pid)
    assert list(tmp_path.iterdir()) == []


async def test_stopped_by_the_terminal_it_goes_on_when_it_is_continued(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (runtime, record, path):
        await start(runtime, 10)
        record.process.send_signal(signal.SIGTSTP)
        answering = asyncio.ensure_future(start(runtime, 10))
        await asyncio.sleep(0.1)
        record.process.send_signal(signal.SIGCONT)
        await answering
        record.process.send_signal(signal.SIGTSTP)
        record.process.send_signal(signal.SIGTERM)
        record.process.send_signal(signal.SIGCONT)
        status, _, _ = await record.ended()
    assert status == 0
    assert assert_whole(path, 20) == 0


@contextlib.asynccontextmanager
async def on_a_terminal(path: Path, runtime: Runtime) -> AsyncIterator[tuple[Process, int]]:
    """A `record` that prints to its controlling terminal, and that terminal's other end."""
    await runtime.listen(path.with_name("s"))
    master, slave = pty.openpty()
    modes = termios.tcgetattr(slave)
    modes[3] |= termios.TOSTOP
    termios.tcsetattr(slave, termios.TCSANOW, modes)
    process = await asyncio.create_subprocess_exec(
        # It becomes the command, with this terminal as its own.
        *("setsid", "--ctty", sys.executable, "-m", "nri_scope", "record"),
        *("--socket", str(path.with_name("s")), "-o", str(path), "--print", "text"),
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    try:
        await runtime.wait_plugins(1)
        yield process, master
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()


async def test_the_terminal_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "x.nriscope.db"
    async with Runtime(setup()) as runtime, on_a_terminal(path, runtime) as (process, master):
        (pid,) = children(process.pid)
        await start(runtime, 50)
        os.close(master)
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 0
        await gone(pid)
    assert assert_whole(path, 50) == 0


async def test_the_terminal_would_stop_background_processes_that_write(tmp_path: Path) -> None:
    """The process that prints is one, after `stty tostop`."""
    path = tmp_path / "x.nriscope.db"
    printed = b""
    async with Runtime(setup()) as runtime, on_a_terminal(path, runtime) as (process, master):
        await start(runtime, 5)
        async with asyncio.timeout(PATIENCE):
            while printed.count(b"StartContainer") < 5:
                printed += await asyncio.to_thread(os.read, master, 1 << 16)
            os.write(master, b"\x03")
            # Until the terminal has no other end any more.
            with contextlib.suppress(OSError):
                while await asyncio.to_thread(os.read, master, 1 << 16):
                    pass
            assert await process.wait() == 0
        os.close(master)
    assert assert_whole(path, 5) == 0


# -- no second process ----------------------------------------------------------------------------


async def test_where_no_process_can_be_started_a_thread_writes(tmp_path: Path) -> None:
    path = tmp_path / "x.nriscope.db"
    nowhere = tmp_path / "no-python"
    code = (
        "import sys; from nri_scope.cli.main import main; "
        f"sys.executable = {str(nowhere)!r}; main()"
    )
    async with Runtime(setup()) as runtime:
        await runtime.listen(tmp_path / "s")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", code, "record", "--socket", str(tmp_path / "s")),
            *("-o", str(path)),
            stderr=asyncio.subprocess.PIPE,
        )
        record = Record(process)
        try:
            words = await record.said("using a thread instead")
            assert str(nowhere) in words
            await runtime.wait_plugins(1)
            assert children(process.pid) == []
            await start(runtime, 30)
            status, _, errors = await record.interrupt()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
    assert status == 0
    assert "recorded 32 events" in errors
    assert assert_whole(path, 30) == 0


# -- probes, and what a runtime launches ----------------------------------------------------------


async def test_what_writes_for_the_probes_of_a_live_diff_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x.nriscope.db"
    async with Runtime(setup()) as runtime:
        await runtime.listen(tmp_path / "s")
        async with live("--socket", tmp_path / "s", "-o", path, folder=tmp_path) as one:
            await runtime.wait_plugins(3)
            await start(runtime, 20)
            await all_stored(path, 66)
            (answers,) = children(one.process.pid)
            (writes,) = children(answers)
            os.kill(writes, signal.SIGSTOP)
            await start(runtime, 10)
            await asyncio.sleep(0.3)
            os.kill(writes, signal.SIGKILL)
            await one.said("killed by SIGKILL; starting another one")
            await start(runtime, 10)
            status, _, errors = await one.interrupt()
    assert status == 2, errors
    assert "events were lost" in errors
    with Recording.open(path) as recorded_:
        sessions = recorded_.sessions()
        gaps = recorded_.gaps()
        events = list(recorded_.events())
    assert len(sessions) == 3
    assert sorted(gap.session or 0 for gap in gaps) == [one.id for one in sessions]
    assert len(events) + sum(gap.lost or 0 for gap in gaps) == 3 * 42
    # The viewer read it to its end, so SQLite's companions may still be there.
    assert_unlocked(path)


async def test_what_writes_for_a_launched_logger_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x.nriscope.db"
    plugin = tmp_path / "plugins" / "07-nri-scope"
    plugin.parent.mkdir()
    plugin.symlink_to(Path(sys.executable).parent / "nri-scope")
    log = Path(f"{path}.log")
    async with Runtime(setup("containerd-2.1")) as runtime:
        await runtime.launch(plugin, config=f"output: {path}\n")
        await runtime.wait_plugins(1)
        await start(runtime, 20)
        async with asyncio.timeout(PATIENCE):
            while not path.exists() or not log.exists():
                await asyncio.sleep(POLL)
        await all_stored(path, 22)
        writes = next(
            child
            for one in Path("/proc").iterdir()
            if one.name.isdigit() and str(plugin).encode() in cmdline(one)
            for child in children(int(one.name))
            if b"nri_scope.logger.writer_main" in cmdline(one.parent / str(child))
        )
        os.kill(writes, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE):
            while "starting another one" not in log.read_text():
                await asyncio.sleep(POLL)
        await start(runtime, 10)
        async with asyncio.timeout(PATIENCE):
            while accounted_for(path) < 32:
                await asyncio.sleep(POLL)
    with Recording.open(path) as one:
        assert [session.id for session in one.sessions()] == [1]
        assert len(list(one.events())) + sum(gap.lost or 0 for gap in one.gaps()) == 32


def accounted_for(path: Path) -> int:
    """Events that are in the file, or told there to be lost."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        query = "SELECT (SELECT count(*) FROM event) + (SELECT total(lost) FROM gap)"
        return int(connection.execute(query).fetchone()[0])


def cmdline(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""
