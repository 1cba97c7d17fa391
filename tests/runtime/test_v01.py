# SPDX-License-Identifier: Apache-2.0
"""NRI 0.1 at real containerds: 1.6 knows nothing else, 1.7 never calls it, 2.x for sandboxes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from nri_scope.errors import RpcError
from tests.runtime.conftest import binaries_of
from tests.runtime.testbed.containerd import Containerd, running
from tests.runtime.testbed.driver import Driver
from tests.runtime.testbed.happened import in_order
from tests.runtime.testbed.mount_namespace import private_etc
from tests.runtime.testbed.packages import BEFORE_NRI, SUITES, Binaries
from tests.runtime.testbed.record import PLUGIN, command, log, nri_scope, recording, rows

pytestmark = pytest.mark.runtime

CONF = Path("/etc/nri/conf.json")
ANSWER = {"plugin": "quiet", "version": "0.1", "error": ""}

CALLS = {
    "1.6": [
        ("Invoke/create", "web", ""),
        ("Invoke/create", "web", "app"),
        ("Invoke/delete", "web", "app"),
        ("Invoke/delete", "web", ""),
    ],
    "1.7": [],
    "2.1": [("Invoke/create", "web", ""), ("Invoke/delete", "web", "")],
}
"""Events of a pod with one container."""


@pytest.fixture(scope="session", params=[*BEFORE_NRI, *SUITES], ids=lambda one: f"containerd-{one}")
def binaries(request: pytest.FixtureRequest) -> Binaries:
    return binaries_of(str(request.param))


@pytest.fixture(autouse=True)
def conf(binaries: Binaries, tmp_path: Path) -> Iterator[Path]:
    """A configuration without plugins, in an /etc of this process."""
    folder = tmp_path / "etc"
    folder.mkdir()
    with private_etc(folder):
        CONF.parent.mkdir(exist_ok=True)
        CONF.write_text('{"version": "0.1", "plugins": []}\n')
        yield CONF


@pytest.fixture
async def containerd(binaries: Binaries, conf: Path) -> AsyncIterator[Containerd]:
    async with running(binaries) as containerd:
        yield containerd


async def recorded(file: Path, *options: str | Path) -> list[tuple[object, object, object]]:
    """Record what is in a spool; return the events."""
    await nri_scope(
        *("record", "-o", file, "--socket", file.parent / "none.sock"),
        *("--duration", "1s", *options),
    )
    lines = await log(file) if file.exists() else []
    return [(line["event"], line["pod"], line["container"]) for line in lines if "event" in line]


async def live(driver: Driver) -> None:
    pod = await driver.run_pod("shop", "web")
    container = await driver.run(pod, "app")
    await driver.remove(container)
    await driver.remove_pod(pod)


async def check_first_request(file: Path) -> None:
    """Check the ids, labels and names of a sandbox, also after redaction."""
    shown = json.loads(await nri_scope("show", file, "1", "--format", "json"))
    request, event = shown["request"], shown["event"]
    assert request["id"] == request["sandboxID"] == event["pod_id"]
    assert (request["version"], request["state"]) == ("0.1", "create")
    assert request["labels"] == {"app": "web"}
    assert request["spec"]["annotations"]["io.kubernetes.cri.sandbox-namespace"] == "shop"
    assert event["namespace"] == "shop"
    assert shown["reply"] == ANSWER
    redacted = file.with_name("redacted.nriscope.db")
    await nri_scope("export", file, "--redact", "-o", redacted)
    again = json.loads(await nri_scope("show", redacted, "1", "--format", "json"))
    assert again["request"]["id"] == request["id"]


@pytest.fixture
def plugin(conf: Path, tmp_path: Path) -> Path:
    """A plugin that only answers, in the list."""
    path = tmp_path / "quiet"
    path.write_text(f"#!/bin/sh\necho '{json.dumps(ANSWER)}'\n")
    path.chmod(0o755)
    conf.write_text(json.dumps({"version": "0.1", "plugins": [{"type": str(path)}]}))
    return path


async def test_record_has_the_calls_that_this_containerd_makes(
    containerd: Containerd, plugin: Path, tmp_path: Path
) -> None:
    before = plugin.read_bytes(), plugin.stat()
    spool, file = tmp_path / "spool", tmp_path / "a.nriscope.db"
    await nri_scope("tap", "--wrap", plugin, "--v01", spool)
    await live(Driver(containerd))
    calls = CALLS[containerd.binaries.series]
    assert spool.exists() == bool(calls)
    if calls:
        assert await recorded(file, "--spool", spool) == calls
        await check_first_request(file)
    await nri_scope("tap", "--unwrap", plugin)
    after = plugin.stat()
    assert (plugin.read_bytes(), after.st_ino, after.st_mode, after.st_mtime_ns) == (
        before[0],
        *(before[1].st_ino, before[1].st_mode, before[1].st_mtime_ns),
    )
    await live(Driver(containerd))


async def test_a_missing_program_fails_the_pods_of_containerds_that_call(
    containerd: Containerd, conf: Path
) -> None:
    conf.write_text('{"version": "0.1", "plugins": [{"type": "gone"}]}')
    driver = Driver(containerd)
    if CALLS[containerd.binaries.series]:
        with pytest.raises(RpcError, match='exec: "gone": executable file not found'):
            await driver.run_pod("shop", "web")
    else:
        await driver.run_pod("shop", "web")
    process = await asyncio.create_subprocess_exec(
        *(command(), "doctor", "--format", "json", "--socket", containerd.nri_socket),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    checks = [one["detail"] for one in json.loads(output)["checks"] if one["name"] == "nri-0.1"]
    details = " ".join(checks)
    match containerd.binaries.series:
        case "1.6":
            assert "every pod fails: containerd 1.6." in details
            assert "for sandboxes and containers" in details
        case "1.7":
            assert "containerd 1.7." in details
            assert "does not read" in details
        case _:
            assert "every pod fails: containerd 2." in details
            assert details.count("for sandboxes") == 1


async def test_a_full_spool_delays_and_fails_no_pod(
    containerd: Containerd, plugin: Path, tmp_path: Path
) -> None:
    spool, file = tmp_path / "spool", tmp_path / "a.nriscope.db"
    await nri_scope("tap", "--wrap", plugin, "--v01", spool)
    (spool / plugin.name).mkdir(mode=0o700, parents=True)
    for number in range(1024):
        (spool / plugin.name / f"{number}-1.in").touch()
    await live(Driver(containerd))
    for entry in (spool / plugin.name).glob("*.in"):
        entry.unlink()
    events = await recorded(file, "--spool", spool)
    lost = len(CALLS[containerd.binaries.series])
    assert events == []
    if lost:
        (gap,) = (one["gap"] for one in await log(file) if "gap" in one)
        assert isinstance(gap, dict)
        assert gap["lost"] == lost


async def test_a_wrapped_plugin_is_recorded_at_a_real_containerd(
    containerd: Containerd, conf: Path, tmp_path: Path
) -> None:
    spool, file, plugin = tmp_path / "spool", tmp_path / "a.nriscope.db", tmp_path / "konfine"
    plugin.write_text('#!/bin/sh\necho to-stderr >&2\necho \'{"plugin": "konfine"}\'\nexit 3\n')
    plugin.chmod(0o755)
    conf.write_text(json.dumps({"version": "0.1", "plugins": [{"type": str(plugin)}]}))
    await nri_scope("tap", "--wrap", plugin, "--v01", spool)
    await live(Driver(containerd))
    calls = CALLS[containerd.binaries.series]
    assert spool.exists() == bool(calls)
    if calls:
        assert await recorded(file, "--spool", spool) == calls
        shown = json.loads(await nri_scope("show", file, "1", "--format", "json"))
        assert shown["reply"] == {"plugin": "konfine"}
        assert shown["tap"]["metadata"] == [{"exit-status": "3"}]
        assert [line["text"] for line in shown["printed"]] == ["to-stderr"]
    await nri_scope("tap", "--unwrap", plugin)
    await live(Driver(containerd))


async def test_calls_and_events_of_one_runtime_are_two_sessions(
    containerd: Containerd, plugin: Path, tmp_path: Path
) -> None:
    series = containerd.binaries.series
    if series in BEFORE_NRI:
        pytest.skip("this containerd has no NRI events")
    spool, file = tmp_path / "spool", tmp_path / "a.nriscope.db"
    await nri_scope("tap", "--wrap", plugin, "--v01", spool)
    (spool / plugin.name).mkdir(mode=0o700, parents=True)
    driver = Driver(containerd)
    async with recording(file, containerd, "--spool", str(spool)) as record:
        await live(driver)
        await record.stored(len(CALLS[series]) + len(in_order(driver.steps, [])))
        assert await record.end() == 0
    events = [one for one in await log(file) if "event" in one]
    calls = [
        (one["event"], one["pod"], one["container"]) for one in events if one["plugin"] != PLUGIN
    ]
    assert calls == CALLS[series]
    roles = [role for (role,) in rows(file, "SELECT role FROM session ORDER BY role")]
    assert roles == (["logger", "v0.1"] if calls else ["logger"])
    assert "No findings" in await nri_scope("report", file, "--diagnose")
    assert "shop/web/app" in await nri_scope("blame", file, "shop/web/app")
