# SPDX-License-Identifier: Apache-2.0
"""Real commands against a server that dies of the messages that kill iSulad."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import Container
from nri_scope.recording.query import lookup
from nri_scope.recording.reading.reader import Recording
from tests.cli.live_process import live
from tests.cli.running import PATIENCE, Running, running
from tests.cli.tap_process import plugin_file
from tests.nri.captures import exchanges

from .fake_isulad import FakeIsulad

# As one plugin of the capture got them.
CAPTURED = [exchange for exchange in exchanges("isulad") if exchange.plugin == "95-probe-c"]
STATE = next(one.request for one in CAPTURED if one.method == "Synchronize")
EVENTS = [one for one in CAPTURED if one.method not in ("Configure", "Synchronize")]
APP = "shop/web/app"


@pytest.fixture
async def isulad(tmp_path: Path) -> AsyncIterator[FakeIsulad]:
    fake = FakeIsulad(tmp_path / "nri" / "nri.sock", STATE)
    await fake.start()
    try:
        yield fake
    finally:
        await fake.die()


async def play(fake: FakeIsulad) -> list[list[str]]:
    """Send the captured events; the last one is the update at which iSulad died."""
    called = [await fake.send(one.method, one.request) for one in EVENTS]
    assert EVENTS[-1].method == "UpdateContainer"
    assert fake.killed_by == [] and fake.failed == []
    return called


def check_recording(path: Path, events: int) -> None:
    with Recording.open(path) as recording:
        app = lookup.find(recording, APP)
        assert isinstance(app, Container) and len(app.id) == 64
        names = [one.event for one in lookup.history(recording, app)]
        assert names.count("CreateContainer") * 6 == len(names)
        assert len(list(recording.events())) == events
        assert not recording.gaps()


async def test_record(isulad: FakeIsulad, tmp_path: Path) -> None:
    file = tmp_path / "rec.nriscope.db"
    async with running("record", "--socket", isulad.socket, "-o", file, "--once") as command:
        await isulad.wait_for({"nri-scope"})
        await play(isulad)
        await isulad.die()
        status, _, errors = await command.wait_for_exit()
    assert status == 0, errors
    check_recording(file, len(CAPTURED))


async def test_live_diff_with_probes(isulad: FakeIsulad, tmp_path: Path) -> None:
    plugin = plugin_file(
        tmp_path / "20-labels",
        "    def create_container(self, pod, container):\n"
        "        return api.ContainerAdjustment(annotations={'by': 'labels'})",
        name="labels",
    )
    file = tmp_path / "live.nriscope.db"
    async with (
        python(plugin, "--socket", isulad.socket, "--once"),
        live("--socket", isulad.socket, "-o", file, "--once", "--all", folder=tmp_path) as command,
    ):
        await isulad.wait_for({"labels"})
        while len([one for one in isulad.connections.values() if one.ready]) < 4:
            await asyncio.sleep(0.05)
        called = await play(isulad)
        assert [len(one) for one in called[:3]] == [3, 3, 4]
        await isulad.die()
        status, out, errors = await command.wait_for_exit()
    assert status in (0, 1), errors
    assert APP in out
    assert "warning: this runtime calls plugins in random order" in errors
    assert "one of " not in out and "k8s_" not in out
    check_recording(file, 3 * len(CAPTURED))


async def test_tap(isulad: FakeIsulad, tmp_path: Path) -> None:
    plugin = plugin_file(
        tmp_path / "20-labels",
        "    def create_container(self, pod, container):\n"
        "        return api.ContainerAdjustment(annotations={'by': 'labels'})\n"
        "    def stop_container(self, pod, container):\n"
        "        return []\n"
        "    def remove_container(self, pod, container):\n"
        "        pass",
    )
    file = tmp_path / "tap.nriscope.db"
    async with running("tap", "--socket", isulad.socket, "-o", file, "--", plugin) as command:
        await isulad.wait_for({"labels"})
        await play(isulad)
        await isulad.die()
        await command.wait_for_exit()
    with Recording.open(file) as recording:
        app = lookup.find(recording, APP)
        assert isinstance(app, Container)
        events = [one.event for one in lookup.history(recording, app)]
    assert events == ["CreateContainer", "StopContainer", "RemoveContainer"]


async def test_a_launched_logger(isulad: FakeIsulad, tmp_path: Path) -> None:
    file = tmp_path / "rec.nriscope.db"
    program = sys.executable, "-m", "nri_scope"
    logger = await isulad.launch("20-nri-scope", f"output: {file}\n", *program)
    await isulad.wait_for({"20-nri-scope"})
    await play(isulad)
    await isulad.die()
    async with asyncio.timeout(PATIENCE):
        assert await logger.wait() == 0
    # Without Synchronize, the older pod is known by its later events only.
    check_recording(file, len(CAPTURED) - 1)
    with Recording.open(file) as recording:
        assert [session.plugin for session in recording.sessions()] == ["20-nri-scope"]


async def test_doctor_registers_without_harm(isulad: FakeIsulad) -> None:
    async with running("doctor", "--socket", isulad.socket) as command:
        _, out, _ = await command.wait_for_exit()
    assert isulad.registered and isulad.killed_by == [] and isulad.failed == []
    assert "iSulad" in out


async def test_a_new_plugin_from_the_template(isulad: FakeIsulad, tmp_path: Path) -> None:
    folder = tmp_path / "my-plugin"
    async with running("new-plugin", folder) as command:
        status, _, errors = await command.wait_for_exit()
    assert status == 0, errors
    program = folder / "my_plugin.py"
    async with python(program, "--socket", isulad.socket, "--once") as plugin:
        await isulad.wait_for({"my-plugin"})
        await play(isulad)
        await isulad.die()
        await plugin.wait_for_exit()


async def test_record_reports_a_registration_without_configure(tmp_path: Path) -> None:
    fake = FakeIsulad(tmp_path / "nri" / "nri.sock", STATE, loses_registrations=1)
    await fake.start()
    file = tmp_path / "rec.nriscope.db"
    record = f"record --socket {fake.socket} -o {file}".split()
    # Only the time is shortened.
    program = (
        "import nri_scope.plugin.session as session; session.CONFIGURE_TIMEOUT = 0.5;"
        "from nri_scope.cli.main import main; main()"
    )
    try:
        async with python("-c", program, *record) as command:
            line = await command.wait_for_text("never configured")
            assert line == (
                "session ended: registered, but never configured: the runtime sent no Configure "
                "within 0.5 s; registering again"
            )
            await fake.wait_for({"nri-scope"})
            assert fake.registered == ["nri-scope"] * 2
            await play(fake)
            await command.interrupt()
    finally:
        await fake.die()
    check_recording(file, len(CAPTURED))


# -- the server itself ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        ("create_container", "SIGSEGV: update in CreateContainer"),
        ("stop_container", "SIGSEGV: update in StopContainer"),
    ],
)
async def test_the_server_dies_of_updates(
    isulad: FakeIsulad, tmp_path: Path, method: str, reason: str
) -> None:
    plugin = plugin_file(
        tmp_path / "20-bad",
        f"    def {method}(self, pod, container):\n"
        "        return api.ContainerUpdate(container_id='other')",
        name="bad",
    )
    async with python(plugin, "--socket", isulad.socket, "--once"):
        await isulad.wait_for({"bad"})
        for one in EVENTS[:20]:
            await isulad.send(one.method, one.request)
    assert f"bad: {reason}" in isulad.killed_by


def test_the_server_survives_updates_that_are_ignored() -> None:
    fake = FakeIsulad(Path("unused"))
    other, nobody = api.ContainerUpdate(container_id="other"), api.ContainerUpdate()
    hooks = api.ContainerAdjustment(hooks=api.Hooks())
    for method, reply in (
        ("Synchronize", api.SynchronizeResponse(update=[other])),
        ("StopContainer", api.StopContainerResponse(update=[nobody])),
        ("CreateContainer", api.CreateContainerResponse(adjust=hooks, update=[other])),
    ):
        fake.judge("safe", method, reply.SerializeToString())
    assert fake.killed_by == []


def test_the_server_dies_of_an_empty_reply() -> None:
    fake = FakeIsulad(Path("unused"))
    fake.judge("empty", "CreateContainer", b"")
    fake.judge("empty", "CreateContainer", b"\x0a\x00")
    assert fake.killed_by == ["empty: abort: CreateContainer without adjust"]


@contextlib.asynccontextmanager
async def python(*arguments: str | Path) -> AsyncIterator[Running]:
    """Start a Python program; kill it at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *map(str, arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Running(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await process.communicate()
