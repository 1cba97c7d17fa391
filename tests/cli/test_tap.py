# SPDX-License-Identifier: Apache-2.0
"""The tap command end to end: a process, an emulated runtime, real plugins, a file."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.cli.main import run
from nri_scope.errors import ConnectionClosed, DeadlineExceeded, RpcError
from nri_scope.events import Role
from nri_scope.nri.events import EventKind
from nri_scope.nri.runtime_setup import FailurePolicy, configure_reply
from nri_scope.recording.reading.reader import Recording
from nri_scope.runtime import PROFILES, Answer, ProfileSetUp
from nri_scope.wire import Code
from tests.amount import sampled
from tests.cli.tap_process import PATIENCE, no_larger_than, plugin_file, tapping
from tests.cli.writer_processes import (
    children,
    cmdline,
    on_a_terminal,
    wait_for_end_of,
    writer_of,
)
from tests.replay.recordings import RECORDING
from tests.runtime_emulation.runtime import Runtime
from tests.runtime_emulation.scripts import is_running
from tests.runtime_emulation.small_plugin import SmallPlugin

ADJUSTS = """\
    def create_container(self, pod, container):
        print("creating", container.name, flush=True)
        return api.ContainerAdjustment(env=[api.KeyValue(key="TAPPED", value="yes")])
