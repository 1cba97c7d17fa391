# SPDX-License-Identifier: Apache-2.0
"""The tap command as its users meet it: a process, an emulated runtime, real plugins, a file."""

from __future__ import annotations

import asyncio
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
from nri_scope.nri.events import Event
from nri_scope.recording.reader import Recording
from nri_scope.runtime import PROFILES, Answer, ProfileSetUp, Runtime
from tests.cli.tap_process import PATIENCE, no_larger_than, plugin_file, tapping
from tests.replay.recordings import RECORDING
from tests.runtime_emulation.scripts import is_running
from tests.runtime_emulation.small_plugin import SmallPlugin
from tests.tap.processes import relayer_of

ADJUSTS = """\
    def create_container(self, pod, container):
        print("creating", container.name, flush=True)
        return Adjustment().add_env("TAPPED", "yes")
"""


ENVIRONMENT = "open('/proc/self/environ').read().strip(chr(0)).split(chr(0))"
"""As it was given; Python may have added to it."""
TELLS_PID = "print('pid', os.getpid(), flush=True)"


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
    """Makes plugins, whose connections are closed in the end."""
    made: list[SmallPlugin] = []

    def make(name: str = "10-small") -> SmallPlugin:
        made.append(SmallPlugin(name))
        return made[-1]

    yield make
    for link in [plugin.link for plugin in made if plugin.link is not None]:
        link.close()
        await link.wait_closed()


async def create(runtime: Runtime, number: int = 1, size: int = 0) -> list[Answer]:
    """Have containers created, with ``size`` bytes of variables each; all answers."""
    answers: list[Answer] = []
    for _ in range(number):
        message = api.CreateContainerRequest()
        message.pod.CopyFrom(api.PodSandbox(id="pod-1", namespace="shop", name="web"))
        container = api.Container(id="c1", pod_sandbox_id="pod-1", name="app")
        if size:
            container.env.append(f"A={os.urandom(size // 2).hex()}")
        message.container.CopyFrom(container)
        answers += await runtime.dispatch(Event.CreateContainer, message)
    return answers


def names(path: Path) -> list[str]:
    with Recording.open(path) as recorded:
        return [event.event for event in recorded.events()]


async def recorded_to(path: Path, event: str, count: int) -> None:
    """Wait until a recording that is being written has so many of these events."""
    async with asyncio.timeout(PATIENCE):
        while names(path).count(event) < count:
            await asyncio.sleep(0.01)


