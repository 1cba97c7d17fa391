# SPDX-License-Identifier: Apache-2.0
"""However a command that validates ends, the next creation of a container succeeds."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import EventKind
from nri_scope.runtime import ProfileSetUp
from tests.amount import sampled
from tests.cli.live_process import live
from tests.cli.recording_process import Record, recording
from tests.cli.tap_process import plugin_file, tapping
from tests.cli.writer_processes import wait_for_end_of, writer_of
from tests.runtime_emulation.profiles import patient
from tests.runtime_emulation.runtime import Runtime
from tests.runtime_emulation.small_plugin import SmallPlugin

CREATE = api.CreateContainerRequest(
    pod=api.PodSandbox(id="pod-1"), container=api.Container(id="c1")
)


@asynccontextmanager
async def validating(folder: Path, *more: str) -> AsyncIterator[tuple[Runtime, Record]]:
    """Run a runtime with NRI 0.12.0, whose next creation a closed validator fails."""
    async with Runtime(ProfileSetUp(patient("containerd-2.3"))) as runtime:
        await runtime.listen(folder / "s")
        output = folder / "x.nriscope.db"
        async with recording("--socket", folder / "s", "-o", output, "--validate", *more) as record:
            await runtime.wait_plugins(1)
            yield runtime, record


async def create_at(runtime: Runtime) -> str:
    outcome = await runtime.operate(EventKind.CreateContainer, CREATE)
    return outcome.failure


@pytest.mark.parametrize(
    "end", sampled([signal.SIGINT, signal.SIGTERM, signal.SIGHUP, "--duration"])
)
async def test_the_creation_after_record_as_a_validator_succeeds(
    end: signal.Signals | str, tmp_path: Path
) -> None:
    options = (end, "1s") if isinstance(end, str) else ()
    async with validating(tmp_path, *options) as (runtime, record):
        assert await create_at(runtime) == ""
        if isinstance(end, signal.Signals):
            record.process.send_signal(end)
        status, _, errors = await record.wait_for_exit()
        assert await create_at(runtime) == ""
        assert len(runtime.former) == 2
    assert status == 0 and "may fail once" not in errors


@pytest.mark.exhaustive
async def test_the_terminal_cannot_stop_a_validator(tmp_path: Path) -> None:
    async with validating(tmp_path) as (runtime, record):
        record.process.send_signal(signal.SIGTSTP)
        await record.wait_for_text("not stopped (^Z)")
        assert await create_at(runtime) == ""
        assert (await record.interrupt())[0] == 0


async def test_the_writer_deregisters_a_killed_validator(tmp_path: Path) -> None:
    async with validating(tmp_path) as (runtime, record):
        writer = await writer_of(record)
        assert await create_at(runtime) == ""
        record.process.kill()
        await wait_for_end_of(writer)
        assert await create_at(runtime) == ""
        assert len(runtime.former) == 2


@pytest.mark.exhaustive
async def test_the_next_record_removes_a_validator_that_was_killed_with_its_writer(
    tmp_path: Path,
) -> None:
    async with validating(tmp_path) as (runtime, record):
        writer = await writer_of(record)
        os.kill(writer, signal.SIGSTOP)
        record.process.kill()
        os.kill(writer, signal.SIGKILL)
        await wait_for_end_of(writer)
        await runtime.wait_for(lambda: bool(runtime.former))
        # Without --validate, too.
        async with recording("--socket", tmp_path / "s", "-o", tmp_path / "y") as another:
            await runtime.wait_plugins(1)
            assert await create_at(runtime) == ""
            await another.interrupt()


@pytest.mark.exhaustive
async def test_the_creation_after_a_live_diff_as_a_validator_succeeds(tmp_path: Path) -> None:
    async with Runtime(ProfileSetUp(patient("containerd-2.3"))) as runtime:
        await runtime.listen(tmp_path / "s")
        options = ("--socket", tmp_path / "s", "--validate", "--probes", "00,99")
        async with live(*options, folder=tmp_path) as diff:
            await runtime.wait_plugins(2)
            diff.process.send_signal(signal.SIGINT)
            status, _, errors = await diff.wait_for_exit()
        assert await create_at(runtime) == ""
    assert status == 0 and "may fail once" not in errors


VALIDATES = "    def validate_container_adjustment(self, request):\n        pass"


@asynccontextmanager
async def awaiting_validator(folder: Path) -> AsyncIterator[Runtime]:
    """Run a runtime; check that its next creation after the block succeeds."""
    async with Runtime(ProfileSetUp(patient("containerd-2.3"))) as runtime:
        await runtime.listen(folder / "s")
        yield runtime
        assert await create_at(runtime) == ""


@pytest.mark.exhaustive
async def test_the_creation_after_a_tap_of_validators_succeeds(tmp_path: Path) -> None:
    options = ("--socket", tmp_path / "s", "-o", tmp_path / "x")
    plugin = plugin_file(tmp_path / "33-thing", VALIDATES)
    async with awaiting_validator(tmp_path) as runtime:
        async with tapping(*options, "--", plugin) as tap:
            await runtime.wait_plugins(1)
            await tap.interrupt()
    small = SmallPlugin("10-small")
    async with awaiting_validator(tmp_path) as runtime:
        async with tapping(*options, "--listen", tmp_path / "t") as tap:
            await tap.wait_for_text("plugins can connect")
            await small.connect(tmp_path / "t")
            await small.register()
            await runtime.wait_plugins(1)
            await tap.interrupt()


async def test_the_creation_after_a_plugin_that_validates_succeeds(tmp_path: Path) -> None:
    plugin = plugin_file(tmp_path / "33-thing", VALIDATES)
    async with awaiting_validator(tmp_path) as runtime:
        process = await asyncio.create_subprocess_exec(plugin, "--socket", tmp_path / "s")
        await runtime.wait_plugins(1)
        process.terminate()
        assert await process.wait() == 0