"""


ENVIRONMENT = "open('/proc/self/environ').read().strip(chr(0)).split(chr(0))"
"""Expression for the initial environment; Python may have added to `os.environ`."""
PRINTS_PID = "print('pid', os.getpid(), flush=True)"


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "nri.sock"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "t.nriscope.db"


@pytest.fixture
async def runtime(socket: Path) -> AsyncIterator[Runtime]:
    async with Runtime(ProfileSetUp(PROFILES["containerd-2.1"])) as runtime:
        await runtime.listen(socket)
        yield runtime


MakePlugin = Callable[..., SmallPlugin]


@pytest.fixture
async def small_plugin() -> AsyncIterator[MakePlugin]:
    """Function that creates plugins; their connections are closed at the end."""
    plugins: list[SmallPlugin] = []

    def make(name: str = "10-small") -> SmallPlugin:
        plugins.append(SmallPlugin(name))
        return plugins[-1]

    yield make
    for link in [plugin.link for plugin in plugins if plugin.link is not None]:
        link.close()
        await link.wait_closed()


async def create(runtime: Runtime, number: int = 1, size: int = 0) -> list[Answer]:
    """Send CreateContainer ``number`` times, with ``size`` bytes of variables; return replies."""
    answers: list[Answer] = []
    for _ in range(number):
        message = api.CreateContainerRequest()
        message.pod.CopyFrom(api.PodSandbox(id="pod-1", namespace="shop", name="web"))
        container = api.Container(id="c1", pod_sandbox_id="pod-1", name="app")
        if size:
            container.env.append(f"A={os.urandom(size // 2).hex()}")
        message.container.CopyFrom(container)
        answers += await runtime.dispatch(EventKind.CreateContainer, message)
    return answers


def names(path: Path) -> list[str]:
    with Recording.open(path) as recorded:
        return [event.event for event in recorded.events()]


async def wait_until_recorded(path: Path, event: str, count: int) -> None:
    """Wait until a growing recording has ``count`` of these events."""
    async with asyncio.timeout(PATIENCE):
        while names(path).count(event) < count:
            await asyncio.sleep(0.01)


async def test_a_launched_plugin_adjusts_and_is_recorded(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    plugin = plugin_file(tmp_path / "20-thing", ADJUSTS)
    async with tapping("--socket", socket, "-o", file, "--", plugin) as tap:
        await tap.wait_for_text("tapping 20-thing at containerd")
        await runtime.wait_plugins(1)
        (answer,) = await create(runtime)
        assert isinstance(answer.reply, api.CreateContainerResponse)
        assert [env.key for env in answer.reply.adjust.env] == ["TAPPED"]
        status, _, err = await tap.interrupt()
    assert status == 0, err
    assert "recorded" in err.splitlines()[-1]
    assert "creating app" in err
    with Recording.open(file) as recorded:
        (session,) = recorded.sessions()
        assert (session.role, session.plugin) == (Role.TAP, "20-thing")
        assert session.ended_ns and "interrupted" in session.end_reason
        (event,) = [event for event in recorded.events() if event.event == "CreateContainer"]
        assert recorded.reply(event.id) == answer.payload
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def join(small: SmallPlugin, listening: Path, runtime: Runtime) -> None:
    """Connect a plugin to a tap, and wait until the runtime has registered it."""
    async with asyncio.timeout(PATIENCE):
        while not listening.exists():
            await asyncio.sleep(0.01)
    await small.connect(listening)
    await small.register()
    await runtime.wait_plugins(1)


@pytest.mark.parametrize(
    ("profile", "effect"),
    sampled(
        [
            ("nri-0.12.5", ""),
            ("containerd-2.4", ", which this runtime ignores: it needs NRI 0.12.4"),
        ]
    ),
)
async def test_a_failure_policy_is_relayed_and_reported(
    profile: str, effect: str, socket: Path, file: Path
) -> None:
    small = SmallPlugin("20-thing")
    reply = configure_reply(0, FailurePolicy(fail_request=True))
    small.on["Configure"] = lambda request: reply
    async with Runtime(PROFILES[profile]) as runtime:
        await runtime.listen(socket)
        listening = socket.parent / "t"
        async with tapping("--socket", socket, "--listen", listening, "-o", file) as tap:
            await join(small, listening, runtime)
            status, _, err = await tap.interrupt()
    assert status == 0
    assert f"20-thing has the failure policy fail_request{effect}" in err.splitlines()
    with Recording.open(file) as recorded:
        (session,) = recorded.sessions()
    assert str(session.failure_policy) == ("" if effect else "fail_request")


@pytest.mark.exhaustive
async def test_a_missed_deadline_of_a_plugin_that_stays_connected_is_diagnosed(
    socket: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = SmallPlugin("20-thing")
    sent = configure_reply(0, FailurePolicy(keep_connected=True))
    small.on["Configure"] = lambda request: sent
    late = iter([None])
    small.on["CreateContainer"] = lambda request: next(late, b"")
    async with Runtime(replace(PROFILES["nri-0.12.5"], request_timeout_ms=300)) as runtime:
        await runtime.listen(socket)
        listening = socket.parent / "t"
        async with tapping("--socket", socket, "--listen", listening, "-o", file) as tap:
            await join(small, listening, runtime)
            await create(runtime)
            same = api.PostCreateContainerRequest()
            same.pod.CopyFrom(api.PodSandbox(id="pod-1", namespace="shop", name="web"))
            same.container.CopyFrom(api.Container(id="c1", pod_sandbox_id="pod-1", name="app"))
            await runtime.dispatch(EventKind.PostCreateContainer, same)
            status, _, err = await tap.interrupt()
    assert status == 0, err
    with Recording.open(file) as recorded:
        events = {event.event: event for event in recorded.events()}
        creation, post = events["CreateContainer"], events["PostCreateContainer"]
        assert creation.status_code == Code.DEADLINE_EXCEEDED and creation.id < post.id
        assert 0 < creation.took_ns <= creation.timeout_ns
    assert run(["diff", str(file), "--all"]) == 0
    shown = capsys.readouterr().out
    assert "SLOW: 20-thing took" in shown and shown.count("CreateContainer") == 2
    run(["report", "--diagnose", str(file)])
    diagnosis = capsys.readouterr().out
    # The pod was never shown to the plugin.
    assert "t.nriscope.db: 1 problem, 1 warning in 5 events" in diagnosis and "unknown" not in shown
    assert "After each late reply the runtime keeps the plugin connected" in diagnosis


async def test_print_shows_selected_events_and_output(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    plugin = plugin_file(tmp_path / "20-thing", ADJUSTS)
    arguments = ("--socket", socket, "-o", file, "--print", "jsonl")
    async with tapping(*arguments, "--where", "event:CreateContainer", "--", plugin) as tap:
        await tap.wait_for_text("tapping")
        await runtime.wait_plugins(1)
        await create(runtime)
        status, out, _ = await tap.interrupt()
    assert status == 0
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["event"] for line in lines if "event" in line] == ["CreateContainer"]
    (printed,) = [line["output"] for line in lines if "output" in line]
    assert (printed["stream"], printed["text"]) == ("stdout", "creating app")
    assert names(file) == ["CreateContainer"]


async def test_redacted_output_is_printed_as_recorded(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    start = "print('password=hunter2', flush=True)"
    plugin = plugin_file(tmp_path / "20-thing", ADJUSTS, start=start)
    arguments = ("--socket", socket, "-o", file, "--print", "jsonl", "--redact")
    async with tapping(*arguments, "--", plugin) as tap:
        await tap.wait_for_text("tapping")
        await runtime.wait_plugins(1)
        _, out, _ = await tap.interrupt()
    lines = [json.loads(line) for line in out.splitlines()]
    printed = [line["output"]["text"] for line in lines if "output" in line]
    with Recording.open(file) as recorded:
        stored = [str(row[0]) for row in recorded.rows("SELECT text FROM output", [])]
    assert printed == stored != []
    assert "hunter2" not in out


@pytest.mark.exhaustive
async def test_name_index_and_variables_are_set_as_by_a_runtime(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    dump = tmp_path / "dump"
    start = f"open({str(dump)!r}, 'w').write(repr(({ENVIRONMENT}, sys.argv)))"
    plugin = plugin_file(tmp_path / "thing.py", start=start)
    options = ("--index", "07", "--name", "other", "--env", "MORE=1")
    async with tapping("--socket", socket, "-o", file, *options, "--", plugin, "--verbose") as tap:
        await tap.wait_for_text("tapping 07-other")
        await tap.interrupt()
    environment, argv = eval(dump.read_text())
    identity = {"NRI_PLUGIN_NAME=other", "NRI_PLUGIN_IDX=07"}
    assert set(environment) == identity | {"NRI_PLUGIN_SOCKET=3", "MORE=1"}
    assert argv == [str(plugin), "--verbose"]


@pytest.mark.parametrize(
    ("statement", "status"), sampled([("os._exit(3)", 3), ("os.kill(os.getpid(), 9)", 137)])
)
async def test_the_exit_status_is_that_of_the_plugin(
    statement: str, status: int, runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    body = f"    def create_container(self, pod, container):\n        {statement}\n"
    plugin = plugin_file(tmp_path / "20-thing", body)
    async with tapping("--socket", socket, "-o", file, "--", plugin) as tap:
        await runtime.wait_plugins(1)
        (answer,) = await create(runtime)
        assert isinstance(answer.error, ConnectionClosed)
        assert (await tap.wait_for_exit())[0] == status
    with Recording.open(file) as recorded:
        assert recorded.sessions()[0].end_reason


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_signals_are_forwarded_to_the_plugin(
    number: signal.Signals, runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    start = (
        "import signal\n"
        f"signal.signal({int(number)}, lambda *_: (print('got it', flush=True), os._exit(5)))\n"
    )
    body = f"    def configure(self, *_):\n        {start.splitlines()[-1]}\n"
    plugin = plugin_file(tmp_path / "20-thing", body, start="import signal")
    async with tapping("--socket", socket, "-o", file, "--", plugin) as tap:
        await tap.wait_for_text("tapping")
        await runtime.wait_plugins(1)
        status, _, err = await tap.interrupt(number)
    assert status == 5, err
    assert "got it" in err


@pytest.mark.exhaustive
async def test_nohup_survives_sighup(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    plugin = plugin_file(tmp_path / "20-thing", ADJUSTS)
    async with tapping("--socket", socket, "-o", file, "--", plugin, prefix=("nohup",)) as tap:
        await tap.wait_for_text("tapping")
        await runtime.wait_plugins(1)
        tap.process.send_signal(signal.SIGHUP)
        await create(runtime)
        status, _, _ = await tap.interrupt()
    assert status == 0
    assert "CreateContainer" in names(file)


@pytest.mark.exhaustive
async def test_the_plugin_ends_when_the_runtime_shuts_down(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    plugin = plugin_file(tmp_path / "20-thing", ADJUSTS, start=PRINTS_PID)
    async with tapping("--socket", socket, "-o", file, "--", plugin) as tap:
        pid = int((await tap.wait_for_text("pid ")).split()[-1])
        await runtime.wait_plugins(1)
        await runtime.shut_down()
        status, _, err = await tap.wait_for_exit()
    assert status == 0, err
    assert "session ended" in err and "runtime" in err
    assert not is_running(pid)


async def test_a_killed_tap_disconnects_and_leaves_no_processes(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    plugin = plugin_file(tmp_path / "20-thing", ADJUSTS, start=PRINTS_PID)
    async with tapping("--socket", socket, "-o", file, "--", plugin) as tap:
        pid = int((await tap.wait_for_text("pid ")).split()[-1])
        await runtime.wait_plugins(1)
        await create(runtime, 3)
        await wait_until_recorded(file, "CreateContainer", 3)
        writer = await writer_of(tap)
        tap.process.kill()
        await runtime.wait_for(lambda: not runtime.plugins)
        async with asyncio.timeout(PATIENCE):
            while is_running(pid) or is_running(writer):
                await asyncio.sleep(0.01)
    assert names(file).count("CreateContainer") == 3


def accounted(path: Path) -> tuple[int, int]:
    """Return the numbers of CreateContainer events and of lost events in a closed recording."""
    with Recording.open(path) as recorded:
        (session,) = recorded.sessions()
        assert session.ended_ns is not None
        assert recorded.rows("PRAGMA integrity_check", []) == [("ok",)]
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with Recording.open(path) as recorded:
        return names(path).count("CreateContainer"), sum(gap.lost or 0 for gap in recorded.gaps())


@pytest.mark.exhaustive
async def test_a_killed_writer_is_replaced_and_its_events_are_one_counted_gap(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    plugin = plugin_file(tmp_path / "20-thing", ADJUSTS)
    async with tapping("--socket", socket, "-o", file, "--", plugin) as tap:
        await runtime.wait_plugins(1)
        await create(runtime, 3)
        await wait_until_recorded(file, "CreateContainer", 3)
        writer = await writer_of(tap)
        # The stopped writer receives these, and cannot store them.
        os.kill(writer, signal.SIGSTOP)
        answers = await create(runtime, 30)
        await asyncio.sleep(0.3)
        os.kill(writer, signal.SIGKILL)
        answers += await create(runtime, 20)
        await tap.wait_for_text("killed by SIGKILL; starting another one")
        await writer_of(tap, other_than=writer)
        answers += await create(runtime, 5)
        status, _, err = await tap.interrupt()
    assert all(isinstance(answer.reply, api.CreateContainerResponse) for answer in answers)
    assert status == 2
    stored, lost = accounted(file)
    assert stored + lost == 58
    assert lost >= 30
    assert f"killed by SIGKILL: {lost} events were lost" in err.splitlines()[-1]
    with Recording.open(file) as recorded:
        (gap,) = recorded.gaps()
        assert gap.reason == "the writer process ended, killed by SIGKILL"


@pytest.mark.exhaustive
async def test_repeatedly_killed_writers_are_replaced(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    plugin = plugin_file(tmp_path / "20-thing", ADJUSTS)
    answers: list[Answer] = []
    async with tapping("--socket", socket, "-o", file, "--", plugin) as tap:
        await runtime.wait_plugins(1)
        writer = 0
        for _ in range(3):
            writer = await writer_of(tap, other_than=writer)
            answers += await create(runtime, 10)
            os.kill(writer, signal.SIGKILL)
            await wait_for_end_of(writer)
        await writer_of(tap, other_than=writer)
        answers += await create(runtime, 10)
        status, _, _ = await tap.interrupt()
    assert all(isinstance(answer.reply, api.CreateContainerResponse) for answer in answers)
    stored, lost = accounted(file)
    assert stored + lost >= 40
    assert status == (2 if lost else 0)


@pytest.mark.exhaustive
async def test_a_stopped_writer_delays_no_reply(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    plugin = plugin_file(tmp_path / "20-thing", ADJUSTS)
    async with tapping("--socket", socket, "-o", file, "--", plugin) as tap:
        await runtime.wait_plugins(1)
        await create(runtime)
        writer = await writer_of(tap)
        os.kill(writer, signal.SIGSTOP)
        # More than the queues can hold.
        answers = await create(runtime, 40, size=3_000_000)
        os.kill(writer, signal.SIGCONT)
        answers += await create(runtime, 3)
        status, _, _ = await tap.interrupt()
    assert all(isinstance(answer.reply, api.CreateContainerResponse) for answer in answers)
    assert status == 0
    stored, lost = accounted(file)
    assert stored + lost == 44
    assert lost > 0


@pytest.mark.exhaustive
async def test_the_terminal_cannot_stop_a_tap(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    plugin = plugin_file(tmp_path / "20-thing", ADJUSTS)
    async with tapping("--socket", socket, "-o", file, "--", plugin) as tap:
        await runtime.wait_plugins(1)
        tap.process.send_signal(signal.SIGTSTP)
        await tap.wait_for_text("not stopped (^Z)")
        answers = await create(runtime, 3)
        status, _, _ = await tap.interrupt()
    assert [answer.error for answer in answers] == [None] * 3
    assert status == 0
    assert accounted(file) == (3, 0)


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
@pytest.mark.parametrize("delay_s", [0.0, 0.05, 0.3])
async def test_signals_during_the_start_leave_no_files(
    number: signal.Signals, delay_s: float, socket: Path, tmp_path: Path
) -> None:
    plugin = plugin_file(tmp_path / "20-thing", ADJUSTS)
    path = tmp_path / "new" / "x.nriscope.db"
    path.parent.mkdir()
    async with tapping("--socket", socket, "-o", path, "--wait", "--", plugin) as tap:
        writer = await writer_of(tap)
        await asyncio.sleep(delay_s)
        tap.process.send_signal(number)
        await tap.process.wait()
        await wait_for_end_of(writer)
    assert list(path.parent.iterdir()) == []


@pytest.mark.exhaustive
async def test_stop_signals_during_a_burst_lose_no_events(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    plugin = plugin_file(tmp_path / "20-thing", ADJUSTS)
    async with tapping("--socket", socket, "-o", file, "--", plugin) as tap:
        await runtime.wait_plugins(1)
        writer = await writer_of(tap)
        burst = asyncio.ensure_future(create(runtime, 300))
        await wait_until_recorded(file, "CreateContainer", 50)
        for _ in range(2):
            os.kill(writer, signal.SIGTERM)
            tap.process.send_signal(signal.SIGTERM)
        status, _, err = await tap.wait_for_exit()
        answers = await burst
        assert not is_running(writer)
    assert status == 0, err
    stored, lost = accounted(file)
    answered = sum(answer.error is None for answer in answers)
    assert lost == 0
    # The last event may have reached the plugin without an answer.
    assert stored - answered in (0, 1)


@pytest.mark.exhaustive
async def test_a_closed_terminal_ends_a_tap(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    plugin = plugin_file(tmp_path / "20-thing", ADJUSTS)
    command = (sys.executable, "-m", "nri_scope", "tap", "--socket", socket, "-o", file)
    async with on_a_terminal(*command, "--", plugin) as (process, master):
        await runtime.wait_plugins(1)
        await create(runtime, 5)
        (writer,) = [pid for pid in children(process.pid) if b"nri_scope.writer" in cmdline(pid)]
        os.close(master)
        async with asyncio.timeout(PATIENCE):
            await process.wait()
        await wait_for_end_of(writer)
    assert accounted(file) == (5, 0)


IN_THE_BACKGROUND = """
import subprocess, sys
process = subprocess.Popen(sys.argv[1:], process_group=0)
sys.exit(process.wait())
"""


@pytest.mark.exhaustive
async def test_a_tap_in_the_background_of_a_terminal_ends_on_a_signal(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    plugin = plugin_file(tmp_path / "20-thing", ADJUSTS)
    command = (sys.executable, "-m", "nri_scope", "tap", "--socket", socket, "-o", file)
    shell = (sys.executable, "-c", IN_THE_BACKGROUND)
    async with on_a_terminal(*shell, *command, "--", plugin) as (process, master):
        await runtime.wait_plugins(1)
        await create(runtime, 5)
        (tap,) = children(process.pid)
        os.kill(tap, signal.SIGINT)
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 0
        os.close(master)
    assert accounted(file) == (5, 0)


@pytest.mark.exhaustive
async def test_a_write_error_of_the_recorder_does_not_affect_the_plugin(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    plugin = plugin_file(tmp_path / "20-thing", ADJUSTS)
    options = ("--socket", socket, "-o", file, "--", plugin)
    async with tapping(*options, prefix=no_larger_than(2_000_000)) as tap:
        await runtime.wait_plugins(1)
        answers = await create(runtime, 150, size=50_000)
        # The error is reported, and delays no reply.
        await tap.wait_for_text(f"{file}: ")
        answers += await create(runtime, 50)
    assert [answer.error for answer in answers] == [None] * 200
    assert names(file).count("CreateContainer") < 200


async def test_several_plugins_can_connect_to_a_socket(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path, small_plugin: MakePlugin
) -> None:
    listen = tmp_path / "tap.sock"
    async with tapping("--socket", socket, "--listen", listen, "-o", file) as tap:
        await tap.wait_for_text("plugins can connect")
        first, second = small_plugin("10-first"), small_plugin("20-second")
        for plugin in (first, second):
            await plugin.connect(listen)
            await plugin.register()
        await runtime.wait_plugins(2)
        await create(runtime)
        first.connected.close()
        await tap.wait_for_text("10-first: session ended")
        await create(runtime)
        status, _, err = await tap.interrupt()
    assert status == 0
    assert "2 sessions" in err
    assert not listen.exists()
    with Recording.open(file) as recorded:
        plugins = [session.plugin for session in recorded.sessions()]
        assert plugins == ["10-first", "20-second"]
        created = [e.plugin for e in recorded.events() if e.event == "CreateContainer"]
    assert sorted(created) == ["10-first", "20-second", "20-second"]


async def test_without_a_runtime_connections_are_closed_immediately(
    socket: Path, file: Path, tmp_path: Path, small_plugin: MakePlugin
) -> None:
    listen = tmp_path / "tap.sock"
    async with tapping("--socket", socket, "--listen", listen, "-o", file) as tap:
        await tap.wait_for_text("plugins can connect")
        for _ in range(3):
            plugin = small_plugin()
            await plugin.connect(listen)
            await plugin.connected.wait_closed()
        status, _, err = await tap.interrupt()
    assert status == 0
    assert err.count("as there is no runtime") == 1
    assert not file.exists()


@pytest.mark.exhaustive
async def test_wait_keeps_a_plugin_until_the_runtime_starts(
    socket: Path, file: Path, tmp_path: Path, small_plugin: MakePlugin
) -> None:
    listen = tmp_path / "tap.sock"
    async with tapping("--socket", socket, "--listen", listen, "-o", file, "--wait") as tap:
        await tap.wait_for_text("plugins can connect")
        plugin = small_plugin()
        await plugin.connect(listen)
        registering = asyncio.ensure_future(plugin.register())
        await tap.wait_for_text("waiting for a runtime")
        async with Runtime(ProfileSetUp(PROFILES["containerd-2.1"])) as runtime:
            await runtime.listen(socket)
            await registering
            await runtime.wait_plugins(1)
            await tap.interrupt()
    assert names(file)[0] in ("RegisterPlugin", "Configure")


async def test_a_second_plugin_of_the_same_name_is_reported(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path, small_plugin: MakePlugin
) -> None:
    listen = tmp_path / "tap.sock"
    async with tapping("--socket", socket, "--listen", listen, "-o", file) as tap:
        await tap.wait_for_text("plugins can connect")
        for number in (1, 2):
            plugin = small_plugin("10-same")
            await plugin.connect(listen)
            await plugin.register()
            await runtime.wait_plugins(number)
        await tap.wait_for_text("another plugin is tapped as 10-same")


@pytest.mark.exhaustive
async def test_a_plugin_that_ignores_a_signal_is_killed(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    body = """\
    def create_container(self, pod, container):
        print("busy", flush=True)
        while True:
            pass
