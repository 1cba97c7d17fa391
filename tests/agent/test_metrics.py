# SPDX-License-Identifier: Apache-2.0
"""Metrics against `report` and promtool."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import urllib.error
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.agent import metrics
from nri_scope.agent.metrics import NodeMetrics, gap_reason, kind_of
from nri_scope.agent.node_recordings import NodeRecordings
from nri_scope.agent.recorder_status import RecorderStatus
from nri_scope.capture.queue import TOO_FAST
from nri_scope.events import KILLED, NO_SESSION, NOT_CONNECTED, STALLED
from nri_scope.nri.changes import REQUIRED_PLUGINS
from nri_scope.nri.events import EventKind
from nri_scope.recorder.writer import WriterLimits
from nri_scope.recording.node_files import MAX_RECORDINGS
from nri_scope.recording.reading.reader import Recording
from tests.agent.agent_process import Agent, agent
from tests.agent.prometheus import promtool
from tests.agent.scraped_metrics import Samples, by, http, samples, text_of
from tests.amount import sampled
from tests.cli.annotating_plugins import NEW, annotating, create
from tests.cli.running import PATIENCE, running
from tests.demo_recording import DEMO_EVENTS
from tests.differ.required_plugins import NewPod, a_node
from tests.in_memory import MEMORY
from tests.recording.traffic import NOW, an_item, record
from tests.runtime_emulation.runtime import Runtime

PROJECT = Path(__file__).parents[2]


async def wait_until_read(one: Agent) -> None:
    """Wait until the folder was read for the first time: what is there then is not counted."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await asyncio.to_thread(http, one, "readyz")
            except urllib.error.HTTPError as error:
                if b"not been read" in error.read():
                    await asyncio.sleep(0.1)
                    continue
            return


