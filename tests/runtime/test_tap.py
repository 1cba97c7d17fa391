# SPDX-License-Identifier: Apache-2.0
"""Tapped plugins with a real containerd, also if one of the processes is killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import RpcError
from nri_scope.nri.events import events_in
from nri_scope.recording.reading.reader import Recording
from nri_scope.wire import Code
from tests.cli.tap_process import PATIENCE, Tap, plugin_file, tapping
from tests.cli.writer_processes import cmdline, writer_of
from tests.interop.build import Unavailable, Variant, build
from tests.runtime.testbed.containerd import Containerd, running
from tests.runtime.testbed.driver import Driver, assert_healthy
from tests.runtime.testbed.happened import Happened, in_order
from tests.runtime.testbed.packages import Binaries
from tests.runtime.testbed.record import happened, log, nri_scope, rows
from tests.runtime_emulation.scripts import is_running

pytestmark = pytest.mark.runtime

FAILURES = 3
"""Repetitions of each failure of a wrapped plugin."""
GO, PYTHON, WRAPPED = "20-go", "30-python", "40-wrapped"


def adjusting(variable: str) -> str:
    """The methods of a Python plugin that sets a variable and prints its process id."""
    return f"""\
    def configure(self, *_):
        print("pid", os.getpid(), flush=True)

    def create_container(self, pod, container):
        return api.ContainerAdjustment(env=[api.KeyValue(key={variable!r}, value="yes")])
"""


@pytest.fixture
def go_plugin() -> Path:
    try:
        return build(Variant.NRI_0_8).plugin
    except Unavailable as error:
        pytest.skip(f"the Go reference cannot be built: {error}")


class Crew:
    """A Go and a Python plugin, each with its own tap, and a wrapped plugin."""

    def __init__(self, containerd: Containerd, folder: Path, go_plugin: Path) -> None:
        self.containerd = containerd
        self.files = {name: folder / f"{name}.nriscope.db" for name in (GO, PYTHON, WRAPPED)}
        self.taps: dict[str, Tap] = {}
        self._commands: dict[str, list[str | Path]] = {
            GO: [folder / GO, "-env=GO"],
            PYTHON: [plugin_file(folder / PYTHON, adjusting("PYTHON"))],
        }
        (folder / GO).symlink_to(go_plugin)
        self._stack = AsyncExitStack()

    async def wrap(self) -> None:
        """Install and wrap a plugin, before containerd starts."""
        plugin = plugin_file(self.containerd.layout.plugins / WRAPPED, adjusting("WRAPPED"))
        await nri_scope("tap", "--wrap", plugin, "-o", self.files[WRAPPED])

    async def start(self, name: str) -> None:
        """Start a tap with its plugin, and wait until containerd has added it to the chain."""
        before = self.containerd.connections(name)
        options = ("--socket", self.containerd.nri_socket, "-o", self.files[name])
        self.taps[name] = await self._stack.enter_async_context(
            tapping(*options, "--", *self._commands[name])
        )
        async with asyncio.timeout(PATIENCE):
            while self.containerd.connections(name) == before:
                await asyncio.sleep(0.01)

    async def end(self) -> None:
        """Stop the taps, and containerd, which ends its launched plugins."""
        for tap in self.taps.values():
            if tap.process.returncode is None:
                await tap.interrupt()
        await self.containerd.stop()

    async def recorded(self, name: str) -> list[Happened]:
        """Recorded events of pods and containers."""
        return [one for one in happened(await log(self.files[name])) if one.pod_id]

    def expected(self, name: str, driver: Driver, seen: list[Happened]) -> list[Happened]:
        """Expected events, limited to the plugin's subscription."""
        with Recording.open(self.files[name]) as recorded:
            names = {event.name for event in events_in(recorded.sessions()[0].mask)}
        return [one for one in in_order(driver.steps, seen) if one.event in names]

    def answers(self, name: str) -> list[str]:
        """Variables set by a plugin, one for each container."""
        found: list[str] = []
        with Recording.open(self.files[name]) as recorded:
            for event in recorded.events():
                if event.event == "CreateContainer" and event.status == "ok":
                    reply = api.CreateContainerResponse.FromString(recorded.reply(event.id))
                    found += [env.key for env in reply.adjust.env]
        return found

    def wrapper_pid(self) -> int:
        """Id of the process that containerd launched for the wrapped plugin."""
        starter = os.fsencode(self.containerd.layout.plugins / ".nri-scope" / WRAPPED / "start.py")
        # Children of any of its threads.
        for path in Path(f"/proc/{self.containerd.pid}/task").glob("*/children"):
            for pid in map(int, path.read_text().split()):
                if starter in cmdline(pid):
                    return pid
        raise AssertionError("the wrapped plugin does not run")

    @classmethod
    @asynccontextmanager
    async def at_work(cls, binaries: Binaries, folder: Path, go: Path) -> AsyncIterator[Crew]:
        """Start containerd with all three plugins connected."""
        async with running(binaries, start=False) as containerd:
            crew = cls(containerd, folder, go)
            async with crew._stack:
                await crew.wrap()
                await containerd.start()
                await crew.start(GO)
                await crew.start(PYTHON)
                yield crew