"""
    plugin = plugin_file(tmp_path / "20-thing", body, start=PRINTS_PID)
    async with tapping("--socket", socket, "-o", file, "--", plugin) as tap:
        pid = int((await tap.wait_for_text("pid ")).split()[-1])
        await runtime.wait_plugins(1)
        creating = asyncio.ensure_future(create(runtime))
        await tap.wait_for_text("busy")
        status, _, err = await tap.interrupt(signal.SIGTERM)
        (answer,) = await creating
    assert isinstance(answer.error, ConnectionClosed | DeadlineExceeded)
    assert status == 128 + signal.SIGTERM, err
    assert not is_running(pid)
    with Recording.open(file) as recorded:
        (event,) = [event for event in recorded.events() if event.event == "CreateContainer"]
        assert event.status != "ok"


@pytest.mark.exhaustive
async def test_wait_forgets_a_plugin_that_disconnects(
    socket: Path, file: Path, tmp_path: Path, small_plugin: MakePlugin
) -> None:
    listen = tmp_path / "tap.sock"
    async with tapping("--socket", socket, "--listen", listen, "-o", file, "--wait") as tap:
        await tap.wait_for_text("plugins can connect")
        for _ in range(3):
            plugin = small_plugin()
            await plugin.connect(listen)
            await tap.wait_for_text("waiting for a runtime")
            plugin.connected.close()
        async with Runtime(ProfileSetUp(PROFILES["containerd-2.1"])) as runtime:
            await runtime.listen(socket)
            stays = small_plugin("10-stays")
            await stays.connect(listen)
            await stays.register()
            await runtime.wait_plugins(1)
            assert runtime.rejected == 0
            await tap.interrupt()


# -- bad input ----------------------------------------------------------------------------------


def error_line(arguments: list[str | Path], capsys: pytest.CaptureFixture[str]) -> str:
    """Run the command with invalid arguments; return its only line."""
    assert run(["tap", *map(str, arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1, err
    return err


def test_a_wrapper_is_rejected_by_tap_and_replay(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = plugin_file(tmp_path / "20-thing")
    assert run(["tap", "--wrap", str(plugin), "-o", str(file)]) == 0
    wrapper = plugin.read_bytes()
    capsys.readouterr()
    assert "is wrapped: it is tapped whenever a runtime launches it" in error_line(
        ["--", plugin], capsys
    )
    assert run(["replay", str(RECORDING), "--", str(plugin)]) == 2
    assert "20-thing is wrapped" in capsys.readouterr().err
    assert plugin.read_bytes() == wrapper
    assert not file.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "neither COMMAND, --listen, --wrap nor --unwrap was given"),
        (["--", "no-such-program-here"], "no such program in the folders of PATH"),
        (["--", "/no/such/file"], "no such file"),
        (["--", "/tmp"], "it is a folder"),
        (["--listen", "x.sock", "--", "true"], "exclude each other"),
        (["--wrap", "10-x", "--unwrap", "10-x"], "exclude each other"),
        (["--unwrap", "10-x", "-o", "f"], "--unwrap and -o exclude each other"),
        (["--wrap", "10-x", "--print", "text"], "--wrap and --print exclude each other"),
        (["--wrap", "10-x", "--socket", "y"], "--wrap and --socket exclude each other"),
        (["--listen", "x.sock", "--index", "10"], "--listen and --index exclude each other"),
        (["--listen", "x.sock", "--env", "A=1"], "--listen and --env exclude each other"),
        (["--env", "A", "--", "true"], "is not a variable"),
        (["--env", "NRI_PLUGIN_IDX=1", "--", "true"], "cannot be set"),
        (["--index", "7", "--", "true"], "write 07"),
        (["--where", "even:x", "--", "true"], "event"),
        (["--redact", "/no/such/rules", "--", "true"], "/no/such/rules"),
        (["--max-size", "1K", "--", "true"], "too small"),
        (["--listen", "/no/such/folder/x.sock"], "no such folder"),
        (["--wrap", "/no/such/10-x"], "no such plugin"),
        (["--wrap", "/bin/10-x", "--max-size", "1K"], "too small"),
        (["--unwrap", "/no/such/10-x"], "no such plugin"),
        (["--wrap", "thing"], "not a name for a plugin file"),
    ],
)
def test_invalid_input_prints_one_line(
    arguments: list[str | Path],
    words: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert words in error_line(arguments, capsys)
    assert list(tmp_path.iterdir()) == []


async def failure(*arguments: str | Path) -> str:
    """Run a tap that fails to start; return its error line."""
    async with tapping(*arguments) as tap:
        status, out, err = await tap.wait_for_exit()
    assert (status, out) == (2, ""), err
    assert err.splitlines()[-1].startswith("nri-scope: "), err
    return err.splitlines()[-1]


@pytest.mark.exhaustive
async def test_without_a_runtime_no_plugin_is_started(
    socket: Path, file: Path, tmp_path: Path
) -> None:
    plugin = tmp_path / "10-plugin"
    plugin.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    plugin.chmod(0o755)
    assert "no such socket" in await failure("--socket", socket, "-o", file, "--", plugin)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["10-plugin"]


@pytest.mark.exhaustive
async def test_a_file_that_is_not_a_recording_is_not_overwritten(
    runtime: Runtime, socket: Path, tmp_path: Path
) -> None:
    file = tmp_path / "letter.txt"
    file.write_text("dear all")
    await failure("--socket", socket, "-o", file, "--", "/bin/true")
    assert file.read_text() == "dear all"


@pytest.mark.exhaustive
async def test_a_program_that_never_registers_is_reported_with_its_output(
    runtime: Runtime, socket: Path, file: Path
) -> None:
    line = await failure(
        "--socket", socket, "-o", file, "--", "/bin/sh", "-c", "echo why >&2; exit 0"
    )
    assert "never registered" in line and "exit status 0" in line and "why" in line
    assert not file.exists()


@pytest.mark.exhaustive
async def test_a_plugin_that_ignores_its_socket_is_reported_with_a_hint(
    socket: Path, file: Path
) -> None:
    profile = replace(PROFILES["containerd-2.1"], registration_timeout_ms=300)
    async with Runtime(ProfileSetUp(profile)) as runtime:
        await runtime.listen(socket)
        line = await failure("--socket", socket, "-o", file, "--", "/bin/sleep", "1000")
    assert "did not register" in line and "--external" in line
    assert not file.exists()


@pytest.mark.exhaustive
async def test_a_rejected_registration_is_reported_with_the_runtimes_message(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    plugin = plugin_file(tmp_path / "20-thing", start="os.environ['NRI_PLUGIN_IDX'] = 'xx'")
    line = await failure("--socket", socket, "-o", file, "--", plugin)
    assert "refused" in line and "index" in line


async def test_a_rejected_registration_at_a_socket_is_reported(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path, small_plugin: MakePlugin
) -> None:
    listen = tmp_path / "tap.sock"
    async with tapping("--socket", socket, "--listen", listen, "-o", file) as tap:
        await tap.wait_for_text("plugins can connect")
        plugin = small_plugin("xx-thing")
        await plugin.connect(listen)
        with pytest.raises((RpcError, ConnectionClosed)):
            await plugin.register()
        plugin.connected.close()
        line = await tap.wait_for_text("xx-thing: the runtime refused the registration")
        assert "index" in line
        await tap.interrupt()
    with Recording.open(file) as recorded:
        (session,), (event,) = recorded.sessions(), recorded.events()
    assert (session.plugin, session.end_reason[:38]) == (
        "xx-thing",
        "the runtime refused the registration: ",
    )
    assert event.event == "RegisterPlugin" and "index" in event.status_message


@pytest.mark.exhaustive
async def test_a_plugin_that_sends_garbage_ends_with_its_connection(
    runtime: Runtime, socket: Path, file: Path
) -> None:
    talk = "printf 'GET / HTTP/1.1\\r\\n\\r\\nxxxxxxxxxxxxxxxx' >&3; exec sleep 1000"
    line = await failure("--socket", socket, "-o", file, "--", "/bin/sh", "-c", talk)
    assert "/bin/sh" in line
    assert not file.exists()


@pytest.mark.exhaustive
async def test_a_second_registration_is_rejected_by_the_runtime(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path, small_plugin: MakePlugin
) -> None:
    listen = tmp_path / "tap.sock"
    async with tapping("--socket", socket, "--listen", listen, "-o", file) as tap:
        await tap.wait_for_text("plugins can connect")
        plugin = small_plugin("10-twice")
        await plugin.connect(listen)
        await plugin.register()
        await runtime.wait_plugins(1)
        with pytest.raises(RpcError) as raised:
            await plugin.register()
        await create(runtime)
        await tap.interrupt()
    with Recording.open(file) as recorded:
        assert len(recorded.sessions()) == 1
        first, again = (e for e in recorded.events() if e.event == "RegisterPlugin")
        assert (first.status, again.status_message) == ("ok", raised.value.message)


@pytest.mark.exhaustive
async def test_two_taps_cannot_write_to_one_file(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    listen = tmp_path / "tap.sock"
    async with tapping("--socket", socket, "--listen", listen, "-o", file) as tap:
        await tap.wait_for_text("plugins can connect")
        line = await failure("--socket", socket, "--listen", tmp_path / "other.sock", "-o", file)
        assert str(file) in line
        line = await failure("--socket", socket, "--listen", listen, "-o", tmp_path / "other.db")
        assert "another process already listens here" in line
        assert not (tmp_path / "other.db").exists()


def test_unwrap_restores_the_plugin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plugin = plugin_file(tmp_path / "20-thing")
    before = plugin.read_bytes()
    file = tmp_path / "w.nriscope.db"
    assert run(["tap", "--wrap", str(plugin), "-o", str(file)]) == 0
    assert f"to {file}" in capsys.readouterr().err
    assert "already wrapped" in error_line(["--wrap", plugin, "-o", file], capsys)
    assert run(["tap", "--unwrap", str(plugin)]) == 0
    assert plugin.read_bytes() == before
    capsys.readouterr()
    assert "is not wrapped" in error_line(["--unwrap", plugin], capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["20-thing"]


def test_wrap_warns_about_a_program_that_other_users_can_modify(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = plugin_file(tmp_path / "20-thing")
    python = tmp_path / "python"
    python.write_text("")
    python.chmod(0o777)
    monkeypatch.setattr(sys, "executable", str(python))
    assert run(["tap", "--wrap", str(plugin), "-o", str(tmp_path / "x.db")]) == 0
    assert (
        f"warning: users other than the plugin's owner can modify {python}"
        in capsys.readouterr().err
    )


def test_wrap_rejects_an_output_that_is_not_a_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = plugin_file(tmp_path / "20-thing")
    (tmp_path / "letter").write_text("dear all")
    error_line(["--wrap", plugin, "-o", tmp_path / "letter"], capsys)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["20-thing", "letter"]


# -- a wrapped plugin, launched by a runtime ----------------------------------------------------


async def test_a_wrapped_plugin_is_launched_as_before_and_recorded(
    runtime: Runtime, file: Path, tmp_path: Path
) -> None:
    dump = tmp_path / "dump"
    start = f"open({str(dump)!r}, 'w').write(repr(({ENVIRONMENT}, os.getcwd())))"
    body = f"""\
    def configure(self, config, *_):
        print("configured", config)
{ADJUSTS}"""
    plugin = plugin_file(tmp_path / "20-thing", body, start=start)
    assert run(["tap", "--wrap", str(plugin), "-o", str(file)]) == 0
    await runtime.launch(plugin, config="a: 1\n")
    (answer,) = await create(runtime)
    assert isinstance(answer.reply, api.CreateContainerResponse)
    assert [env.key for env in answer.reply.adjust.env] == ["TAPPED"]
    environment, folder = eval(dump.read_text())
    identity = {"NRI_PLUGIN_NAME=thing", "NRI_PLUGIN_IDX=20"}
    assert set(environment) == identity | {"NRI_PLUGIN_SOCKET=3"}
    assert folder == str(Path.cwd())
    await wait_until_recorded(file, "CreateContainer", 1)
    await runtime.drop("20-thing")
    with Recording.open(file) as recorded:
        (session,) = recorded.sessions()
        assert (session.role, session.plugin) == (Role.TAP, "20-thing")
        assert "CreateContainer" in [event.event for event in recorded.events()]
        (configure,) = [event.id for event in recorded.events() if event.event == "Configure"]
        configured = api.ConfigureRequest.FromString(recorded.request(configure))
        assert configured.config == "a: 1\n"


@pytest.mark.exhaustive
async def test_the_wrappers_shell_adds_no_variables(
    runtime: Runtime, file: Path, tmp_path: Path
) -> None:
    dump = tmp_path / "dump"
    start = f"open({str(dump)!r}, 'w').write(repr({ENVIRONMENT}))"
    plugin = plugin_file(tmp_path / "20-thing", start=start)
    assert run(["tap", "--wrap", str(plugin), "-o", str(file)]) == 0
    wrapper = plugin.read_text()
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    plugin.write_text(wrapper.replace("#!/bin/sh", f"#!{bash} --posix", 1))
    await runtime.launch(plugin)
    identity = {"NRI_PLUGIN_NAME=thing", "NRI_PLUGIN_IDX=20"}
    assert set(eval(dump.read_text())) == identity | {"NRI_PLUGIN_SOCKET=3"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("broken", ["no nri-scope", "unusable file", "bad settings"])
async def test_a_wrapped_plugin_runs_untapped_if_the_tap_fails(
    broken: str, runtime: Runtime, file: Path, tmp_path: Path
) -> None:
    plugin = plugin_file(tmp_path / "20-thing", ADJUSTS)
    assert run(["tap", "--wrap", str(plugin), "-o", str(file)]) == 0
    state = tmp_path / ".nri-scope" / "20-thing"
    if broken == "no nri-scope":
        starter = state / "start.py"
        starter.write_text(
            starter.read_text().replace("nri_scope.tap.wrapped_plugin", "nri_scope.gone")
        )
    elif broken == "bad settings":
        (state / "tap.json").write_text("{")
    else:
        file.write_text("something else")
    await runtime.launch(plugin)
    (answer,) = await create(runtime)
    assert isinstance(answer.reply, api.CreateContainerResponse)
    assert [env.key for env in answer.reply.adjust.env] == ["TAPPED"]
    assert (state / "untapped.txt").read_text().count("\n") == 1
    if broken == "unusable file":
        assert "without a tap" in (tmp_path / f"{file.name}.log").read_text()


def test_a_wrapped_plugin_runs_unchanged_outside_a_runtime(tmp_path: Path, file: Path) -> None:
    plugin = tmp_path / "20-thing"
    plugin.write_text('#!/bin/sh\necho "usage: $1"\n')
    plugin.chmod(0o755)
    assert run(["tap", "--wrap", str(plugin), "-o", str(file)]) == 0
    done = subprocess.run([plugin, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout == "usage: --help\n"
    assert not file.exists()
