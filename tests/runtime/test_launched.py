# SPDX-License-Identifier: Apache-2.0
"""``nri-scope`` as a pre-installed plugin launched by containerd."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from nri_scope.logger.launched import LoggerSettings
from nri_scope.recording.reading.records import rfc3339
from nri_scope.writer.background_output import log_beside
from tests.runtime.testbed.containerd import Containerd, running
from tests.runtime.testbed.driver import Driver
from tests.runtime.testbed.happened import in_order
from tests.runtime.testbed.packages import Binaries, locked
from tests.runtime.testbed.record import PATIENCE, command, happened, log, rows

pytestmark = pytest.mark.runtime


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "launched.nriscope.db"


@pytest.fixture
async def containerd(binaries: Binaries, file: Path) -> AsyncIterator[Containerd]:
    """A containerd with the command among its plugins, and its configuration in conf.d."""
    async with running(binaries, start=False) as containerd:
        (containerd.layout.plugins / "10-nri-scope").symlink_to(command())
        (containerd.layout.plugin_configs / "10-nri-scope.conf").write_text(
            f"output: {file}\nmax_size: 10M\nno_such_key: 1\n"
        )
        await containerd.start()
        yield containerd


async def recorded(driver: Driver, file: Path) -> None:
    """Wait until the recording has the expected number of events, and compare them."""
    async with asyncio.timeout(PATIENCE):
        while len(seen := happened(await log(file))) < len(expected := in_order(driver.steps, [])):
            await asyncio.sleep(0.05)
    assert seen == in_order(driver.steps, seen), expected


async def test_a_launched_logger_records_all_events(containerd: Containerd, file: Path) -> None:
    driver = Driver(containerd)
    await driver.live("shop", "web")
    await recorded(driver, file)
    assert {line["plugin"] for line in await log(file)} == {"10-nri-scope"}


async def test_unknown_settings_are_logged_beside_the_recording(
    containerd: Containerd, file: Path
) -> None:
    driver = Driver(containerd)
    await driver.live("shop", "web")
    await recorded(driver, file)
    beside = [path for path in file.parent.iterdir() if path.suffix == ".log"]
    assert any("no_such_key" in path.read_text() for path in beside)


@pytest.mark.parametrize("kill", [False, True], ids=["orderly", "killed"])
async def test_recording_continues_after_a_restart_of_containerd(
    binaries: Binaries, containerd: Containerd, file: Path, kill: bool
) -> None:
    driver = Driver(containerd)
    pod = await driver.run_pod("shop", "web")
    app = await driver.run(pod, "app")
    await recorded(driver, file)  # before containerd kills the plugin with SIGKILL
    # Up to NRI 0.6 launched plugins get no Synchronize, and without it containerd sends no events
    # for containers that are older than its own start.
    await driver.restart_containerd(kill=kill, synchronizes=binaries.series != "1.7")
    await driver.stop(app)
    await driver.remove_pod(pod)
    await driver.live("shop", "new")
    await recorded(driver, file)
    query = "SELECT id, coalesce(synced_ns, started_ns) FROM session ORDER BY id"
    (_, second) = rows(file, query)
    # The gap ends when the second session knows what exists.
    (gap,) = [line["gap"] for line in await log(file) if "event" not in line]
    assert isinstance(gap, dict)
    assert (gap["session"], gap["lost"]) == (None, None)
    assert gap["to"] == rfc3339(int(str(second[1])))


@pytest.fixture
def logged_elsewhere() -> Iterator[Callable[[], str]]:
    """Function that returns the new lines of the fallback log of loggers.

    Neither configuration nor environment can change its folder, which is restored afterwards.
    """
    log = log_beside(LoggerSettings().output)
    with locked("launched"):
        folder_was_there, before = log.parent.exists(), log.read_bytes() if log.exists() else None
        yield lambda: log.read_bytes()[len(before or b"") :].decode() if log.exists() else ""
        if before is not None:
            log.write_bytes(before)
        else:
            log.unlink(missing_ok=True)
        if not folder_was_there and log.parent.exists():
            log.parent.rmdir()


CONFIGURATIONS = {
    "events it lacks": ("output: {folder}/x.nriscope.db\nevents: UpdatePodSandbox\n", "none of"),
    "too small": ("output: {folder}/x.nriscope.db\nmax_size: 1\n", "too small; use 1M"),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
async def test_containerd_works_with_an_invalid_configuration(
    name: str, binaries: Binaries, tmp_path: Path
) -> None:
    """A plugin that fails to start prevents containerd 1.7 from starting."""
    text, words = CONFIGURATIONS[name]
    await live_with(binaries, text.format(folder=tmp_path))
    assert (tmp_path / "x.nriscope.db").exists()
    assert words in (tmp_path / "x.nriscope.db.log").read_text()


async def test_containerd_works_if_recording_is_impossible(
    binaries: Binaries, tmp_path: Path, logged_elsewhere: Callable[[], str]
) -> None:
    (tmp_path / "file").write_text("not a folder")
    output = tmp_path / "file" / "x.nriscope.db"
    await live_with(binaries, f"output: {output}\n")
    assert f"{output}: cannot record" in logged_elsewhere()


async def live_with(binaries: Binaries, configuration: str) -> None:
    """Run a pod lifecycle with the logger launched with this configuration."""
    async with running(binaries, start=False) as containerd:
        (containerd.layout.plugins / "10-nri-scope").symlink_to(command())
        (containerd.layout.plugin_configs / "10-nri-scope.conf").write_text(configuration)
        await containerd.start()
        await Driver(containerd).live("shop", "web")