async def test_a_launched_plugin_does_what_it_does_and_is_recorded(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    plugin = plugin_file(tmp_path / "20-thing", ADJUSTS)
    async with tapping("--socket", socket, "-o", file, "--", plugin) as tap:
        await tap.said("tapping 20-thing at containerd")
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
        (event,) = [one for one in recorded.events() if one.event == "CreateContainer"]
        assert recorded.reply(event.id) == answer.payload
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_it_prints_what_is_asked_and_answered(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    plugin = plugin_file(tmp_path / "20-thing", ADJUSTS)
    arguments = ("--socket", socket, "-o", file, "--print", "jsonl")
    async with tapping(*arguments, "--where", "event:CreateContainer", "--", plugin) as tap:
        await tap.said("tapping")
        await runtime.wait_plugins(1)
        await create(runtime)
        status, out, _ = await tap.interrupt()
    assert status == 0
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["event"] for line in lines if "event" in line] == ["CreateContainer"]
    (printed,) = [line["output"] for line in lines if "output" in line]
    assert (printed["stream"], printed["text"]) == ("stdout", "creating app")
    assert names(file) == ["CreateContainer"]


async def test_what_is_redacted_is_shown_as_it_is_recorded(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    start = "print('password=hunter2', flush=True)"
    plugin = plugin_file(tmp_path / "20-thing", ADJUSTS, start=start)
    arguments = ("--socket", socket, "-o", file, "--print", "jsonl", "--redact")
    async with tapping(*arguments, "--", plugin) as tap:
        await tap.said("tapping")
        await runtime.wait_plugins(1)
        _, out, _ = await tap.interrupt()
    lines = [json.loads(line) for line in out.splitlines()]
    shown = [line["output"]["text"] for line in lines if "output" in line]
    with Recording.open(file) as recorded:
        kept = [str(row[0]) for row in recorded.rows("SELECT text FROM output", [])]
    assert shown == kept != []
    assert "hunter2" not in out


async def test_name_and_index_and_variables_are_given_as_a_runtime_would(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    start = f"open({str(told)!r}, 'w').write(repr(({ENVIRONMENT}, sys.argv)))"
    plugin = plugin_file(tmp_path / "thing.py", start=start)
    options = ("--index", "07", "--name", "other", "--env", "MORE=1")
    async with tapping("--socket", socket, "-o", file, *options, "--", plugin, "--verbose") as tap:
        await tap.said("tapping 07-other")
        await tap.interrupt()
    environment, argv = eval(told.read_text())
    identity = {"NRI_PLUGIN_NAME=other", "NRI_PLUGIN_IDX=07"}
    assert set(environment) == identity | {"NRI_PLUGIN_SOCKET=3", "MORE=1"}
    assert argv == [str(plugin), "--verbose"]


@pytest.mark.parametrize(("ends", "status"), [("os._exit(3)", 3), ("os.kill(os.getpid(), 9)", 137)])
async def test_the_exit_status_is_the_plugins(
    ends: str, status: int, runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    body = f"    def create_container(self, pod, container):\n        {ends}\n"
    plugin = plugin_file(tmp_path / "20-thing", body)
    async with tapping("--socket", socket, "-o", file, "--", plugin) as tap:
        await runtime.wait_plugins(1)
        (answer,) = await create(runtime)
        assert isinstance(answer.error, ConnectionClosed)
        assert (await tap.ended())[0] == status
    with Recording.open(file) as recorded:
        assert recorded.sessions()[0].end_reason


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_signals_are_passed_on(
    number: signal.Signals, runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    start = (
        "import signal\n"
        f"signal.signal({int(number)}, lambda *_: (print('got it', flush=True), os._exit(5)))\n"
    )
    body = f"    def configure(self, *_):\n        {start.splitlines()[-1]}\n"
    plugin = plugin_file(tmp_path / "20-thing", body, start="import signal")
    async with tapping("--socket", socket, "-o", file, "--", plugin) as tap:
        await tap.said("tapping")
        await runtime.wait_plugins(1)
        status, _, err = await tap.interrupt(number)
    assert status == 5, err
    assert "got it" in err


async def test_with_nohup_it_stays_when_the_terminal_goes(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    plugin = plugin_file(tmp_path / "20-thing", ADJUSTS)
    async with tapping("--socket", socket, "-o", file, "--", plugin, prefix=("nohup",)) as tap:
        await tap.said("tapping")
        await runtime.wait_plugins(1)
        tap.process.send_signal(signal.SIGHUP)
        await create(runtime)
        status, _, _ = await tap.interrupt()
    assert status == 0
    assert "CreateContainer" in names(file)


async def test_a_runtime_that_goes_takes_the_plugin_with_it(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    plugin = plugin_file(tmp_path / "20-thing", ADJUSTS, start=TELLS_PID)
    async with tapping("--socket", socket, "-o", file, "--", plugin) as tap:
        pid = int((await tap.said("pid ")).split()[-1])
        await runtime.wait_plugins(1)
        await runtime.shut_down()
        status, _, err = await tap.ended()
    assert status == 0, err
    assert "session ended" in err and "runtime" in err
    assert not is_running(pid)


async def test_a_killed_tap_is_an_ordinary_disconnect_and_leaves_nothing_running(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    plugin = plugin_file(tmp_path / "20-thing", ADJUSTS, start=TELLS_PID)
    async with tapping("--socket", socket, "-o", file, "--", plugin) as tap:
        pid = int((await tap.said("pid ")).split()[-1])
        await runtime.wait_plugins(1)
        await create(runtime, 3)
        await recorded_to(file, "CreateContainer", 3)
        relayer = relayer_of(tap.process.pid)
        tap.process.kill()
        await runtime.wait_for(lambda: not runtime.plugins)
        async with asyncio.timeout(PATIENCE):
            while is_running(pid) or is_running(relayer):
                await asyncio.sleep(0.01)
    assert names(file).count("CreateContainer") == 3


async def test_when_the_process_that_relays_is_killed_the_tap_says_so_and_ends(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    plugin = plugin_file(tmp_path / "20-thing", ADJUSTS)
    async with tapping("--socket", socket, "-o", file, "--", plugin) as tap:
        await runtime.wait_plugins(1)
        await create(runtime, 3)
        await recorded_to(file, "CreateContainer", 3)
        os.kill(relayer_of(tap.process.pid), signal.SIGKILL)
        status, _, err = await tap.ended()
    assert status == 2
    said = "relaying has stopped: the relay process ended, killed by SIGKILL"
    assert said in err
    assert names(file).count("CreateContainer") == 3


async def test_a_tap_that_stands_still_goes_on_relaying_and_says_what_it_cannot_record(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    plugin = plugin_file(tmp_path / "20-thing", ADJUSTS)
    async with tapping("--socket", socket, "-o", file, "--", plugin) as tap:
        await runtime.wait_plugins(1)
        await create(runtime)
        tap.process.send_signal(signal.SIGSTOP)
        answers = await create(runtime, 30, size=3_000_000)
        tap.process.send_signal(signal.SIGCONT)
        await tap.said("20-thing: recording stopped: the recorder could not follow")
    assert all(isinstance(answer.reply, api.CreateContainerResponse) for answer in answers)


async def test_a_recorder_that_cannot_write_is_none_of_the_plugins_business(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    plugin = plugin_file(tmp_path / "20-thing", ADJUSTS)
    options = ("--socket", socket, "-o", file, "--", plugin)
    async with tapping(*options, prefix=no_larger_than(2_000_000)) as tap:
        await runtime.wait_plugins(1)
        answers = await create(runtime, 150, size=50_000)
        # It is told of, and not waited for.
        await tap.said(f"{file}: ")
        answers += await create(runtime, 50)
    assert [answer.error for answer in answers] == [None] * 200
    assert names(file).count("CreateContainer") < 200


async def test_several_plugins_come_to_a_socket(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path, small_plugin: MakePlugin
) -> None:
    listen = tmp_path / "tap.sock"
    async with tapping("--socket", socket, "--listen", listen, "-o", file) as tap:
        await tap.said("plugins can connect")
        first, second = small_plugin("10-first"), small_plugin("20-second")
        for plugin in (first, second):
            await plugin.connect(listen)
            await plugin.register()
        await runtime.wait_plugins(2)
        await create(runtime)
        first.connected.close()
        await tap.said("10-first: session ended")
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


async def test_a_plugin_that_comes_when_the_runtime_is_away_is_closed_at_once(
    socket: Path, file: Path, tmp_path: Path, small_plugin: MakePlugin
) -> None:
    listen = tmp_path / "tap.sock"
    async with tapping("--socket", socket, "--listen", listen, "-o", file) as tap:
        await tap.said("plugins can connect")
        for _ in range(3):
            plugin = small_plugin()
            await plugin.connect(listen)
            await plugin.connected.wait_closed()
        status, _, err = await tap.interrupt()
    assert status == 0
    assert err.count("as there is no runtime") == 1
    assert not file.exists()


async def test_with_wait_a_plugin_is_kept_until_the_runtime_comes(
    socket: Path, file: Path, tmp_path: Path, small_plugin: MakePlugin
) -> None:
    listen = tmp_path / "tap.sock"
    async with tapping("--socket", socket, "--listen", listen, "-o", file, "--wait") as tap:
        await tap.said("plugins can connect")
        plugin = small_plugin()
        await plugin.connect(listen)
        registering = asyncio.ensure_future(plugin.register())
        await tap.said("waiting for a runtime")
        async with Runtime(ProfileSetUp(PROFILES["containerd-2.1"])) as runtime:
            await runtime.listen(socket)
            await registering
            await runtime.wait_plugins(1)
            await tap.interrupt()
    assert names(file)[0] in ("RegisterPlugin", "Configure")


async def test_faults_happen_to_the_runtime_and_are_announced_in_the_recording(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    plugin = plugin_file(tmp_path / "20-thing", ADJUSTS)
    options = ("--error", "CreateContainer", "--seed", "7")
    async with tapping("--socket", socket, "-o", file, *options, "--", plugin) as tap:
        await runtime.wait_plugins(1)
        (answer,) = await create(runtime)
        assert isinstance(answer.error, RpcError)
        status, _, err = await tap.interrupt()
    assert status == 0
    assert "1 answered with an error" in err
    with Recording.open(file) as recorded:
        assert any("--error CreateContainer" in note.text for note in recorded.notes())


async def test_a_second_plugin_of_the_same_name_is_warned_of(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path, small_plugin: MakePlugin
) -> None:
    listen = tmp_path / "tap.sock"
    async with tapping("--socket", socket, "--listen", listen, "-o", file) as tap:
        await tap.said("plugins can connect")
        for number in (1, 2):
            plugin = small_plugin("10-same")
            await plugin.connect(listen)
            await plugin.register()
            await runtime.wait_plugins(number)
        await tap.said("another plugin is tapped as 10-same")


async def test_a_plugin_that_takes_no_notice_of_a_signal_is_killed(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    body = """\
    def create_container(self, pod, container):
        print("busy", flush=True)
        while True:
            pass
"""
    plugin = plugin_file(tmp_path / "20-thing", body, start=TELLS_PID)
    async with tapping("--socket", socket, "-o", file, "--", plugin) as tap:
        pid = int((await tap.said("pid ")).split()[-1])
        await runtime.wait_plugins(1)
        creating = asyncio.ensure_future(create(runtime))
        await tap.said("busy")
        status, _, err = await tap.interrupt(signal.SIGTERM)
        (answer,) = await creating
    assert isinstance(answer.error, ConnectionClosed | DeadlineExceeded)
    assert status == 128 + signal.SIGTERM, err
    assert not is_running(pid)
    with Recording.open(file) as recorded:
        (event,) = [one for one in recorded.events() if one.event == "CreateContainer"]
        assert event.status != "ok"


async def test_with_wait_a_plugin_that_gives_up_is_forgotten(
    socket: Path, file: Path, tmp_path: Path, small_plugin: MakePlugin
) -> None:
    listen = tmp_path / "tap.sock"
    async with tapping("--socket", socket, "--listen", listen, "-o", file, "--wait") as tap:
        await tap.said("plugins can connect")
        for _ in range(3):
            plugin = small_plugin()
            await plugin.connect(listen)
            await tap.said("waiting for a runtime")
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


def refused(arguments: list[str | Path], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line with which the command refuses."""
    assert run(["tap", *map(str, arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1, err
    return err


def test_a_wrapper_is_neither_tapped_again_nor_replayed_to(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = plugin_file(tmp_path / "20-thing")
    assert run(["tap", "--wrap", str(plugin), "-o", str(file)]) == 0
    wrapper = plugin.read_bytes()
    capsys.readouterr()
    assert "is wrapped: it is tapped whenever a runtime launches it" in refused(
        ["--", plugin], capsys
    )
    assert run(["replay", str(RECORDING), "--", str(plugin)]) == 2
    assert "20-thing is wrapped" in capsys.readouterr().err
    assert plugin.read_bytes() == wrapper
    assert not file.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no plugin was given"),
        (["--", "no-such-program-here"], "no such program in the folders of PATH"),
        (["--", "/no/such/file"], "no such file"),
        (["--", "/tmp"], "it is a folder"),
        (["--listen", "x.sock", "--", "true"], "exclude each other"),
        (["--wrap", "10-x", "--unwrap", "10-x"], "exclude each other"),
        (["--unwrap", "10-x", "-o", "f"], "-o has no effect with --unwrap"),
        (["--wrap", "10-x", "--print", "text"], "--print has no effect with --wrap"),
        (["--wrap", "10-x", "--socket", "y"], "--socket has no effect with --wrap"),
        (["--listen", "x.sock", "--index", "10"], "--index is not valid with --listen"),
        (["--listen", "x.sock", "--env", "A=1"], "--env is not valid with --listen"),
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
        (["--delay", "NoSuchEvent=1s", "--", "true"], "NoSuchEvent"),
        (["--drop", "all:2", "--", "true"], "2"),
    ],
)
def test_what_cannot_be_is_one_line(
    arguments: list[str | Path],
    words: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert words in refused(arguments, capsys)
    assert list(tmp_path.iterdir()) == []


async def fails(*arguments: str | Path) -> str:
    """What is said where the tap cannot be; the file is not there then."""
    async with tapping(*arguments) as tap:
        status, out, err = await tap.ended()
    assert (status, out) == (2, ""), err
    assert err.splitlines()[-1].startswith("nri-scope: "), err
    return err.splitlines()[-1]


async def test_without_a_runtime_no_plugin_is_started(
    socket: Path, file: Path, tmp_path: Path
) -> None:
    plugin = tmp_path / "10-plugin"
    plugin.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    plugin.chmod(0o755)
    assert "no such socket" in await fails("--socket", socket, "-o", file, "--", plugin)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["10-plugin"]


async def test_a_file_that_is_something_else_is_left_alone(
    runtime: Runtime, socket: Path, tmp_path: Path
) -> None:
    file = tmp_path / "letter.txt"
    file.write_text("dear all")
    await fails("--socket", socket, "-o", file, "--", "/bin/true")
    assert file.read_text() == "dear all"


async def test_a_program_that_is_no_plugin(runtime: Runtime, socket: Path, file: Path) -> None:
    line = await fails(
        "--socket", socket, "-o", file, "--", "/bin/sh", "-c", "echo why >&2; exit 0"
    )
    assert "never registered" in line and "exit status 0" in line and "why" in line
    assert not file.exists()


async def test_a_plugin_that_connects_by_itself_is_told_how_to_be_tapped(
    socket: Path, file: Path
) -> None:
    profile = replace(PROFILES["containerd-2.1"], registration_timeout_ms=300)
    async with Runtime(ProfileSetUp(profile)) as runtime:
        await runtime.listen(socket)
        line = await fails("--socket", socket, "-o", file, "--", "/bin/sleep", "1000")
    assert "did not register" in line and "--listen" in line
    assert not file.exists()


async def test_a_refused_registration_is_told_in_the_runtimes_words(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    plugin = plugin_file(tmp_path / "20-thing", start="os.environ['NRI_PLUGIN_IDX'] = 'xx'")
    line = await fails("--socket", socket, "-o", file, "--", plugin)
    assert "refused" in line and "index" in line


async def test_at_a_socket_a_refused_registration_is_told_likewise(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path, small_plugin: MakePlugin
) -> None:
    listen = tmp_path / "tap.sock"
    async with tapping("--socket", socket, "--listen", listen, "-o", file) as tap:
        await tap.said("plugins can connect")
        plugin = small_plugin("xx-thing")
        await plugin.connect(listen)
        with pytest.raises((RpcError, ConnectionClosed)):
            await plugin.register()
        plugin.connected.close()
        line = await tap.said("xx-thing: the runtime refused the registration")
        assert "index" in line
        await tap.interrupt()


async def test_a_plugin_that_speaks_nonsense_is_relayed_and_ends_with_its_connection(
    runtime: Runtime, socket: Path, file: Path
) -> None:
    talk = "printf 'GET / HTTP/1.1\\r\\n\\r\\nxxxxxxxxxxxxxxxx' >&3; exec sleep 1000"
    line = await fails("--socket", socket, "-o", file, "--", "/bin/sh", "-c", talk)
    assert "/bin/sh" in line
    assert not file.exists()


async def test_a_plugin_that_registers_twice_is_told_off_by_the_runtime_alone(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path, small_plugin: MakePlugin
) -> None:
    listen = tmp_path / "tap.sock"
    async with tapping("--socket", socket, "--listen", listen, "-o", file) as tap:
        await tap.said("plugins can connect")
        plugin = small_plugin("10-twice")
        await plugin.connect(listen)
        await plugin.register()
        await runtime.wait_plugins(1)
        with pytest.raises(RpcError) as told:
            await plugin.register()
        await create(runtime)
        await tap.interrupt()
    with Recording.open(file) as recorded:
        assert len(recorded.sessions()) == 1
        first, again = (e for e in recorded.events() if e.event == "RegisterPlugin")
        assert (first.status, again.status_message) == ("ok", told.value.message)


async def test_two_taps_cannot_write_to_one_file(
    runtime: Runtime, socket: Path, file: Path, tmp_path: Path
) -> None:
    listen = tmp_path / "tap.sock"
    async with tapping("--socket", socket, "--listen", listen, "-o", file) as tap:
        await tap.said("plugins can connect")
        line = await fails("--socket", socket, "--listen", tmp_path / "other.sock", "-o", file)
        assert str(file) in line
        line = await fails("--socket", socket, "--listen", listen, "-o", tmp_path / "other.db")
        assert "another process already listens here" in line
        assert not (tmp_path / "other.db").exists()


def test_a_wrapped_plugin_is_told_of_and_comes_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = plugin_file(tmp_path / "20-thing")
    before = plugin.read_bytes()
    file = tmp_path / "w.nriscope.db"
    assert run(["tap", "--wrap", str(plugin), "-o", str(file)]) == 0
    assert f"to {file}" in capsys.readouterr().err
    assert "already wrapped" in refused(["--wrap", plugin, "-o", file], capsys)
    assert run(["tap", "--unwrap", str(plugin)]) == 0
    assert plugin.read_bytes() == before
    capsys.readouterr()
    assert "is not wrapped" in refused(["--unwrap", plugin], capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["20-thing"]


def test_a_program_that_others_can_change_is_warned_of(
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


def test_wrapping_to_a_file_that_is_something_else_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = plugin_file(tmp_path / "20-thing")
    (tmp_path / "letter").write_text("dear all")
    refused(["--wrap", plugin, "-o", tmp_path / "letter"], capsys)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["20-thing", "letter"]


# -- a wrapped plugin, launched by a runtime ----------------------------------------------------


async def test_a_wrapped_plugin_is_launched_as_before_and_recorded(
    runtime: Runtime, file: Path, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    start = f"open({str(told)!r}, 'w').write(repr(({ENVIRONMENT}, os.getcwd())))"
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
    environment, folder = eval(told.read_text())
    identity = {"NRI_PLUGIN_NAME=thing", "NRI_PLUGIN_IDX=20"}
    assert set(environment) == identity | {"NRI_PLUGIN_SOCKET=3"}
    assert folder == str(Path.cwd())
    await recorded_to(file, "CreateContainer", 1)
    await runtime.drop("20-thing")
    with Recording.open(file) as recorded:
        (session,) = recorded.sessions()
        assert (session.role, session.plugin) == (Role.TAP, "20-thing")
        assert "CreateContainer" in [event.event for event in recorded.events()]
        (configure,) = [event.id for event in recorded.events() if event.event == "Configure"]
        told_it = api.ConfigureRequest.FromString(recorded.request(configure))
        assert told_it.config == "a: 1\n"


async def test_no_shell_adds_to_a_wrapped_plugins_variables(
    runtime: Runtime, file: Path, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    start = f"open({str(told)!r}, 'w').write(repr({ENVIRONMENT}))"
    plugin = plugin_file(tmp_path / "20-thing", start=start)
    assert run(["tap", "--wrap", str(plugin), "-o", str(file)]) == 0
    wrapper = plugin.read_text()
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    plugin.write_text(wrapper.replace("#!/bin/sh", f"#!{bash} --posix", 1))
    await runtime.launch(plugin)
    identity = {"NRI_PLUGIN_NAME=thing", "NRI_PLUGIN_IDX=20"}
    assert set(eval(told.read_text())) == identity | {"NRI_PLUGIN_SOCKET=3"}


@pytest.mark.parametrize(
    "broken", ["no nri-scope", "no place to record to", "bad settings", "nothing relays"]
)
async def test_where_the_tap_cannot_be_the_plugin_runs_without_it(
    broken: str, runtime: Runtime, file: Path, tmp_path: Path
) -> None:
    plugin = plugin_file(tmp_path / "20-thing", ADJUSTS)
    assert run(["tap", "--wrap", str(plugin), "-o", str(file)]) == 0
    kept = tmp_path / ".nri-scope" / "20-thing"
    if broken == "no nri-scope":
        starter = kept / "start.py"
        starter.write_text(
            starter.read_text().replace("nri_scope.cli.wrapped_plugin", "nri_scope.gone")
        )
    elif broken == "bad settings":
        (kept / "tap.json").write_text("{")
    elif broken == "nothing relays":
        starter = kept / "start.py"
        gone = "import nri_scope.process.child as child; child.START = '/nowhere'"
        starter.write_text(
            starter.read_text().replace(
                "        run_wrapped(", f"        {gone}\n        run_wrapped("
            )
        )
    else:
        file.write_text("something else")
    await runtime.launch(plugin)
    (answer,) = await create(runtime)
    assert isinstance(answer.reply, api.CreateContainerResponse)
    assert [env.key for env in answer.reply.adjust.env] == ["TAPPED"]
    assert (kept / "untapped.txt").read_text().count("\n") == 1
    if broken in ("no place to record to", "nothing relays"):
        assert "without a tap" in (tmp_path / f"{file.name}.log").read_text()


def test_a_wrapped_plugin_that_a_person_runs_is_itself(tmp_path: Path, file: Path) -> None:
    plugin = tmp_path / "20-thing"
    plugin.write_text('#!/bin/sh\necho "usage: $1"\n')
    plugin.chmod(0o755)
    assert run(["tap", "--wrap", str(plugin), "-o", str(file)]) == 0
    done = subprocess.run([plugin, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout == "usage: --help\n"
    assert not file.exists()
