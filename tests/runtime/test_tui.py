# SPDX-License-Identifier: Apache-2.0
"""``nri-scope tui --live`` in a real terminal, with a real containerd."""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path

import pytest

from nri_scope.specs import value_at
from tests.cri.driver import Resources
from tests.runtime.testbed.containerd import Containerd
from tests.runtime.testbed.cri_answers import Answers
from tests.runtime.testbed.driver import Driver, assert_healthy
from tests.runtime.testbed.record import NOT_CONNECTED, PLUGIN, assert_told, gaps, log, rows
from tests.tui.terminal import needs_tmux, terminal

pytestmark = [pytest.mark.runtime, needs_tmux]


async def test_live_shows_and_records_events_across_a_restart_of_containerd(
    containerd: Containerd, driver: Driver, tmp_path: Path
) -> None:
    version = containerd.cri.runtime.version
    # Another test may run at the same time, with the other containerd series.
    file = f"live-{containerd.binaries.series}.nriscope.db"
    command = f"tui --live --socket {shlex.quote(str(containerd.nri_socket))} -o {file}"
    async with terminal(tmp_path, command, (100, 26)) as window:
        await connected(containerd, 1)
        await window.shows(f"containerd {version}"[:20], " live", "following", "session 1")

        # New pods are shown immediately.
        web = await driver.run_pod("shop", "web")
        app = await driver.run(web, "app")
        await driver.live("jobs", "batch")
        await window.shows("CreateContainer", "shop/web/app", "RemovePodSandbox", "following")

        # A filter, and the details of what it finds.
        await window.press("f", "event:CreateContainer", "Space", "ns:shop")
        await window.shows("valid")
        await window.press("Enter")
        await window.shows("1 match: event:CreateContainer ns:shop", "shop/web/app")
        # The rows of the list are drawn once they are read, which may be after the status.
        await window.until(lambda text: "jobs/batch" not in text)
        await window.press("Home", "Down", "Enter")
        await window.shows("[Summary]", app.id)
        await window.press("]")
        await window.shows("[Container]", "pod_sandbox_id")
        await window.press("Tab", "p", "x", "F")
        await window.shows("following", "jobs/batch", "RemovePodSandbox")

        # The runtime stops and restarts.
        await containerd.stop()
        await window.shows("disconnected, waiting", "session 1 ended")
        await driver.restart_containerd()
        await connected(containerd, 2)
        await window.until(lambda text: "disconnected, waiting" not in text and "session 2" in text)
        await driver.update(app, Resources(cpu_shares=512))
        await driver.stop(app)
        await driver.remove_pod(web)
        await driver.live("shop", "new")
        await window.shows("shop/new", "RemovePodSandbox", "following")
        assert processes_with(file), "nothing says that its processes would be found"

        await window.press("q")
        text = await window.shows("ended with 0")
        assert re.search(r"recorded \d+ events in 2 sessions", text), text

    lines = await log(tmp_path / file)
    assert_told(lines, driver.steps)
    assert {line["status"] for line in lines if "event" in line} == {"ok"}
    assert len(gaps(lines, NOT_CONNECTED)) == 1
    ends = rows(tmp_path / file, "SELECT ended_ns IS NOT NULL FROM session")
    assert ends == [(1,), (1,)]
    assert rows(tmp_path / file, "PRAGMA integrity_check") == [("ok",)]
    assert [path.name for path in tmp_path.iterdir()] == [file]
    assert not processes_with(file)
    await assert_healthy(containerd)


async def connected(containerd: Containerd, times: int) -> None:
    """Wait until containerd has connected the plugin ``times`` times."""
    async with asyncio.timeout(60):
        while containerd.connections(PLUGIN) < times:
            await asyncio.sleep(0.01)


def processes_with(word: str) -> list[str]:
    """Command lines of the running processes with this word among their arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = path.read_bytes().split(b"\0")
        except OSError:
            # It ended meanwhile.
            continue
        if word.encode() in arguments:
            found.append(b" ".join(arguments).decode(errors="replace"))
    return found


async def test_live_with_cri_records_what_took_effect(
    containerd: Containerd, driver: Driver, tmp_path: Path
) -> None:
    file = f"cri-{containerd.binaries.series}.nriscope.db"
    sockets = f"--socket {shlex.quote(str(containerd.nri_socket))}"
    command = (
        f"tui --live {sockets} --cri {shlex.quote(str(containerd.layout.cri_socket))} -o {file}"
    )
    async with terminal(tmp_path, command, (100, 26)) as window:
        await connected(containerd, 1)
        await window.shows(" live", "following", "session 1")
        pod = await driver.run_pod("shop", "web")
        app = await driver.run(pod, "app", resources=Resources(cpu_shares=512))
        await window.shows("ContainerStatus")
        status = await Answers(tmp_path / file).newest(app.id, lambda found: bool(found.cgroup))
        await window.press("q")
        await window.shows("ended with 0")
    assert status.spec
    assert value_at(status.spec, "/linux/resources/cpu/shares") == 512
