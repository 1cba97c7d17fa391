# SPDX-License-Identifier: Apache-2.0
"""``diff --live`` end to end: two processes, an emulated runtime, real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from nri_scope._gen.cri.runtime import v1
from nri_scope.cli.main import run
from nri_scope.events import CONTAINER_STATUS
from nri_scope.recording.reading.event_messages import status_request
from nri_scope.recording.reading.reader import Recording
from nri_scope.runtime import Profile
from tests.amount import sampled
from tests.cli.annotating_plugins import MIDDLE, NEW, OLD, annotating, create
from tests.cli.live_process import PATIENCE, Live, live
from tests.cri.fake_runtime import FakeRuntime, listening
from tests.cri.peers import Relay, replying
from tests.runtime_emulation.runtime import Runtime


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


def children(live: Live) -> list[int]:
    """Return the ids of the processes that a command has started."""
    pid = live.process.pid
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(number) for number in text.split()]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def handles_signal(live: Live, number: signal.Signals) -> bool:
    """Return whether the command handles this signal."""
    status = Path(f"/proc/{live.process.pid}/status").read_text()
    (mask,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(mask, 16) >> (number - 1) & 1)


def changes(out: str) -> list[tuple[str, str]]:
    """Return paths and owners of all requested changes in lines of JSON, one for each round."""
    return [
        (change["path"], str(change["index"]))
        for line in out.splitlines()
        if line
        for document in [json.loads(line)]
        for change in (*document["changes"], *document["requests"])
    ]


# -- output -------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", sampled([OLD, MIDDLE, NEW]))
async def test_changes_are_printed_while_they_happen(profile: Profile, tmp_path: Path) -> None:
    async with Runtime(profile) as runtime:
        await runtime.listen(tmp_path / "s")
        for name in ("20-a", "60-b"):
            await annotating(name, runtime.profile.mask).join(runtime)
        async with live("--socket", tmp_path / "s", folder=tmp_path) as one:
            await runtime.wait_plugins(5)
            await create(runtime)
            assert "one of 01–49" in await one.wait_for_output("annotations[20-a]")
            assert "one of 51–98" in await one.wait_for_output("annotations[60-b]")
            status, _, errors = await one.interrupt()
    assert status == 1
    assert "probe 50-nri-scope at containerd" in errors
    assert "events in 3 sessions over" in errors.splitlines()[-1]
    # Without -o, the recording is deleted.
    assert [path.name for path in tmp_path.iterdir()] == []


async def test_status_is_0_without_changes(tmp_path: Path) -> None:
    async with Runtime(MIDDLE) as runtime:
        await runtime.listen(tmp_path / "s")
        async with live("--socket", tmp_path / "s", folder=tmp_path) as one:
            await runtime.wait_plugins(3)
            await create(runtime)
            status, out, _ = await one.interrupt(signal.SIGTERM)
    assert status == 0
    assert "CreateContainer" not in out


@pytest.mark.exhaustive
async def test_the_recording_can_be_kept_and_continued(tmp_path: Path) -> None:
    path = tmp_path / "kept.nriscope.db"
    async with Runtime(MIDDLE) as runtime:
        await runtime.listen(tmp_path / "s")
        await annotating("20-a").join(runtime)
        arguments = ("--socket", tmp_path / "s", "-o", path, "--format", "json")
        async with live(*arguments, "--probes", "10,30", "--name", "p", folder=tmp_path) as one:
            await runtime.wait_plugins(3)
            await create(runtime)
            status, out, errors = await one.interrupt()
        assert status == 1
        assert ("/annotations/20-a", "11–29") in changes(out)
        assert errors.splitlines()[-1].endswith(str(path))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with Recording.open(path) as recording:
            assert [session.plugin for session in recording.sessions()] == ["10-p", "30-p"]
            assert {session.role for session in recording.sessions()} == {"probe"}
        # A second run continues it, and prints only new changes.
        async with live(*arguments, "--duration", "400ms", folder=tmp_path) as one:
            status, out, errors = await one.wait_for_exit()
        assert (status, changes(out)) == (0, [])
    with Recording.open(path) as recording:
        assert len(recording.sessions()) == 5


@pytest.mark.exhaustive
async def test_where_limits_the_output_but_not_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "kept.nriscope.db"
    async with Runtime(MIDDLE) as runtime:
        await runtime.listen(tmp_path / "s")
        await annotating("20-a").join(runtime)
        async with live(
            *("--socket", tmp_path / "s", "-o", path, "--format", "json"),
            *("--where", "container:two event:CreateContainer"),
            folder=tmp_path,
        ) as one:
            await runtime.wait_plugins(4)
            await create(runtime, "one")
            await create(runtime, "two")
            _, out, _ = await one.interrupt()
    (line,) = out.splitlines()
    assert "shop/web/two" in line
    with Recording.open(path) as recording:
        assert {container.name for container in recording.containers()} == {"one", "two"}


# -- lifetime -----------------------------------------------------------------------------------


@pytest.mark.exhaustive
async def test_the_probes_reconnect_to_a_restarted_runtime(tmp_path: Path) -> None:
    async with Runtime(MIDDLE) as runtime:
        await runtime.listen(tmp_path / "s")
        context = live("--socket", tmp_path / "s", "--format", "json", folder=tmp_path)
        one = await context.__aenter__()
        await runtime.wait_plugins(3)
    try:
        await one.wait_for_text("it connects again")
        async with Runtime(NEW) as runtime:
            await runtime.listen(tmp_path / "s")
            await annotating("20-a", NEW.mask).join(runtime)
            await runtime.wait_plugins(4)
            await create(runtime)
            status, out, errors = await one.interrupt()
    finally:
        await context.__aexit__(None, None, None)
    assert status == 1
    assert ("/annotations/20-a", "01–49") in changes(out)
    assert "in 6 sessions over" in errors


async def test_a_lost_probe_widens_owners_until_it_reconnects(tmp_path: Path) -> None:
    async with Runtime(MIDDLE) as runtime:
        await runtime.listen(tmp_path / "s")
        await annotating("20-a").join(runtime)
        async with live("--socket", tmp_path / "s", "--format", "json", folder=tmp_path) as one:
            await runtime.wait_plugins(4)
            lost = next(plugin for plugin in runtime.plugins if plugin.index == "50")
            lost.link.abort()
            await runtime.wait_for(lambda: lost not in runtime.plugins)
            await create(runtime, "without")
            await one.wait_for_text("probe 50: session ended")
            await runtime.wait_plugins(4)
            await create(runtime, "with")
            _, out, _ = await one.interrupt()
    owners = [index for path, index in changes(out) if path == "/annotations/20-a"]
    assert owners[0] in ("01–98", "01–49")
    assert "01–49" in owners


@pytest.mark.exhaustive
async def test_once_ends_with_the_runtime(tmp_path: Path) -> None:
    async with Runtime(MIDDLE) as runtime:
        await runtime.listen(tmp_path / "s")
        await annotating("20-a").join(runtime)
        context = live("--socket", tmp_path / "s", "--once", "--format", "json", folder=tmp_path)
        one = await context.__aenter__()
        await runtime.wait_plugins(4)
        await create(runtime)
    try:
        status, out, _ = await one.wait_for_exit()
    finally:
        await context.__aexit__(None, None, None)
    assert status == 1
    assert ("/annotations/20-a", "01–49") in changes(out)


@pytest.mark.exhaustive
async def test_interrupt_while_waiting_leaves_no_files(tmp_path: Path) -> None:
    async with live("--socket", tmp_path / "s", "--wait", folder=tmp_path) as one:
        await one.wait_for_text("waiting for a runtime")
        status, out, errors = await one.interrupt()
    assert (status, out) == (0, "")
    assert "no events: no runtime was available" in errors
    assert list(tmp_path.iterdir()) == []


@pytest.mark.exhaustive
async def test_a_closed_output_pipe_ends_the_command(tmp_path: Path) -> None:
    async with Runtime(MIDDLE) as runtime:
        await runtime.listen(tmp_path / "s")
        async with live("--socket", tmp_path / "s", folder=tmp_path) as one:
            await runtime.wait_plugins(3)
            (child,) = children(one)
            assert one.process.stdout is not None
            one.process.stdout._transport.close()  # type: ignore[attr-defined]
            async with asyncio.timeout(PATIENCE):
                assert await one.process.wait() == 0
            assert not is_running(child)
        await runtime.wait_for(lambda: not runtime.plugins)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.exhaustive
async def test_a_blocked_output_delays_no_reply(tmp_path: Path) -> None:
    async with Runtime(MIDDLE) as runtime:
        await runtime.listen(tmp_path / "s")
        await annotating("20-a").join(runtime)
        async with live("--socket", tmp_path / "s", folder=tmp_path) as one:
            await runtime.wait_plugins(4)
            assert one.process.stdout is not None
            one.process.stdout._transport.pause_reading()  # type: ignore[attr-defined]
            # Far more than fits into a pipe; no reply exceeds the runtime's deadline.
            for number in range(150):
                await create(runtime, f"c{number}")
            one.process.stdout._transport.resume_reading()  # type: ignore[attr-defined]
            status, out, errors = await one.interrupt()
    assert status == 1
    assert out.count("annotations[20-a]") >= 150
    assert ", 0 gaps" in errors


@pytest.mark.exhaustive
async def test_a_killed_viewer_ends_the_probes_and_leaves_no_files(tmp_path: Path) -> None:
    async with Runtime(MIDDLE) as runtime:
        await runtime.listen(tmp_path / "s")
        async with live("--socket", tmp_path / "s", folder=tmp_path) as one:
            await runtime.wait_plugins(3)
            (child,) = children(one)
            await wait_until(lambda: any(tmp_path.glob("nri-scope-*/*.db")))
            one.process.kill()
            await wait_until(lambda: not is_running(child))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.exhaustive
async def test_a_killed_recorder_ends_the_command_with_an_error(tmp_path: Path) -> None:
    async with Runtime(MIDDLE) as runtime:
        await runtime.listen(tmp_path / "s")
        await annotating("20-a").join(runtime)
        async with live("--socket", tmp_path / "s", folder=tmp_path) as one:
            await runtime.wait_plugins(4)
            await create(runtime)
            await one.wait_for_output("annotations[20-a]")
            (child,) = children(one)
            os.kill(child, signal.SIGKILL)
            status, _, errors = await one.wait_for_exit()
    assert status == 2
    assert errors.splitlines()[-1] == (
        "nri-scope: the recorder process has ended, killed by SIGKILL"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
async def test_a_stopped_recorder_ends_its_sessions(number: signal.Signals, tmp_path: Path) -> None:
    path = tmp_path / "kept.nriscope.db"
    async with Runtime(MIDDLE) as runtime:
        await runtime.listen(tmp_path / "s")
        async with live("--socket", tmp_path / "s", "-o", path, folder=tmp_path) as one:
            await runtime.wait_plugins(3)
            (child,) = children(one)
            os.kill(child, signal.SIGSTOP)
            one.process.send_signal(number)
            await wait_until(lambda: not is_running(child))
    with Recording.open(path) as recording:
        assert [bool(session.ended_ns) for session in recording.sessions()] == [True] * 3


@pytest.mark.exhaustive
async def test_a_killed_viewer_leaves_a_complete_recording(tmp_path: Path) -> None:
    path = tmp_path / "kept.nriscope.db"
    async with Runtime(MIDDLE) as runtime:
        await runtime.listen(tmp_path / "s")
        async with live("--socket", tmp_path / "s", "-o", path, folder=tmp_path) as one:
            await runtime.wait_plugins(3)
            await create(runtime)
            (child,) = children(one)
            one.process.kill()
            await wait_until(lambda: not is_running(child))
    with Recording.open(path) as recording:
        assert all(session.ended_ns for session in recording.sessions())
        assert "StartContainer" in {event.event for event in recording.events()}


@pytest.mark.exhaustive
async def test_interrupting_both_processes_shows_all_changes(tmp_path: Path) -> None:
    async with Runtime(MIDDLE) as runtime:
        await runtime.listen(tmp_path / "s")
        await annotating("20-a").join(runtime)
        async with live("--socket", tmp_path / "s", "--format", "json", folder=tmp_path) as one:
            await runtime.wait_plugins(4)
            await create(runtime)
            # As a terminal does for ^C.
            os.killpg(one.process.pid, signal.SIGINT)
            status, out, errors = await one.wait_for_exit()
    assert status == 1
    assert ("/annotations/20-a", "01–49") in changes(out)
    assert "Traceback" not in errors


@pytest.mark.exhaustive
async def test_nohup_survives_sighup(tmp_path: Path) -> None:
    async with Runtime(MIDDLE) as runtime:
        await runtime.listen(tmp_path / "s")
        await annotating("20-a").join(runtime)
        async with live("--socket", tmp_path / "s", folder=tmp_path, prefix=("nohup",)) as one:
            await runtime.wait_plugins(4)
            # A terminal signals all of its processes.
            os.killpg(one.process.pid, signal.SIGHUP)
            await create(runtime)
            await one.wait_for_output("annotations[20-a]")
            status, _, errors = await one.interrupt()
    assert status == 1, errors


@pytest.mark.exhaustive
async def test_a_second_interrupt_ends_a_blocked_output(tmp_path: Path) -> None:
    async with Runtime(MIDDLE) as runtime:
        await runtime.listen(tmp_path / "s")
        await annotating("20-a").join(runtime)
        reading, writing = os.pipe()
        async with live(
            "--socket", tmp_path / "s", "--all", folder=tmp_path, stdout=writing
        ) as one:
            os.close(writing)
            await runtime.wait_plugins(4)
            for number in range(300):
                await create(runtime, f"c{number}")
            one.process.send_signal(signal.SIGINT)
            await one.wait_for_text("events in 3 sessions")
            assert one.process.returncode is None
            one.process.send_signal(signal.SIGINT)
            status, _, errors = await one.wait_for_exit()
        os.close(reading)
    assert status == 2
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


@pytest.mark.exhaustive
async def test_a_write_error_of_the_output_is_reported(tmp_path: Path) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    async with Runtime(MIDDLE) as runtime:
        await runtime.listen(tmp_path / "s")
        await annotating("20-a").join(runtime)
        async with live("--socket", tmp_path / "s", folder=tmp_path, stdout=full) as one:
            os.close(full)
            # Its first lines are of Synchronize, possibly before all probes are connected.
            status, _, errors = await one.wait_for_exit()
    assert status == 2
    assert errors.splitlines()[-1].startswith("nri-scope: cannot write to standard output")


# -- the CRI --------------------------------------------------------------------------------------


def cri_with_spec(text: str = '{"runtimeSpec": {"hostname": "x"}}') -> FakeRuntime:
    cri = FakeRuntime()
    cri.status_answer = v1.ContainerStatusResponse(
        status=v1.ContainerStatus(id="x"), info={"info": text}
    )
    return cri


async def test_the_cri_is_queried_for_the_applied_spec(tmp_path: Path) -> None:
    path = tmp_path / "kept.nriscope.db"
    cri = cri_with_spec()
    async with Runtime(MIDDLE) as runtime, listening(cri, tmp_path / "cri"):
        await runtime.listen(tmp_path / "s")
        await annotating("20-a").join(runtime)
        async with live(
            *("--socket", tmp_path / "s", "-o", path, "--cri", tmp_path / "cri"), folder=tmp_path
        ) as one:
            await runtime.wait_plugins(4)
            await create(runtime)
            await wait_until(lambda: bool(cri.requests))
            status, _, errors = await one.interrupt()
    assert status == 1
    assert "the CRI answered" in errors
    with Recording.open(path) as recording:
        (session,) = [session for session in recording.sessions() if session.role == "cri"]
        assert (session.plugin, session.runtime_name) == ("cri", "containerd")
        answers = [event for event in recording.events() if event.method == CONTAINER_STATUS]
        assert answers
        for event in answers:
            assert (event.container, event.pod) == ("app", "web")
            assert recording.request(event.id) == status_request("app-0123456789")
            assert recording.reply(event.id) == b'{"runtimeSpec": {"hostname": "x"}}'


@pytest.mark.exhaustive
async def test_a_lost_cri_is_reported_once_and_ends_nothing(tmp_path: Path) -> None:
    path = tmp_path / "kept.nriscope.db"
    cri, relay = cri_with_spec(), Relay(tmp_path / "real")
    async with Runtime(MIDDLE) as runtime, listening(cri, tmp_path / "real"):
        await runtime.listen(tmp_path / "s")
        await annotating("20-a").join(runtime)
        arguments = ("--socket", tmp_path / "s", "--cri", tmp_path / "cri", "-o", path)
        async with contextlib.AsyncExitStack() as stack:
            async with relay.listening(tmp_path / "cri"):
                one = await stack.enter_async_context(live(*arguments, folder=tmp_path))
                await runtime.wait_plugins(4)
                await create(runtime, "first")
                await wait_until(lambda: cri_sessions(path) == 1)
            for number in range(3):
                await create(runtime, f"later-{number}")
            await one.wait_for_text("until the CRI is available, applied changes are not confirmed")
            async with relay.listening(tmp_path / "cri"):
                await one.wait_for_text("the CRI is available again")
                await wait_until(lambda: cri_sessions(path) == 2)
                status, out, errors = await one.interrupt()
    assert status == 1
    assert errors.count("are not confirmed") == 1
    assert "shop/web/later-2" in out
    assert cri_sessions(path) == 2


def cri_sessions(path: Path) -> int:
    """Return the number of recorded connections to the CRI."""
    with Recording.open(path) as recording:
        return sum(session.role == "cri" for session in recording.sessions())


async def test_sigterm_ends_the_command_while_the_cri_does_not_answer(tmp_path: Path) -> None:
    async with replying(None, tmp_path / "cri"):
        arguments = ("--socket", tmp_path / "s", "--cri", tmp_path / "cri")
        async with live(*arguments, folder=tmp_path) as one:
            await wait_until(lambda: bool(children(one)))
            # Its signal handlers are set shortly after the other process has started.
            await wait_until(lambda: handles_signal(one, signal.SIGTERM))
            status, out, errors = await one.interrupt(signal.SIGTERM)
    assert (status, out, errors) == (0, "", "")


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    sampled(
        [
            (("--probes", "50"), "two probes"),
            (("--probes", "00,5"), "'5' is not a plugin index"),
            (("--probes", "00,50,00"), "twice"),
            ((), "no such socket"),
            (("--cri", "{folder}/none"), "no such socket"),
            (("--cri", "{folder}/file"), "not a socket"),
            (("-o", "{folder}/file"), "not an nri-scope recording"),
            (("-o", "{folder}"), "it is a folder"),
            (("-o", "{folder}/none/x.nriscope.db"), "no such folder"),
        ],
        4,
    ),
)
def test_invalid_input_prints_one_line(
    arguments: tuple[str, ...],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "file").write_text("something else, long enough to be something " * 20)
    options = [argument.format(folder=tmp_path) for argument in arguments]
    assert run(["diff", "--live", "--socket", str(tmp_path / "s"), *options]) == 2
    out, errors = capfd.readouterr()
    assert out == ""
    assert len(errors.splitlines()) == 1, errors
    assert words in errors
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.exhaustive
async def test_invalid_input_ends_the_process_with_status_2(tmp_path: Path) -> None:
    async with live("--socket", tmp_path / "s", folder=tmp_path) as one:
        status, out, errors = await one.wait_for_exit()
    assert (status, out) == (2, "")
    assert "no such socket" in errors
    assert list(tmp_path.iterdir()) == []