async def variables(containerd: Containerd, container_id: str) -> set[str]:
    """Names of the environment variables with which a container was started."""
    info = json.loads(await containerd.cri.container_info(container_id))
    return {one.partition("=")[0] for one in info["runtimeSpec"]["process"]["env"]}


async def test_three_plugins_are_tapped_simultaneously(
    binaries: Binaries, tmp_path: Path, go_plugin: Path
) -> None:
    async with Crew.at_work(binaries, tmp_path, go_plugin) as crew:
        driver = Driver(crew.containerd)
        pod = await driver.run_pod("shop", "web")
        app = await driver.run(pod, "app")
        assert {"GO", "PYTHON", "WRAPPED"} <= await variables(crew.containerd, app.id)
        await driver.remove_pod(pod)
        for number in range(3):
            await driver.live("shop", f"web-{number}")
        await crew.end()
        for name, variable in ((GO, "GO"), (PYTHON, "PYTHON"), (WRAPPED, "WRAPPED")):
            seen = await crew.recorded(name)
            assert seen == crew.expected(name, driver, seen), name
            assert crew.answers(name) == [variable] * 4
            assert rows(
                crew.files[name], "SELECT role, plugin_index || '-' || plugin_name FROM session"
            ) == [("tap", name)]
        plugin = crew.containerd.layout.plugins / WRAPPED
        await nri_scope("tap", "--unwrap", plugin)
        assert [path.name for path in plugin.parent.iterdir()] == [WRAPPED]
        size = crew.files[WRAPPED].stat().st_size
        await crew.containerd.start()
        driver = Driver(crew.containerd)
        pod = await driver.run_pod("shop", "again")
        app = await driver.run(pod, "app")
        assert {"WRAPPED"} == await variables(crew.containerd, app.id) & {"GO", "PYTHON", "WRAPPED"}
        assert crew.files[WRAPPED].stat().st_size == size


@pytest.mark.parametrize("missing", ["python", "nri-scope", "recording"])
async def test_a_wrapped_plugin_runs_if_the_tap_cannot_start(
    missing: str, binaries: Binaries, tmp_path: Path
) -> None:
    """With NRI up to 0.6, a plugin that fails to start prevents containerd from starting."""
    async with running(binaries, start=False) as containerd:
        plugin = plugin_file(containerd.layout.plugins / WRAPPED, adjusting("WRAPPED"))
        file = tmp_path / "w.nriscope.db"
        await nri_scope("tap", "--wrap", plugin, "-o", file)
        if missing == "python":
            plugin.write_text(plugin.read_text().replace(sys.executable, "/no/python"))
        elif missing == "nri-scope":
            starter = plugin.parent / ".nri-scope" / WRAPPED / "start.py"
            starter.write_text(starter.read_text().replace("from nri_scope.", "from nri_gone."))
        else:
            file.mkdir()
        await containerd.start()
        driver = Driver(containerd)
        app = await driver.run(await driver.run_pod("shop", "web"), "app")
        assert "WRAPPED" in await variables(containerd, app.id)
        assert not file.is_file()


