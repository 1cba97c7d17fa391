# SPDX-License-Identifier: Apache-2.0
"""``record`` when one of its two processes is killed, is stopped or cannot write.

The runtime still gets its replies, lost events are counted in gaps, and no process remains.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import resource
import signal
import sqlite3
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nri_scope.end_reasons import ORPHANED
from nri_scope.recording.reading.reader import Recording
from tests.cli.container_events import setup, start
from tests.cli.live_process import live
from tests.cli.recording_process import Record, recording
from tests.cli.running import PATIENCE
from tests.cli.writer_processes import (
    POLL,
    children,
    cmdline,
    on_a_terminal,
    wait_for_end_of,
    writer_of,
)
from tests.runtime_emulation.runtime import Runtime
from tests.runtime_emulation.scripts import is_running


def stored(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return int(connection.execute("SELECT count(*) FROM event").fetchone()[0])


async def wait_until_stored(path: Path, events: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while stored(path) < events:
            await asyncio.sleep(POLL)


def assert_complete(path: Path, sent: int) -> int:
    """Check that every sent event is stored or counted as lost; return the number of lost ones."""
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
    assert_closed(path)
    return lost


def assert_closed(path: Path) -> None:
    """Check that no process locks the file, and that it has no companion files."""
    assert_unlocked(path)
    assert [one.name for one in path.parent.iterdir() if one.name.startswith(path.name)] == [
        path.name
    ]


def assert_unlocked(path: Path) -> None:
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextlib.asynccontextmanager
async def running_record(folder: Path, *more: str) -> AsyncIterator[tuple[Runtime, Record, Path]]:
    """Run a runtime and a `record` of it; yield both and the file."""
    path = folder / "x.nriscope.db"
    async with Runtime(setup()) as runtime:
        await runtime.listen(folder / "s")
        async with recording("--socket", folder / "s", "-o", path, *more) as record:
            await record.wait_for_text("recording")
            await runtime.wait_plugins(1)
            yield runtime, record, path


# -- the writer process -----------------------------------------------------------------------


@pytest.mark.exhaustive
async def test_a_killed_writer_is_replaced_and_its_events_are_one_counted_gap(
    tmp_path: Path,
) -> None:
    async with running_record(tmp_path) as (runtime, record, path):
        await start(runtime, 20)
        await wait_until_stored(path, 22)
        first = await writer_of(record)
        # The stopped writer receives these, and cannot store them.
        os.kill(first, signal.SIGSTOP)
        await start(runtime, 30)
        await asyncio.sleep(0.3)
        os.kill(first, signal.SIGKILL)
        await start(runtime, 40)
        await record.wait_for_text("killed by SIGKILL; starting another one")
        await writer_of(record, other_than=first)
        await start(runtime, 5)
        status, _, errors = await record.interrupt()
    lost = assert_complete(path, 95)
    assert lost >= 30
    with Recording.open(path) as one:
        (gap,) = one.gaps()
        assert gap.reason == "the writer process ended, killed by SIGKILL"
        assert gap.session == 1
        events = list(one.events())
        assert events[21].at_ns <= gap.from_ns <= gap.to_ns <= events[22].at_ns
    assert status == 2
    assert f"killed by SIGKILL: {lost} events were lost" in errors.splitlines()[-1]
    summary = errors.splitlines()[-2]
    assert f"({lost} events lost)" in summary
    assert f"recorded {97 - lost} events in 1 session" in summary
    assert re.search(r"; not observed: .* killed by SIGKILL", summary)


@pytest.mark.exhaustive
async def test_a_killed_writer_without_lost_events_leaves_a_note(tmp_path: Path) -> None:
    async with running_record(tmp_path) as (runtime, record, path):
        await start(runtime, 20)
        await wait_until_stored(path, 22)
        # It has also reported them as stored.
        await asyncio.sleep(0.3)
        os.kill(await writer_of(record), signal.SIGKILL)
        await record.wait_for_text("starting another one")
        await start(runtime, 5)
        status, _, errors = await record.interrupt()
    assert status == 0
    assert "recorded 27 events in 1 session" in errors
    assert assert_complete(path, 25) == 0
    with Recording.open(path) as one:
        assert [note.text for note in one.notes()] == [
            "the writer process ended, killed by SIGKILL; no event was lost"
        ]
        assert not one.gaps()


@pytest.mark.exhaustive
async def test_repeatedly_killed_writers_are_replaced(tmp_path: Path) -> None:
    async with running_record(tmp_path) as (runtime, record, path):
        before = 0
        for _ in range(4):
            before = await writer_of(record, other_than=before)
            await start(runtime, 10)
            os.kill(before, signal.SIGKILL)
            await wait_for_end_of(before)
        await writer_of(record, other_than=before)
        await start(runtime, 10)
        status, _, _ = await record.interrupt()
    lost = assert_complete(path, 50)
    assert status == (2 if lost else 0)


@pytest.mark.exhaustive
async def test_lost_events_are_counted_if_the_writer_is_killed_at_the_end(tmp_path: Path) -> None:
    async with running_record(tmp_path) as (runtime, record, path):
        first = await writer_of(record)
        os.kill(first, signal.SIGSTOP)
        await start(runtime, 30)
        record.process.send_signal(signal.SIGINT)
        os.kill(first, signal.SIGKILL)
        status, _, errors = await record.wait_for_exit()
    lost = assert_complete(path, 30)
    assert status == (2 if lost else 0), errors


@pytest.mark.exhaustive
async def test_a_stopped_writer_delays_no_reply(tmp_path: Path) -> None:
    async with running_record(tmp_path) as (runtime, record, path):
        pid = await writer_of(record)
        for _ in range(3):
            os.kill(pid, signal.SIGSTOP)
            await start(runtime, 200)
            os.kill(pid, signal.SIGCONT)
            await start(runtime, 10)
        # Ending the recording continues it.
        os.kill(pid, signal.SIGSTOP)
        await start(runtime, 10)
        status, _, _ = await record.interrupt()
    assert status == 0
    assert assert_complete(path, 640) == 0


async def test_events_wait_in_memory_while_the_disk_is_full(tmp_path: Path) -> None:
    async with running_record(tmp_path) as (runtime, record, path):
        pid = await writer_of(record)
        _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, most))
        await start(runtime, 100)
        await record.wait_for_text("events wait in memory")
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))
        await record.wait_for_text("recording goes on")
        status, _, _ = await record.interrupt()
    assert status == 0
    assert assert_complete(path, 100) == 0


@pytest.mark.exhaustive
async def test_lost_events_are_counted_if_the_writer_lacks_memory(tmp_path: Path) -> None:
    async with running_record(tmp_path) as (runtime, record, path):
        pid = await writer_of(record)
        # A gap needs a session in the file.
        await wait_until_stored(path, 2)
        resource.prlimit(pid, resource.RLIMIT_AS, (1 << 20, 1 << 20))
        before = stored(path)
        for number in range(20):
            # More than its reserved memory.
            await start(runtime, 10, container="c" * 40_000 + str(number))
        async with asyncio.timeout(PATIENCE):
            while is_running(pid) and stored(path) == before:
                await asyncio.sleep(POLL)
        status, _, errors = await record.interrupt()
    lost = assert_complete(path, 200)
    assert (status == 0) == (not lost), errors


# -- the answering process ----------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.parametrize("is_stopped", [False, True])
async def test_the_writer_stores_its_events_when_the_answering_process_is_killed(
    is_stopped: bool, tmp_path: Path
) -> None:
    async with running_record(tmp_path) as (runtime, record, path):
        pid = await writer_of(record)
        await start(runtime, 50)
        await wait_until_stored(path, 52)
        if is_stopped:
            os.kill(pid, signal.SIGSTOP)
        await start(runtime, 5)
        record.process.kill()
        await wait_for_end_of(pid)
        await runtime.wait_for(lambda: not runtime.plugins)
        # The file can be continued immediately.
        async with recording("--socket", tmp_path / "s", "-o", path) as another:
            await another.wait_for_text("recording")
            assert (await another.interrupt())[0] == 0
    with Recording.open(path) as one:
        first, _ = one.sessions()
        assert first.end_reason == ORPHANED
        count = sum(event.session == first.id for event in one.events())
    # Events that were not sent to the writer are lost.
    assert 52 <= count <= 57
    assert_closed(path)


@pytest.mark.exhaustive
async def test_the_next_record_waits_for_the_previous_writer(tmp_path: Path) -> None:
    async with running_record(tmp_path) as (runtime, record, path):
        await start(runtime, 50)
        record.process.kill()
        async with recording("--socket", tmp_path / "s", "-o", path) as another:
            await another.wait_for_text("recording")
            assert (await another.interrupt())[0] == 0
    assert_closed(path)


# -- signals --------------------------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("to_both", [False, True])
async def test_stop_signals_during_a_burst_lose_no_events(
    number: signal.Signals, to_both: bool, tmp_path: Path
) -> None:
    """Sent twice, also to both processes as a service manager does."""
    async with running_record(tmp_path) as (runtime, record, path):
        pid = await writer_of(record)
        await start(runtime, 300)
        for _ in range(2):
            if to_both:
                os.kill(pid, number)
            record.process.send_signal(number)
        status, _, errors = await record.wait_for_exit()
        assert not is_running(pid)
    assert (status, assert_complete(path, 300)) == (0, 0), errors


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
@pytest.mark.parametrize("delays", [0, 3, 30])
async def test_signals_during_the_start_leave_no_files(
    number: signal.Signals, delays: int, tmp_path: Path
) -> None:
    path = tmp_path / "x.nriscope.db"
    async with recording("--socket", tmp_path / "s", "-o", path, "--wait") as record:
        pid = await writer_of(record)
        for _ in range(delays):
            await asyncio.sleep(POLL)
        record.process.send_signal(number)
        await record.process.wait()
        await wait_for_end_of(pid)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.exhaustive
async def test_sigcont_resumes_a_stopped_record(tmp_path: Path) -> None:
    async with running_record(tmp_path) as (runtime, record, path):
        await start(runtime, 10)
        record.process.send_signal(signal.SIGTSTP)
        answering = asyncio.ensure_future(start(runtime, 10))
        await asyncio.sleep(0.1)
        record.process.send_signal(signal.SIGCONT)
        await answering
        record.process.send_signal(signal.SIGTSTP)
        record.process.send_signal(signal.SIGTERM)
        record.process.send_signal(signal.SIGCONT)
        status, _, _ = await record.wait_for_exit()
    assert status == 0
    assert assert_complete(path, 20) == 0


@contextlib.asynccontextmanager
async def on_terminal(path: Path, runtime: Runtime) -> AsyncIterator[tuple[Process, int]]:
    """Yield a `record` that prints to its controlling terminal, and the terminal's master end."""
    await runtime.listen(path.with_name("s"))
    options = ("--socket", path.with_name("s"), "-o", path, "--print", "text")
    async with on_a_terminal(sys.executable, "-m", "nri_scope", "record", *options) as both:
        await runtime.wait_plugins(1)
        yield both


