# SPDX-License-Identifier: Apache-2.0
"""However a validator ends, a real containerd whose NRI asks closed validators creates containers.

In an existing pod, as the event RunPodSandbox of a new one would make containerd forget them.
"""

from __future__ import annotations

import asyncio
import os
import signal
from itertools import count
from pathlib import Path

import pytest

from nri_scope.errors import RpcError
from tests.cli.live_process import live
from tests.cli.writer_processes import children
from tests.runtime.testbed.containerd import Containerd
from tests.runtime.testbed.driver import Driver
from tests.runtime.testbed.record import PATIENCE, PLUGIN, recording

pytestmark = pytest.mark.runtime

ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def registered(containerd: Containerd, times: int) -> None:
    """Wait until containerd has added `PLUGIN` to the chain ``times`` times."""
    async with asyncio.timeout(PATIENCE):
        while containerd.connections(PLUGIN) < times:
            await asyncio.sleep(0.01)


async def test_the_creation_after_each_end_succeeds(validating: Containerd, tmp_path: Path) -> None:
    driver, file = Driver(validating), tmp_path / "v.nriscope.db"
    pod = await driver.run_pod("shop", "web")
    for number in ENDS:
        async with recording(file, validating, "--validate") as record:
            assert await record.end(number) == 0
            await driver.create(pod, f"after-{number.name}")
    async with recording(file, validating, "--validate", "--duration", "500ms") as record:
        assert await record.wait() == 0
        await driver.create(pod, "after-duration")
    options = ("--socket", validating.nri_socket, "--validate", "--probes", "00,99")
    before = validating.connections(PLUGIN)
    async with live(*options, folder=tmp_path) as diff:
        await registered(validating, before + 1)
        diff.process.send_signal(signal.SIGINT)
        assert (await diff.wait_for_exit())[0] == 0
        await driver.create(pod, "after-diff")


async def test_the_creation_after_a_kill_succeeds_once_the_writer_has_registered(
    validating: Containerd, tmp_path: Path
) -> None:
    driver = Driver(validating)
    pod = await driver.run_pod("shop", "web")
    async with recording(tmp_path / "v.nriscope.db", validating, "--validate") as record:
        before = validating.connections(PLUGIN)
        record.signal(signal.SIGKILL)
        await registered(validating, before + 1)
        await driver.create(pod, "after-kill")


async def test_the_creation_after_a_restart_succeeds(
    validating: Containerd, tmp_path: Path
) -> None:
    """Check a validator that is killed with its writer, as in a container, and starts again."""
    driver = Driver(validating)
    pod = await driver.run_pod("shop", "web")
    for restarts in (False, True):
        async with recording(tmp_path / "v.nriscope.db", validating, "--validate") as record:
            for pid in (*children(record.pid), record.pid):
                os.kill(pid, signal.SIGSTOP)
            for pid in (*children(record.pid), record.pid):
                os.kill(pid, signal.SIGKILL)
            await record.wait()
        if restarts:
            async with recording(tmp_path / "v.nriscope.db", validating, "--validate") as again:
                await driver.create(pod, "while-it-runs-again")
                await again.end()
        else:
            # What SECURITY.md says: once.
            with pytest.raises(RpcError, match="00-nri-scope failed: ttrpc: closed"):
                await driver.create(pod, "failed")
            await driver.create(pod, "tried-again")


async def test_no_creation_fails_at_any_moment(validating: Containerd, tmp_path: Path) -> None:
    driver, numbers = Driver(validating), count()
    pod = await driver.run_pod("shop", "web")
    ended = False

    async def create_and_remove() -> int:
        done = 0
        while not ended:
            await driver.remove(await driver.create(pod, f"c{next(numbers)}"))
            done += 1
        return done

    creating = asyncio.gather(create_and_remove(), create_and_remove())
    for _ in range(10):
        async with recording(tmp_path / "v.nriscope.db", validating, "--validate") as record:
            assert await record.end() == 0
    ended = True
    assert min(await creating) > 10
