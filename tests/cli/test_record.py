# SPDX-License-Identifier: Apache-2.0
"""The record command end to end: a process, an emulated runtime, a file."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import re
import signal
import sqlite3
import stat
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.cli.main import run
from nri_scope.errors import DeadlineExceeded
from nri_scope.events import FILTERED
from nri_scope.nri.events import EventKind
from nri_scope.nri.request_subject import decode_request
from nri_scope.recording.query.coverage import coverage
from nri_scope.recording.reading.reader import Recording
from nri_scope.runtime import PROFILES
from nri_scope.share.extract import extract
from nri_scope.share.redaction import Redactor, Rules
from nri_scope.transport import Link, listen_unix
from nri_scope.wire import Connection, RequestReceived
from tests.amount import EXAMPLES, sampled
from tests.cli.container_events import setup, start
from tests.cli.recording_process import Record, recording
from tests.cli.running import PATIENCE, running
from tests.runtime_emulation.captures import NAMES, exchanges
from tests.runtime_emulation.runtime import Runtime
from tests.runtime_emulation.stored_requests import RecordedSetUp, play, split_setup


def names(path: Path) -> list[str]:
    with Recording.open(path) as recorded:
        return [event.event for event in recorded.events()]


# -- captures of real runtimes -----------------------------------------------------------------


@pytest.mark.parametrize("name", sampled(NAMES))
async def test_captures_of_real_runtimes_are_recorded_as_they_were_sent(
    name: str, tmp_path: Path
) -> None:
    """Run `record` in place of each plugin of a capture, and compare its recording.

    All five plugins; in CI two for each capture, so that all captures together cover each plugin.
    """
    stream = [exchange.stored for exchange in exchanges(name)]
    plugins = sorted({stored.plugin for stored in stream})
    assert len(plugins) == len(NAMES) + 1
    if EXAMPLES:
        plugins = plugins[NAMES.index(name) :][:2]
        stream = [stored for stored in stream if stored.plugin in plugins]
    set_up, rest = split_setup(stream)
    assert isinstance(set_up, RecordedSetUp)
    async with contextlib.AsyncExitStack() as stack:
        runtime = await stack.enter_async_context(Runtime(set_up))
        await runtime.listen(tmp_path / "nri.sock")
        records: list[Record] = []
        for plugin in plugins:
            index, _, plugin_name = plugin.partition("-")
            records.append(
                await stack.enter_async_context(
                    recording(
                        *("--socket", tmp_path / "nri.sock", "--once", "--validate"),
                        *("--index", index, "--name", plugin_name),
                        *("-o", tmp_path / f"{plugin}.nriscope.db"),
                    )
                )
            )
        await runtime.wait_plugins(len(plugins))
        played = await play(runtime, rest)
        assert (played.events, played.errors) == (len(stream) - 2 * len(plugins), 0)
        await asyncio.gather(*(record.interrupt() for record in records))
    for plugin in plugins:
        sent = [stored for stored in stream if stored.plugin == plugin]
        with Recording.open(tmp_path / f"{plugin}.nriscope.db") as recorded:
            events = list(recorded.events())
            assert [event.method for event in events] == [stored.method for stored in sent]
            assert [event.size for event in events] == [len(stored.request) for stored in sent]
            for event, stored in zip(events, sent, strict=True):
                was = decode_request(stored.method, stored.request).message
                now = decode_request(event.method, recorded.request(event.id)).message
                assert was is not None
                assert now == was
                assert event.status == "ok"
                if stored.method not in ("Configure", "Synchronize"):
                    assert event.timeout_ns == stored.timeout_ns
            assert sum(gap.lost or 0 for gap in recorded.gaps()) == 0


# -- lifetime ---------------------------------------------------------------------------------


@pytest.mark.exhaustive
async def test_an_unknown_runtime_is_said_to_be_treated_like_containerd(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, remark = tmp_path / "x.nriscope.db", "(unknown, treated like containerd)"
    profile = replace(PROFILES["nri-0.12.5"], runtime_name="newd", runtime_version="3.1")
    async with Runtime(replace(setup(), profile=profile)) as runtime:
        await runtime.listen(tmp_path / "s")
        async with recording("--socket", tmp_path / "s", "-o", path) as record:
            await runtime.wait_plugins(1)
            await start(runtime)
            _, _, errors = await record.interrupt()
    assert f"recording newd 3.1 (NRI 0.12.5) {remark} as 00-nri-scope" in errors
    shown = f"newd 3.1, NRI 0.12.5 {remark}"
    for command in (["log"], ["report"], ["report", "--diagnose"], ["diff"]):
        run([*command, str(path)])
        assert capsys.readouterr().out.count(shown) == 1, command
    run(["report", str(path), "-o", str(tmp_path / "r.md")])
    assert shown in (tmp_path / "r.md").read_text().replace("\\", "")
    async with running("replay", path, "--", sys.executable, "-c", "raise SystemExit") as replay:
        _, out, _ = await replay.wait_for_exit()
    assert f"as newd 3.1 (NRI 0.12.5) {remark}" in out


@pytest.mark.parametrize("number", sampled([signal.SIGINT, signal.SIGTERM]))
async def test_prints_the_connection_and_a_final_summary(
    number: signal.Signals, tmp_path: Path
) -> None:
    path = tmp_path / "x.nriscope.db"
    async with Runtime(setup()) as runtime:
        await runtime.listen(tmp_path / "s")
        async with recording("--socket", tmp_path / "s", "-o", path) as record:
            line = await record.wait_for_text("recording")
            assert "containerd" in line
            assert "NRI 0.6.1, inferred" in line
            assert "00-nri-scope" in line
            assert "11 events" in line
            assert str(path) in line
            await runtime.wait_plugins(1)
            await start(runtime, 5)
            status, out, errors = await record.interrupt(number)
    assert (status, out) == (0, "")
    last = errors.splitlines()[-1]
    assert last.startswith("recorded 7 events in 1 session")
    assert last.endswith(str(path))
    assert names(path) == ["Configure", "Synchronize"] + ["StartContainer"] * 5
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(one.name for one in tmp_path.iterdir()) == ["x.nriscope.db"]


async def test_default_file_is_named_after_host_and_time(tmp_path: Path) -> None:
    async with Runtime(setup()) as runtime:
        await runtime.listen(tmp_path / "s")
        (tmp_path / "here").mkdir()
        async with recording("--socket", tmp_path / "s", cwd=tmp_path / "here") as record:
            await record.wait_for_text("recording")
            await record.interrupt()
    (path,) = (tmp_path / "here").iterdir()
    assert path.name.startswith("nri-")
    assert path.name.endswith("Z.nriscope.db")


@pytest.mark.exhaustive
async def test_restarted_runtime_begins_a_new_session(tmp_path: Path) -> None:
    path = tmp_path / "x.nriscope.db"
    async with Runtime(setup()) as runtime:
        await runtime.listen(tmp_path / "s")
        record = await start_record(tmp_path, path)
        await runtime.wait_plugins(1)
        await start(runtime)
    try:
        await record[1].wait_for_text("waiting for the runtime to return")
        async with Runtime(setup("containerd-2.1")) as runtime:
            await runtime.listen(tmp_path / "s")
            await runtime.wait_plugins(1)
            await start(runtime, 2)
            status, _, errors = await record[1].interrupt()
    finally:
        await record[0].aclose()
    assert status == 0
    assert "in 2 sessions" in errors
    with Recording.open(path) as recorded:
        first, second = recorded.sessions()
        assert first.ended_ns is not None
        assert second.runtime_version != first.runtime_version
        (gap,) = recorded.gaps()
        assert "not connected" in gap.reason
        assert gap.lost is None
        assert second.synced_ns is not None
        assert first.ended_ns <= gap.from_ns < second.started_ns <= gap.to_ns <= second.synced_ns


async def start_record(
    folder: Path, path: Path, *more: str
) -> tuple[contextlib.AsyncExitStack, Record]:
    """Start a `record` that outlives its runtime."""
    stack = contextlib.AsyncExitStack()
    record = await stack.enter_async_context(recording("--socket", folder / "s", "-o", path, *more))
    return stack, record


@pytest.mark.exhaustive
async def test_once_ends_with_the_runtime(tmp_path: Path) -> None:
    path = tmp_path / "x.nriscope.db"
    async with Runtime(setup()) as runtime:
        await runtime.listen(tmp_path / "s")
        stack, record = await start_record(tmp_path, path, "--once")
        await runtime.wait_plugins(1)
    async with stack:
        status, _, errors = await record.wait_for_exit()
    assert status == 0
    assert "session ended: closed by the runtime\n" in errors


@pytest.mark.exhaustive
async def test_wait_waits_for_a_missing_socket(tmp_path: Path) -> None:
    path = tmp_path / "x.nriscope.db"
    stack, record = await start_record(tmp_path, path, "--wait")
    async with stack:
        assert "no such socket" in await record.wait_for_text("waiting for a runtime")
        async with Runtime(setup()) as runtime:
            await runtime.listen(tmp_path / "s")
            await runtime.wait_plugins(1)
            assert (await record.interrupt())[0] == 0
    assert names(path) == ["Configure", "Synchronize"]


@pytest.mark.exhaustive
async def test_interrupt_while_waiting_leaves_no_file(tmp_path: Path) -> None:
    stack, record = await start_record(tmp_path, tmp_path / "x.nriscope.db", "--wait")
    async with stack:
        await record.wait_for_text("waiting for a runtime")
        status, _, errors = await record.interrupt()
    assert status == 0
    assert "nothing recorded" in errors
    assert list(tmp_path.iterdir()) == []


@pytest.mark.exhaustive
async def test_nohup_survives_sighup(tmp_path: Path) -> None:
    path = tmp_path / "x.nriscope.db"
    async with Runtime(setup()) as runtime:
        await runtime.listen(tmp_path / "s")
        arguments = ("--socket", tmp_path / "s", "-o", path)
        async with recording(*arguments, prefix=("nohup",)) as record:
            await record.wait_for_text("recording")
            await runtime.wait_plugins(1)
            record.process.send_signal(signal.SIGHUP)
            await start(runtime)
            status, _, _ = await record.interrupt()
    assert status == 0
    assert "StartContainer" in names(path)


@pytest.mark.exhaustive
async def test_duration_ends_the_recording(tmp_path: Path) -> None:
    async with Runtime(setup()) as runtime:
        await runtime.listen(tmp_path / "s")
        async with recording(
            *("--socket", tmp_path / "s", "-o", tmp_path / "x.nriscope.db", "--duration", "300ms")
        ) as record:
            status, _, errors = await record.wait_for_exit()
    assert status == 0
    # A busy machine may not let it register in this time.
    assert re.search(r"recorded [12] events? in 1 session|nothing recorded", errors)


@pytest.mark.exhaustive
async def test_second_run_continues_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.nriscope.db"
    async with Runtime(setup()) as runtime:
        await runtime.listen(tmp_path / "s")
        for _ in range(2):
            async with recording("--socket", tmp_path / "s", "-o", path) as record:
                await record.wait_for_text("recording")
                await record.interrupt()
    with Recording.open(path) as recorded:
        assert len(recorded.sessions()) == 2
        assert [event.session for event in recorded.events()].count(2) >= 1


async def test_print_shows_the_recorded_events(tmp_path: Path) -> None:
    async with Runtime(setup()) as runtime:
        await runtime.listen(tmp_path / "s")
        for print_format in ("text", "jsonl"):
            async with recording(
                *("--socket", tmp_path / "s", "-o", tmp_path / f"{print_format}.nriscope.db"),
                *("--print", print_format),
            ) as record:
                await record.wait_for_text("recording")
                await runtime.wait_plugins(1)
                await start(runtime, 3)
                _, out, _ = await record.interrupt()
                await runtime.wait_for(lambda: not runtime.plugins)
            if print_format == "text":
                assert out.count("StartContainer") == 3
            else:
                lines = [json.loads(line) for line in out.splitlines()]
                assert [line["event"] for line in lines][2:] == ["StartContainer"] * 3
                assert lines[-1]["container_id"] == "c1"


@pytest.mark.exhaustive
async def test_closed_output_pipe_does_not_end_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "x.nriscope.db"
    async with Runtime(setup()) as runtime:
        await runtime.listen(tmp_path / "s")
        async with recording("--socket", tmp_path / "s", "-o", path, "--print", "text") as record:
            await record.wait_for_text("recording")
            await runtime.wait_plugins(1)
            assert record.process.stdout is not None
            record.process.stdout._transport.close()  # type: ignore[attr-defined]
            for _ in range(3):
                await start(runtime, 10)
                await asyncio.sleep(0.1)
            record.process.send_signal(signal.SIGINT)
            async with asyncio.timeout(30):
                assert await record.process.wait() == 0
    assert names(path).count("StartContainer") == 30


async def test_events_and_where_select_the_recorded_events(tmp_path: Path) -> None:
    async with Runtime(setup()) as runtime:
        await runtime.listen(tmp_path / "s")
        async with contextlib.AsyncExitStack() as stack:
            chosen = await stack.enter_async_context(
                recording("--socket", tmp_path / "s", "-o", tmp_path / "a.nriscope.db",
                          "--events", "pod", "--index", "10")
            )  # fmt: skip
            kept = await stack.enter_async_context(
                recording("--socket", tmp_path / "s", "-o", tmp_path / "b.nriscope.db",
                          "--where", "id:c2", "--index", "20")
            )  # fmt: skip
            redacted = await stack.enter_async_context(
                recording("--socket", tmp_path / "s", "-o", tmp_path / "c.nriscope.db",
                          "--where", "id:c2", "--index", "30", "--redact")
            )  # fmt: skip
            await runtime.wait_plugins(3)
            assert [plugin.mask for plugin in runtime.plugins] == [0b111, 0x7FF, 0x7FF]
            await start(runtime)
            await start(runtime, 2, container="c2")
            await asyncio.gather(chosen.interrupt(), kept.interrupt(), redacted.interrupt())
    assert names(tmp_path / "a.nriscope.db") == ["Configure", "Synchronize"]
    assert names(tmp_path / "b.nriscope.db") == ["StartContainer"] * 2
    for name, words in (("a", ""), ("b", f"{FILTERED}: id:c2"), ("c", FILTERED)):
        with Recording.open(tmp_path / f"{name}.nriscope.db") as read:
            found = {interval.why for interval in coverage(read).unobserved}
        # That there are no other events means nothing.
        assert found == ({words} if words else set())
    hidden = tmp_path / "d.nriscope.db"
    with Recording.open(tmp_path / "b.nriscope.db") as read:
        extract(read, hidden, redactor=Redactor(Rules.DEFAULT, b"key" * 11), marks=())
    with Recording.open(hidden) as read:
        assert FILTERED in [note.text for note in read.notes()]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("profile", "validate", "mask"),
    [("containerd-2.2", False, 0x1FFF), ("containerd-2.2", True, 0x3FFF),
     ("containerd-2.3", False, 0x1FFF), ("isulad", False, 0x07FF)],
)  # fmt: skip
async def test_validation_is_subscribed_to_only_with_validate(
    profile: str, validate: bool, mask: int, tmp_path: Path
) -> None:
    async with Runtime(setup(profile)) as runtime:
        await runtime.listen(tmp_path / "s")
        more = ["--validate"] if validate else []
        async with recording(
            "--socket", tmp_path / "s", "-o", tmp_path / "x.nriscope.db", *more
        ) as record:
            await runtime.wait_plugins(1)
            assert runtime.plugins[0].mask == mask
            await record.interrupt()


@pytest.mark.exhaustive
async def test_keep_connected_survives_a_missed_deadline(tmp_path: Path) -> None:
    path = tmp_path / "x.nriscope.db"
    short = replace(PROFILES["nri-0.12.5"], request_timeout_ms=300)
    async with Runtime(replace(setup(), profile=short)) as runtime:
        await runtime.listen(tmp_path / "s")
        more = ("--socket", tmp_path / "s", "-o", path, "--keep-connected")
        async with recording(*more) as record:
            await runtime.wait_plugins(1)
            record.process.send_signal(signal.SIGSTOP)
            message = api.StartContainerRequest(pod=api.PodSandbox(id="pod-1"))
            (late,) = await runtime.dispatch(EventKind.StartContainer, message)
            record.process.send_signal(signal.SIGCONT)
            assert isinstance(late.error, DeadlineExceeded)
            await start(runtime)
            _, _, errors = await record.interrupt()
    assert "warning: --keep-connected: if this process stalls, each NRI event takes 0.3 s" in errors
    assert names(path).count("StartContainer") == 2


@pytest.mark.exhaustive
async def test_keep_connected_is_refused_where_the_runtime_does_not_know_it(tmp_path: Path) -> None:
    async with Runtime(setup("containerd-2.4")) as runtime:
        await runtime.listen(tmp_path / "s")
        async with recording(
            "--socket", tmp_path / "s", "-o", tmp_path / "x.nriscope.db", "--keep-connected"
        ) as record:
            status, _, errors = await record.wait_for_exit()
    assert status == 2
    assert errors.splitlines()[-1] == (
        "nri-scope: containerd 2.4.2 (NRI 0.12.3) does not know the failure policy keep_connected; "
        "it needs NRI 0.12.4; leave out failure_policy, or --keep-connected, for this runtime"
    )
    assert not list(tmp_path.glob("x.nriscope.db*"))


@pytest.mark.exhaustive
async def test_keep_connected_is_left_out_when_a_runtime_with_an_older_nri_returns(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.nriscope.db"
    more = ("--socket", tmp_path / "s", "-o", path, "--keep-connected", "--wait")
    async with recording(*more) as record:
        for profile in ("nri-0.12.5", "containerd-2.4"):
            async with Runtime(setup(profile)) as runtime:
                await runtime.listen(tmp_path / "s")
                await runtime.wait_plugins(1)
                await start(runtime)
        _, _, errors = await record.interrupt()
    assert errors.count("warning: --keep-connected: if this process stalls") == 1
    assert errors.count("warning: --keep-connected has no effect: this runtime has an older") == 1
    assert names(path).count("StartContainer") == 2


async def test_sigkill_loses_at_most_100_ms(tmp_path: Path) -> None:
    path = tmp_path / "x.nriscope.db"
    async with Runtime(setup()) as runtime:
        await runtime.listen(tmp_path / "s")
        async with recording("--socket", tmp_path / "s", "-o", path) as record:
            await runtime.wait_plugins(1)
            loop = asyncio.get_running_loop()
            sent: list[float] = []
            until = loop.time() + 0.6
            while loop.time() < until:
                await start(runtime)
                sent.append(loop.time())
                # At most 5,000 events per second, the documented rate.
                await asyncio.sleep(0.0002)
            record.process.kill()
            killed = loop.time()
            await record.process.wait()
    # The clock of a busy machine may stop between the last event and the kill: count what was old.
    old = sum(at < killed - 0.1 for at in sent)
    # The writer process still stores the events that it has received.
    async with asyncio.timeout(PATIENCE):
        while names(path).count("StartContainer") < old:
            await asyncio.sleep(0.05)
    assert names(path).count("StartContainer") <= len(sent)


# -- a runtime launches it ----------------------------------------------------------------------


async def test_launched_by_a_runtime_it_records_as_configured(tmp_path: Path) -> None:
    path = tmp_path / "x.nriscope.db"
    plugin = tmp_path / "plugins" / "07-nri-scope"
    plugin.parent.mkdir()
    plugin.symlink_to(installed_command())
    config = f"output: {path}\nmax_size: 64M\nmax_sise: 3\nwhere: -id:c2\n"
    # containerd 1.7 would not synchronize a plugin that it launches.
    async with Runtime(setup("containerd-2.1")) as runtime:
        await runtime.launch(plugin, config=config)
        await runtime.wait_plugins(1)
        assert runtime.plugins[0].id == "07-nri-scope"
        await start(runtime, 4)
        await start(runtime, 2, container="c2")
        async with asyncio.timeout(30):
            while not path.exists() or stored_events(path) < 6:
                await asyncio.sleep(0.05)
    assert names(path) == ["Configure", "Synchronize"] + ["StartContainer"] * 4
    log = Path(f"{path}.log")
    assert "unknown key 'max_sise'" in log.read_text()
    assert stat.S_IMODE(log.stat().st_mode) == stat.S_IMODE(path.stat().st_mode) == 0o600


def stored_events(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        try:
            return int(connection.execute("SELECT count(*) FROM event").fetchone()[0])
        except sqlite3.OperationalError:
            return 0


def installed_command() -> Path:
    """The console script of the environment that runs the tests."""
    command = Path(sys.executable).parent / "nri-scope"
    assert command.exists(), f"{command} is missing: install the project first"
    return command


# -- bad input ----------------------------------------------------------------------------------

HOSTILE = "\x1b[31mred"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--socket", "none"], "no such socket; run `nri-scope doctor`"),
        (["--socket", "file"], "not a socket"),
        (["--socket", "."], "not a socket"),
        (["--socket", "x" * 200], "at most 107"),
        (["--index", "7"], "write 07"),
        (["--index", "abc"], "two digits"),
        (["--index", "100"], "two digits"),
        (["--name", "a b"], "letters, digits"),
        (["--name", ""], "needs a name"),
        (["--events", "Bogus"], "no event 'Bogus'"),
        (["--events", "-all"], "empty"),
        (["--where", "nope:1"], "unknown field"),
        (["--where", "("], "filter"),
        (["--max-size", "huge"], "not a size"),
        (["--max-size", "1k"], "too small"),
        (["--max-age", "5"], "not a duration"),
        (["--duration", "-1s"], "not a duration"),
        (["--print", "xml"], "xml"),
        (["-o", "file"], "not an nri-scope recording"),
        (["-o", "file", "--duration", "1ms"], "not an nri-scope recording"),
        (["-o", "none/x.db"], "none"),
        (["-o", "."], "a folder; name a file in it"),
        (["-o", "x" * 300], "too long; choose a shorter one"),
        (["-o", "newer"], "upgrade"),
        (["-o", ""], "empty"),
        (["-o", "folder/"], "not a file name"),
        (["--socket", ""], "empty"),
        (["--wait", "--socket", "file"], "not a socket"),
        (["--events", "ValidateContainerAdjustment"], "requires --validate"),
        (["--socket", HOSTILE], r"\x1b[31mred"),
        (["extra"], "extra"),
        (["--frobnicate"], "--frobnicate"),
    ],
    ids=itertools.count(),
)
def test_bad_input_gets_one_line_and_status_2(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("precious")
    make_newer(tmp_path / "newer")
    before = {one.name: one.read_bytes() for one in tmp_path.iterdir()}
    assert run(["record", *arguments]) == 2
    out, errors = capfd.readouterr()
    assert out == ""
    assert words in errors
    assert len(errors.splitlines()) == 1
    assert "\x1b" not in errors
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == before


@pytest.mark.exhaustive
async def test_bad_input_ends_the_process_with_status_2(tmp_path: Path) -> None:
    async with recording("--socket", "none", cwd=tmp_path) as record:
        status, out, errors = await record.wait_for_exit()
    assert (status, out) == (2, "")
    assert len(errors.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def make_newer(path: Path) -> None:
    """A recording of a version that does not exist yet."""
    from nri_scope.recording.file.schema import APPLICATION_ID, VERSION

    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
        connection.execute("CREATE TABLE session (id INTEGER)")


# -- failures around it do not affect the runtime --------------------------------------------------


@pytest.mark.exhaustive
async def test_blocked_stderr_delays_no_reply(tmp_path: Path) -> None:
    """A stopped terminal, or a pipe that is full."""
    path = tmp_path / "x.nriscope.db"
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)
    async with Runtime(setup()) as runtime:
        await runtime.listen(tmp_path / "s")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "nri_scope", "record", "--socket", str(tmp_path / "s")),
            *("-o", str(path)),
            stderr=writer,
        )
        os.close(writer)
        try:
            await runtime.wait_plugins(1)
            await start(runtime, 5)
            process.terminate()
            async with asyncio.timeout(30):
                assert await process.wait() == 0
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
    os.close(reader)
    assert names(path).count("StartContainer") == 5


@pytest.mark.exhaustive
async def test_closed_stderr_does_not_end_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "x.nriscope.db"
    async with Runtime(setup()) as runtime:
        await runtime.listen(tmp_path / "s")
        async with recording("--socket", tmp_path / "s", "-o", path) as record:
            assert record.process.stderr is not None
            record.process.stderr._transport.close()  # type: ignore[attr-defined]
            await runtime.wait_plugins(1)
            await start(runtime, 5)
            record.process.send_signal(signal.SIGHUP)
            async with asyncio.timeout(30):
                assert await record.process.wait() == 0
    assert names(path).count("StartContainer") == 5


@pytest.mark.exhaustive
async def test_sigterm_ends_it_while_the_runtime_does_not_reply(tmp_path: Path) -> None:
    def ignore(link: Link, request: RequestReceived, arrived_ns: int) -> None:
        requested.set()

    requested = asyncio.Event()
    server = await listen_unix(tmp_path / "s", lambda: Link(Connection(serves=2, calls=1), ignore))
    for more in ([], ["--wait"]):
        requested.clear()
        async with recording(
            "--socket", tmp_path / "s", "-o", tmp_path / "x.nriscope.db", *more
        ) as record:
            async with asyncio.timeout(30):
                await requested.wait()
            status, _, errors = await record.interrupt(signal.SIGTERM)
        assert (status, errors) == (0, "nothing recorded: no connection to a runtime")
    await server.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.exhaustive
async def test_rejected_reconnection_is_retried(tmp_path: Path) -> None:
    path = tmp_path / "x.nriscope.db"
    async with Runtime(setup()) as runtime:
        await runtime.listen(tmp_path / "s")
        stack, record = await start_record(tmp_path, path)
        await runtime.wait_plugins(1)

    def refuse(link: Link, request: RequestReceived, arrived_ns: int) -> None:
        link.respond_error(request.stream_id, 14, "not yet")

    async with stack:
        server = await listen_unix(
            tmp_path / "s", lambda: Link(Connection(serves=2, calls=1), refuse)
        )
        await record.wait_for_text("not yet")
        await server.close()
        async with Runtime(setup()) as runtime:
            await runtime.listen(tmp_path / "s")
            await runtime.wait_plugins(1)
            status, _, errors = await record.interrupt()
    assert status == 0
    assert "in 3 sessions" in errors
    with Recording.open(path) as recorded:
        refused = recorded.sessions()[1]
        (event,) = [event for event in recorded.events() if event.session == refused.id]
    assert (event.event, event.status_message) == ("RegisterPlugin", "not yet")
    assert refused.end_reason == "the runtime refused the registration: not yet"


@pytest.mark.parametrize("answers", sampled([True, False]))
async def test_a_failed_registration_is_recorded(answers: bool, tmp_path: Path) -> None:
    path = tmp_path / "x.nriscope.db"

    def fail(link: Link, request: RequestReceived, arrived_ns: int) -> None:
        if answers:
            link.respond_error(request.stream_id, 2, "invalid name")
        link.close()

    server = await listen_unix(tmp_path / "s", lambda: Link(Connection(serves=2, calls=1), fail))
    async with recording("--socket", tmp_path / "s", "-o", path) as record:
        status, _, errors = await record.wait_for_exit()
    await server.close()
    assert status == 2
    assert "recorded 1 event in 1 session" in errors
    with Recording.open(path) as recorded:
        (session,), (event,) = recorded.sessions(), recorded.events()
    assert event.event == "RegisterPlugin"
    message, reason = (
        ("invalid name", "the runtime refused the registration: invalid name")
        if answers
        else (
            "not answered: closed by the runtime",
            "the connection ended during the registration: closed by the runtime",
        )
    )
    assert (event.status_message, session.end_reason) == (message, reason)