@pytest.mark.exhaustive
async def test_a_closed_terminal_ends_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "x.nriscope.db"
    async with (
        Runtime(setup()) as runtime,
        on_terminal(path, runtime) as (process, master),
    ):
        (pid,) = children(process.pid)
        await start(runtime, 50)
        os.close(master)
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 0
        await wait_for_end_of(pid)
    assert assert_complete(path, 50) == 0


@pytest.mark.exhaustive
async def test_tostop_does_not_stop_the_printing_process(tmp_path: Path) -> None:
    """After `stty tostop`, terminals stop background processes that write to them."""
    path = tmp_path / "x.nriscope.db"
    printed = b""
    async with (
        Runtime(setup()) as runtime,
        on_terminal(path, runtime) as (process, master),
    ):
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
    assert assert_complete(path, 5) == 0


# -- no second process ----------------------------------------------------------------------------


@pytest.mark.exhaustive
async def test_nothing_connects_if_no_writer_process_can_be_started(tmp_path: Path) -> None:
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
        _, errors = await process.communicate()
        assert runtime.plugins == ()
    (line,) = errors.decode().splitlines()
    assert line.startswith(f"nri-scope: the writer process cannot be started: {nowhere}: ")
    assert process.returncode == 2
    assert not path.exists()


# -- probes, and loggers launched by a runtime -----------------------------------------------------