async def wait_for(one: Agent, events: int) -> Samples:
    """Return the metrics once they count this number of events."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = samples(await text_of(one))
            if sum(by(found, "nri_scope_events_total").values()) >= events:
                return found
            await asyncio.sleep(0.1)


async def stats(path: Path) -> Any:
    async with running("report", path, "--format", "json") as process:
        status, out, errors = await process.wait_for_exit()
    assert status == 0, errors
    return json.loads(out)


@pytest.mark.parametrize("name", sampled(["containerd-2.1", "demo", "containerd-1.7"]))
async def test_metrics_equal_the_counts_of_stats(tmp_path: Path, name: str) -> None:
    source = PROJECT / f"recordings/{name}.nriscope.db"
    counted = await stats(source)
    with Recording.open(source) as recording:
        events = list(recording.events())
    async with agent(tmp_path, "--metrics-namespaces") as one:
        # A recording that appears later is counted from its beginning.
        await wait_until_read(one)
        shutil.copy(source, tmp_path / "later.nriscope.db")
        found = await wait_for(one, len(events))
    assert by(found, "nri_scope_events_total", "event") == {
        (row["event"],): row["count"] for row in counted["by_event"]
    }
    assert by(found, "nri_scope_event_errors_total", "event") == {
        (row["event"],): row["not_ok"] for row in counted["by_event"] if row["not_ok"]
    }
    assert sum(by(found, "nri_scope_gaps_total", "reason").values()) == counted["gaps"]["count"]
    assert (
        sum(by(found, "nri_scope_events_lost_total", "reason").values())
        == (counted["gaps"]["lost"])
    )
    assert by(found, "nri_scope_events_total", "namespace") == dict(
        Counter((event.namespace,) for event in events)
    )
    assert by(found, "nri_scope_event_errors_total", "event", "status") == dict(
        Counter((event.event, event.status) for event in events if event.status != "ok")
    )
    assert by(found, "nri_scope_answer_seconds_count", "event") == by(
        found, "nri_scope_events_total", "event"
    )
    took = sum(value for (key, _), value in found.items() if key == "nri_scope_answer_seconds_sum")
    assert took == pytest.approx(sum(event.took_ns for event in events) / 1e9)


@pytest.mark.exhaustive
async def test_a_running_recorder_and_its_plugins(tmp_path: Path) -> None:
    folder = tmp_path / "node"
    folder.mkdir()
    output = folder / "new.nriscope.db"
    async with (
        agent(folder, "--node", "worker-1") as one,
        Runtime(NEW) as runtime,
    ):
        await runtime.listen(tmp_path / "nri.sock")
        plugin = annotating("20-a", NEW.mask)
        await plugin.join(runtime)
        found = samples(await text_of(one))
        assert found["nri_scope_connected", frozenset()] == 0
        options = ("--socket", tmp_path / "nri.sock", "-o", output, "--validate")
        async with running("record", *options) as recorder:
            await runtime.wait_plugins(2)
            await create(runtime)
            async with asyncio.timeout(PATIENCE):
                while not found.get(("nri_scope_synchronized", frozenset())):
                    await asyncio.sleep(0.1)
                    found = samples(await text_of(one))
            assert found["nri_scope_connected", frozenset()] == 1
            assert await asyncio.to_thread(http, one, "readyz") == "ok\n"
            status = await validated(one)
            (recording,) = status.recordings
            assert (status.node, status.redacted) == ("worker-1", True)
            assert recording.recording_now and recording.connected and recording.synchronized
            assert recording.session is not None
            assert recording.session.runtime_name == "containerd"
            assert recording.plugins == ["00-nri-scope", "20-a"]
            async with asyncio.timeout(PATIENCE):
                while by(found, "nri_scope_plugin_connected", "plugin") != {
                    (plugin,): 1 for plugin in recording.plugins
                }:
                    await asyncio.sleep(0.1)
                    found = samples(await text_of(one))
            assert by(found, "nri_scope_plugin_changes_total", "plugin", "kind") == {
                ("20-a", "annotations"): 1
            }
            # The plugin goes; the next creation shows it.
            plugin.connected.close()
            await runtime.wait_for(lambda: len(runtime.plugins) == 1)
            # Any other event lets the runtime forget the closed validator.
            stop = api.StopPodSandboxRequest(pod=api.PodSandbox(id="other"))
            await runtime.operate(EventKind.StopPodSandbox, stop)
            await create(runtime, "second")
            async with asyncio.timeout(PATIENCE):
                while by(found, "nri_scope_plugin_connected", "plugin") != {("00-nri-scope",): 1}:
                    await asyncio.sleep(0.1)
                    found = samples(await text_of(one))
            await recorder.interrupt()
        async with asyncio.timeout(PATIENCE):
            while found["nri_scope_synchronized", frozenset()]:
                await asyncio.sleep(0.1)
                found = samples(await text_of(one))
        async with one.client() as stub:
            (recording,) = (await stub.get_status(v1.GetStatusRequest())).recordings
        assert not (recording.recording_now or recording.connected)
        # Another recorder does not know them yet.
        assert recording.plugins == []


async def validated(one: Agent) -> v1.GetStatusResponse:
    """Return the state once a request to a validator was recorded."""
    async with asyncio.timeout(PATIENCE), one.client() as stub:
        while True:
            status = await stub.get_status(v1.GetStatusRequest())
            if status.recordings and status.recordings[0].plugins:
                return status
            await asyncio.sleep(0.1)


def node_metrics(folder: Path) -> NodeMetrics:
    recordings = NodeRecordings(folder)
    return NodeMetrics(recordings, RecorderStatus(recordings, "n", None), None, by_namespace=False)


def total(one: NodeMetrics, name: str) -> float:
    return sum(
        sample.value
        for family in one.registry.collect()
        for sample in family.samples
        if sample.name == name
    )


def test_containers_without_a_required_plugin_are_counted_when_they_exist(tmp_path: Path) -> None:
    requires = {REQUIRED_PLUGINS: "[net, gpu]"}
    one = node_metrics(tmp_path)
    one.update()
    name = "nri_scope_created_without_required_plugin_total"
    assert total(one, name) == 0
    node = [
        NewPod("web", requires, ("20-net",)),
        NewPod("refused", requires, ("20-net",), is_created=False),
        NewPod("whole", requires, ("20-net", "10-gpu")),
        NewPod("other", {}, ()),
        NewPod("api", requires, ()),
    ]
    a_node(tmp_path / "node.nriscope.db", node)
    one.update()
    assert total(one, name) == 2
    one.update()
    assert total(one, name) == 2


def test_events_before_damage_are_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "sound.db"
    record(path, [an_item(wall_ns=NOW + at) for at in range(3000)])
    data = path.read_bytes()
    partly = 0
    for page in range(3, len(data) // 4096, 5):
        with TemporaryDirectory(dir=MEMORY) as name:
            one = node_metrics(Path(name))
            one.update()
            damaged = data[: page * 4096] + b"\xff" * 4096 + data[(page + 1) * 4096 :]
            Path(name, "a.nriscope.db").write_bytes(damaged)
            one.update()
            counted = total(one, "nri_scope_events_total")
            assert counted <= 3000
            partly += 0 < counted < 3000
            for _ in range(2):
                one.update()
                assert total(one, "nri_scope_events_total") == counted, page
    assert partly


@pytest.mark.exhaustive
def test_an_old_recording_that_is_served_again_is_not_counted(tmp_path: Path) -> None:
    for number in range(MAX_RECORDINGS + 1):
        record(tmp_path / f"{number:03}.nriscope.db", [an_item(wall_ns=NOW)])
    one = node_metrics(tmp_path)
    one.update()
    there = [file.name for file in NodeRecordings(tmp_path).all()]
    for path in tmp_path.glob(f"{there[-1]}.*"):
        path.unlink()
    assert [file.name for file in NodeRecordings(tmp_path).all()] != there[:-1]
    one.update()
    assert total(one, "nri_scope_events_total") == 0
    record(tmp_path / "new.nriscope.db", [an_item(wall_ns=NOW + 10**9)] * 3)
    os.utime(tmp_path / "new.nriscope.db")
    one.update()
    assert total(one, "nri_scope_events_total") == 3


def test_events_that_the_ring_removed_are_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "a.nriscope.db"
    one = node_metrics(tmp_path)
    one.update()
    for _ in range(8):
        items = [an_item("StateChange", os.urandom(20_000)) for _ in range(20)]
        record(path, items, limits=WriterLimits(max_size=1 << 20))
        one.update()
    (status,) = one.update().recordings
    with Recording.open(path) as recording:
        assert recording.gaps()
    assert (status.gaps, status.lost) == (0, 0)
    assert total(one, "nri_scope_gaps_total") == total(one, "nri_scope_events_lost_total") == 0


class Told(RecorderStatus):
    """A state that a test sets."""

    plugins: Sequence[str] = ()

    def read(self) -> v1.GetStatusResponse:
        one = v1.RecordingStatus(connected=True, plugins=list(self.plugins), plugins_at_ns=NOW)
        return v1.GetStatusResponse(recordings=[one])


def test_a_plugin_that_was_removed_is_forgotten_after_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(metrics, "monotonic", lambda: now)
    recordings = NodeRecordings(tmp_path)
    told = Told(recordings, "n", None)
    one = NodeMetrics(recordings, told, None, by_namespace=False)

    def shown(*plugins: str) -> dict[str, float]:
        told.plugins = plugins
        one.update()
        return {
            sample.labels["plugin"]: sample.value
            for family in one.registry.collect()
            for sample in family.samples
            if sample.name == "nri_scope_plugin_connected"
        }

    assert shown("10-a", "20-b") == {"10-a": 1, "20-b": 1}
    assert shown("10-a") == {"10-a": 1, "20-b": 0}
    now += metrics.PLUGIN_KEPT_S - 1
    assert shown("10-a") == {"10-a": 1, "20-b": 0}
    # It comes back, and goes once more.
    assert shown("10-a", "20-b") == {"10-a": 1, "20-b": 1}
    now += 2
    assert shown("10-a") == {"10-a": 1, "20-b": 0}
    now += metrics.PLUGIN_KEPT_S + 1
    assert shown("10-a") == {"10-a": 1}


@pytest.mark.exhaustive
async def test_no_label_names_pods_or_containers(tmp_path: Path) -> None:
    source = PROJECT / "recordings/demo.nriscope.db"
    with Recording.open(source) as recording:
        names = {event.namespace for event in recording.events()} - {""}
        names |= {pod.name for pod in recording.pods()}
        names |= {container.name for container in recording.containers()}
    async with agent(tmp_path) as one:
        await wait_until_read(one)
        shutil.copy(source, tmp_path)
        await wait_for(one, DEMO_EVENTS)
        text = await text_of(one)
    values = set(re.findall(r'="((?:[^"\\]|\\.)*)"', text))
    assert names
    assert not values & names


@pytest.mark.exhaustive
async def test_promtool_accepts_the_metrics(tmp_path: Path) -> None:
    shutil.copy(PROJECT / "recordings/demo.nriscope.db", tmp_path)
    async with agent(tmp_path, "--metrics-namespaces") as one:
        text = await text_of(one)
    run = subprocess.run(
        [promtool(), "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/process/env/FOO", "env"),
        ("/linux/resources/memory/limit", "resources"),
        ("/mounts/~1data", "mounts"),
        ("/annotations/a~1b", "annotations"),
        ("/process", "process"),
        ("", "other"),
        ("/", "other"),
    ],
)
def test_kinds_are_few(path: str, kind: str) -> None:
    assert kind_of(path) == kind


def test_reasons_are_few() -> None:
    assert gap_reason(f"{NOT_CONNECTED}: it was stopped") == "not_connected"
    assert gap_reason(f"{NO_SESSION} after session 3 had ended") == "not_connected"
    assert gap_reason(f"{STALLED} for 3.0 s; replies may have been late") == "recorder_stalled"
    assert gap_reason(TOO_FAST) == "too_fast"
    assert gap_reason(KILLED) == "recorder_killed"
    assert gap_reason("x" * 100) == "other"
