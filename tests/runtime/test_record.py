# SPDX-License-Identifier: Apache-2.0
"""Recordings by ``nri-scope record``, compared with the actions on a real containerd."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import pytest

from nri_scope.plugin import ABSENT_POLL
from tests.cri.driver import Resources
from tests.runtime.testbed.containerd import Containerd, running
from tests.runtime.testbed.driver import Driver, assert_healthy
from tests.runtime.testbed.happened import Happened, in_order
from tests.runtime.testbed.packages import Binaries
from tests.runtime.testbed.record import (
    HANDSHAKE,
    NOT_CONNECTED,
    PLUGIN,
    STALLED,
    assert_told,
    gaps,
    happened,
    log,
    recording,
    rows,
)
from tests.runtime.testbed.workload import checkout_and_report

pytestmark = pytest.mark.runtime


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "real.nriscope.db"


async def test_every_event_is_recorded_in_order(
    containerd: Containerd, driver: Driver, file: Path
) -> None:
    async with recording(file, containerd) as record:
        await checkout_and_report(driver, record.saw)
        assert await record.end() == 0
    lines = await log(file)
    assert_told(lines, driver.steps)
    assert happened(record.events) == happened(lines)
    assert gaps(lines, NOT_CONNECTED) == []
    assert {line["status"] for line in lines} == {"ok"}
    assert {line["plugin"] for line in lines} == {PLUGIN}
    assert [line["id"] for line in lines] == sorted({int(str(line["id"])) for line in lines})
    assert any(file.name in words for words in record.words), record.words
    await assert_healthy(containerd)


async def test_plain_sqlite_reads_the_recording(
    containerd: Containerd, driver: Driver, file: Path
) -> None:
    async with recording(file, containerd) as record:
        await checkout_and_report(driver, record.saw)
        assert await record.end() == 0
    log_query = f"SELECT {', '.join(Happened._fields)} FROM log ORDER BY id"
    seen = [Happened(*(str(value or "") for value in row)) for row in rows(file, log_query)]
    pods = rows(file, "SELECT namespace, name, id FROM pod")
    containers = rows(file, "SELECT name, id FROM container")
    seen = [each for each in seen if each.event not in HANDSHAKE]
    assert seen == in_order(driver.steps, seen)
    assert set(pods) == {(each.namespace, each.pod, each.pod_id) for each in seen}
    assert set(containers) == {
        (each.container, each.container_id) for each in seen if each.container
    }
    runtime = containerd.cri.runtime
    assert rows(file, "SELECT runtime_name, runtime_version FROM session") == [
        (runtime.name, runtime.version)
    ]


async def test_unusual_orders_of_events(containerd: Containerd, driver: Driver, file: Path) -> None:
    async with recording(file, containerd) as record:
        gone = await driver.run_pod("untidy", "stopped-with-running-containers")
        first = await driver.run(gone, "first")
        await driver.run(gone, "second")
        await driver.stop_pod(gone)
        await containerd.cri.stop_pod(gone.id)  # as a kubelet does: no new event
        await driver.remove(first)
        await driver.remove_pod(gone)

        whole = await driver.run_pod("untidy", "removed-as-a-whole")
        await driver.run(whole, "running")
        await driver.create(whole, "never-started")
        stopped = await driver.run(whole, "stopped")
        await driver.stop(stopped)
        await containerd.cri.stop_container(stopped.id)
        await driver.remove_pod(whole)

        pod = await driver.run_pod("untidy", "container-removed-while-it-runs")
        await driver.remove(await driver.run(pod, "running"))
        await driver.remove(await driver.create(pod, "never-started"))
        await driver.remove_pod(pod)
        assert await record.end() == 0
    assert_told(await log(file), driver.steps)
    await assert_healthy(containerd)


async def test_a_container_that_fails_to_start(
    containerd: Containerd, driver: Driver, file: Path
) -> None:
    async with recording(file, containerd) as record:
        pod = await driver.run_pod("jobs", "batch")
        broken = await driver.create(pod, "broken", ("/no/such/binary",))
        await driver.fail_to_start(broken)
        await driver.run(pod, "fine")
        await driver.remove(broken)
        again = await driver.create(pod, "broken", ("/no/such/binary",))
        await driver.fail_to_start(again)
        await driver.stop(again)
        await driver.remove_pod(pod)
        assert await record.end() == 0
    assert_told(await log(file), driver.steps)
    await assert_healthy(containerd)


async def test_pods_older_than_the_recording(
    containerd: Containerd, driver: Driver, file: Path
) -> None:
    pod = await driver.run_pod("shop", "web")
    app = await driver.run(pod, "app")
    driver.forget()
    async with recording(file, containerd) as record:
        await driver.stop(app)
        await driver.remove_pod(pod)
        assert await record.end() == 0
    lines = await log(file)
    assert_told(lines, driver.steps)
    # Known from Synchronize, before their first event.
    known = rows(
        file,
        "SELECT p.id, c.id FROM state AS s LEFT JOIN pod AS p ON p.key = s.pod"
        " LEFT JOIN container AS c ON c.key = s.container ORDER BY position",
    )
    assert known == [(pod.id, None), (pod.id, app.id)]


@pytest.mark.parametrize("kill", [False, True], ids=["orderly", "killed"])
async def test_containerd_restarts_in_the_middle(
    containerd: Containerd, driver: Driver, file: Path, kill: bool
) -> None:
    async with recording(file, containerd) as record:
        web = await driver.run_pod("shop", "web")
        app = await driver.run(web, "app")
        await driver.run(web, "sidecar")
        await driver.restart_containerd(kill=kill)
        await record.connected()
        await driver.update(app, Resources(cpu_shares=512))
        await driver.run(web, "added")
        await driver.stop(app)
        await driver.remove(app)
        await driver.remove_pod(web)
        await driver.live("shop", "new")
        assert await record.end() == 0
    lines = await log(file)
    assert_told(lines, driver.steps)
    (first, reason), (second, _) = rows(file, "SELECT id, end_reason FROM session ORDER BY id")
    assert reason
    assert len(gaps(lines, NOT_CONNECTED)) == 1, "the time without a connection is one gap"
    assert {line["session"] for line in lines if "event" in line} == {first, second}
    await assert_healthy(containerd)


async def test_containerd_restarts_later_in_a_new_folder(
    containerd: Containerd, driver: Driver, file: Path
) -> None:
    """The socket is found by polling: watching the old folder does not show the new one."""
    sock = containerd.layout.nri_socket
    async with recording(file, containerd) as record:
        await driver.live("shop", "before")
        await containerd.stop(kill=True)
        away = sock.parent.with_name(f"{sock.parent.name}.away")
        sock.parent.rename(away)
        # Several polls without success: an increasing interval would be seconds long by now.
        await asyncio.sleep(20 * ABSENT_POLL)
        away.rename(sock.parent)
        await containerd.start()
        await record.connected()
        await driver.live("shop", "after")
        assert await record.end() == 0
    lines = await log(file)
    assert_told(lines, driver.steps)
    assert len(gaps(lines, NOT_CONNECTED)) == 1
    ((began,),) = rows(file, "SELECT max(started_ns) FROM session")
    late = (int(str(began)) - sock.stat().st_mtime_ns) / 1e6
    print(f"session started {late:.0f} ms after the socket was created")
    await assert_healthy(containerd)


async def test_once_ends_with_the_runtime(
    containerd: Containerd, driver: Driver, file: Path
) -> None:
    async with recording(file, containerd, "--once") as record:
        await driver.live("shop", "web")
        await containerd.stop()
        assert await record.wait() == 0
    assert_told(await log(file), driver.steps)
    await containerd.start()
    await assert_healthy(containerd)


async def test_wait_connects_to_a_runtime_that_starts_later(binaries: Binaries, file: Path) -> None:
    async with running(binaries, start=False) as containerd:
        driver = Driver(containerd)
        async with recording(file, containerd, "--wait", connected=False) as record:
            await record.said("wait")
            await containerd.start()
            await record.connected()
            await driver.live("shop", "web")
            assert await record.end() == 0
        assert_told(await log(file), driver.steps)


async def test_record_is_frozen_past_its_deadline(
    containerd: Containerd, driver: Driver, file: Path
) -> None:
    async with recording(file, containerd) as record:
        await driver.live("shop", "before")
        record.signal(signal.SIGSTOP)
        # The runtime waits for one deadline, disconnects the plugin, and continues.
        unseen = Driver(containerd)
        await unseen.live("shop", "meanwhile")
        record.signal(signal.SIGCONT)
        await record.connected()
        await driver.live("shop", "after")
        assert await record.end() == 0
    lines = await log(file)
    # The late request was read in the end; the runtime sent nothing after it.
    late = in_order(unseen.steps, [])[0]
    assert [each for each in happened(lines) if each.pod_id == late.pod_id] == [late]
    assert_told([line for line in lines if line.get("pod_id") != late.pod_id], driver.steps)
    assert len(gaps(lines, STALLED)) >= 1
    assert len(gaps(lines, NOT_CONNECTED)) == 1
    await assert_healthy(containerd)


async def test_record_is_killed_in_the_middle(
    containerd: Containerd, driver: Driver, file: Path
) -> None:
    lives = 0

    enough = False

    async def keep_busy() -> None:
        nonlocal lives
        while not enough:
            await driver.live("busy", f"pod-{lives}")
            lives += 1

    async with recording(file, containerd) as record:
        busy = asyncio.ensure_future(keep_busy())
        await record.stored(50)
        due = driver.events_before(time.monotonic() - 0.1)
        await record.end(signal.SIGKILL)
        # The runtime disconnects a plugin that vanished, and continues.
        until = lives + 2
        while lives < until and not busy.done():
            await asyncio.sleep(0.01)
        enough = True
        await busy

    seen = happened(await log(file))
    assert seen == in_order(driver.steps, seen)[: len(seen)]
    assert len(seen) >= due > 0
    assert seen[: len(happened(record.events))] == happened(record.events)
    assert rows(file, "PRAGMA integrity_check") == [("ok",)]

    # A new recorder can append to the same file.
    driver = Driver(containerd)
    async with recording(file, containerd) as record:
        await driver.live("after", "kill")
        assert await record.end() == 0
    assert happened(await log(file))[len(seen) :] == in_order(driver.steps, [])
    await assert_healthy(containerd)