@pytest.mark.exhaustive
async def test_a_killed_writer_of_live_diff_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x.nriscope.db"
    async with Runtime(setup()) as runtime:
        await runtime.listen(tmp_path / "s")
        async with live("--socket", tmp_path / "s", "-o", path, folder=tmp_path) as one:
            await runtime.wait_plugins(3)
            await start(runtime, 20)
            await wait_until_stored(path, 66)
            (answering,) = children(one.process.pid)
            (writer,) = children(answering)
            os.kill(writer, signal.SIGSTOP)
            await start(runtime, 10)
            await asyncio.sleep(0.3)
            os.kill(writer, signal.SIGKILL)
            await one.wait_for_text("killed by SIGKILL; starting another one")
            await start(runtime, 10)
            status, _, errors = await one.interrupt()
    assert status == 2, errors
    assert "events were lost" in errors
    with Recording.open(path) as recorded:
        sessions = recorded.sessions()
        gaps = recorded.gaps()
        events = list(recorded.events())
    assert len(sessions) == 3
    assert sorted(gap.session or 0 for gap in gaps) == [session.id for session in sessions]
    assert len(events) + sum(gap.lost or 0 for gap in gaps) == 3 * 42
    # The viewer read it to its end, so SQLite's companions may still be there.
    assert_unlocked(path)


@pytest.mark.exhaustive
async def test_a_killed_writer_of_a_launched_logger_is_replaced(tmp_path: Path) -> None:
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
        await wait_until_stored(path, 22)
        writer = next(
            child
            for one in Path("/proc").iterdir()
            if one.name.isdigit() and str(plugin).encode() in cmdline(int(one.name))
            for child in children(int(one.name))
            if b"nri_scope.writer.main" in cmdline(child)
        )
        os.kill(writer, signal.SIGKILL)
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
    """Return the number of events that are stored or counted as lost."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        query = "SELECT (SELECT count(*) FROM event) + (SELECT total(lost) FROM gap)"
        return int(connection.execute(query).fetchone()[0])