@pytest.mark.parametrize("victim", ["plugin", "tap", "writer", "wrapper", "containerd"])
async def test_events_survive_a_killed_process(
    victim: str, binaries: Binaries, tmp_path: Path, go_plugin: Path
) -> None:
    async with Crew.at_work(binaries, tmp_path, go_plugin) as crew:
        driver = Driver(crew.containerd)
        tap = crew.taps[PYTHON]
        plugin_pid = int((await tap.wait_for_text("pid ")).split()[-1])
        for number in range(2):
            await driver.live("shop", f"before-{number}")
        busy = asyncio.ensure_future(driver.live("shop", "meanwhile"))
        await asyncio.sleep(0.15)
        certain = set(in_order(driver.steps, [])[: driver.events_before(time.monotonic() - 0.1)])
        if victim == "plugin":
            os.kill(plugin_pid, signal.SIGKILL)
            status, _, words = await tap.wait_for_exit()
            assert status == 128 + signal.SIGKILL, words
            assert "killed by SIGKILL" in words
        elif victim == "tap":
            tap.process.kill()
            await tap.wait_for_exit()
        elif victim == "writer":
            os.kill(await writer_of(tap), signal.SIGKILL)
            await tap.wait_for_text("killed by SIGKILL; starting another one")
        elif victim == "wrapper":
            os.kill(crew.wrapper_pid(), signal.SIGKILL)
        if victim == "containerd":
            await crew.containerd.stop(kill=True)
            # The call in progress may succeed or fail.
            await asyncio.gather(busy, return_exceptions=True)
            for one in crew.taps.values():
                status, _, words = await one.wait_for_exit()
                assert status == 0, words
                assert "session ended" in words
            await crew.containerd.start()
        else:
            await busy
        await assert_healthy(crew.containerd)
        if victim == "writer":
            # The tap and the plugin go on.
            assert is_running(plugin_pid)
            await tap.interrupt()
        hurt = {"wrapper": [WRAPPED], "containerd": [GO, PYTHON, WRAPPED]}.get(victim, [PYTHON])
        for name in (GO, PYTHON, WRAPPED):
            seen = await crew.recorded(name)
            assert rows(crew.files[name], "PRAGMA integrity_check") == [("ok",)]
            expected = crew.expected(name, driver, seen)
            reported = [one for one in seen if one in expected]
            if victim == "writer" and name == PYTHON:
                with Recording.open(crew.files[name]) as recorded:
                    lost = sum(gap.lost or 0 for gap in recorded.gaps())
                assert len(reported) + lost >= len(expected)
                expected = [one for one in expected if one in reported]
            assert reported == expected[: len(reported)], name
            due = len([one for one in expected if one in certain])
            assert len(reported) >= (due if name in hurt else len(expected)) > 0, name
        sessions = rows(crew.files[WRAPPED], "SELECT count(*) FROM session")
        assert sessions == [(2 if victim == "containerd" else 1,)]
        await crew.end()


@pytest.mark.parametrize(
    ("event", "action", "code"),
    [
        ("create_container", "os._exit(3)", Code.UNAVAILABLE),
        ("create_container", "raise RuntimeError('refused')", Code.UNKNOWN),
        ("create_container", "time.sleep(60)", Code.DEADLINE_EXCEEDED),
        ("post_start_container", "os._exit(3)", Code.UNAVAILABLE),
    ],
)
async def test_the_request_at_which_a_wrapped_plugin_fails_is_recorded(
    event: str, action: str, code: Code, binaries: Binaries, tmp_path: Path
) -> None:
    """containerd kills the launched process as soon as the plugin exits or misses a deadline."""
    async with running(binaries, start=False) as containerd:
        body = f"    def {event}(self, pod, container):\n        {action}"
        plugin = plugin_file(containerd.layout.plugins / WRAPPED, body, start="import time")
        file = tmp_path / "w.nriscope.db"
        await nri_scope("tap", "--wrap", plugin, "-o", file)
        for number in range(FAILURES):
            await containerd.start()
            driver = Driver(containerd)
            pod = await driver.run_pod("shop", f"web-{number}")
            if code == Code.UNKNOWN:
                # An error status fails the creation, and the plugin stays connected.
                with pytest.raises(RpcError, match="refused"):
                    await driver.create(pod, "app")
            else:
                await driver.run(pod, "app")
            await containerd.remove_pods()
            await containerd.stop()
        name = "".join(map(str.capitalize, event.split("_")))
        async with asyncio.timeout(PATIENCE):
            # A writer goes on when its wrapper has been killed, and may not have begun.
            while len(rows(file, "SELECT id FROM session WHERE ended_ns")) < FAILURES:
                await asyncio.sleep(0.05)
        with Recording.open(file) as recorded:
            sessions = [session.id for session in recorded.sessions()]
            fatal = [event for event in recorded.events() if event.event == name]
        assert [one.session for one in fatal] == sessions
        assert [one.status_code for one in fatal] == [code] * FAILURES
