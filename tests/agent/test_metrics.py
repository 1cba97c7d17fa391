# SPDX-License-Identifier: Apache-2.0
"""Metrics against `stats`, promtool, the alert rules and the dashboard."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.agent.metrics import gap_reason, kind_of
from nri_scope.recording.reader import Recording
from nri_scope.runtime import Runtime
from tests.agent.agent_process import Agent, agent
from tests.agent.prometheus import promtool
from tests.cli.running import PATIENCE, running
from tests.cli.test_diff_live import NEW, annotating, create

PROJECT = Path(__file__).parents[2]
RULES = PROJECT / "deploy/prometheus/rules.yaml"
SCRAPE = RULES.with_name("scrape.yaml")
DASHBOARD = PROJECT / "deploy/grafana/nri-scope.json"
CONTAINERD = PROJECT / "tests/data/metrics/containerd-2.4.2.txt"
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def http(one: Agent, path: str = "metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{one.http}/{path}", timeout=PATIENCE) as got:
        content: bytes = got.read()
        return content.decode()


async def text_of(one: Agent) -> str:
    return await asyncio.to_thread(http, one)


def samples(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def by(found: Samples, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    """Return the values of a metric other than 0 by some of its labels."""
    sums: Counter[tuple[str, ...]] = Counter()
    for (one, pairs), value in found.items():
        if one == name:
            sums[tuple(dict(pairs)[label] for label in labels)] += int(value)
    return {key: value for key, value in sums.items() if value}


async def wait_for(one: Agent, events: int) -> Samples:
    """Return the metrics once they count this number of events."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = samples(await text_of(one))
            if sum(by(found, "nri_scope_events_total").values()) >= events:
                return found
            await asyncio.sleep(0.1)


async def stats(path: Path) -> Any:
    async with running("stats", path, "--format", "json") as process:
        status, out, errors = await process.wait_for_exit()
    assert status == 0, errors
    return json.loads(out)


@pytest.mark.parametrize("name", ["containerd-2.1", "demo", "containerd-1.7"])
async def test_metrics_equal_the_counts_of_stats(tmp_path: Path, name: str) -> None:
    source = PROJECT / f"recordings/{name}.nriscope.db"
    counted = await stats(source)
    with Recording.open(source) as recording:
        events = list(recording.events())
    async with agent(tmp_path, "--metrics-namespaces") as one:
        # A recording that appears later is counted from its beginning.
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


async def validated(one: Agent) -> v1.GetStatusResponse:
    """Return the state once a request to a validator was recorded."""
    async with asyncio.timeout(PATIENCE), one.client() as stub:
        while True:
            status = await stub.get_status(v1.GetStatusRequest())
            if status.recordings and status.recordings[0].plugins:
                return status
            await asyncio.sleep(0.1)


async def test_no_label_names_pods_or_containers(tmp_path: Path) -> None:
    source = PROJECT / "recordings/demo.nriscope.db"
    with Recording.open(source) as recording:
        names = {event.namespace for event in recording.events()} - {""}
        names |= {pod.name for pod in recording.pods()}
        names |= {container.name for container in recording.containers()}
    async with agent(tmp_path) as one:
        shutil.copy(source, tmp_path)
        await wait_for(one, 88)
        text = await text_of(one)
    values = set(re.findall(r'="((?:[^"\\]|\\.)*)"', text))
    assert names
    assert not values & names


async def test_promtool_accepts_the_metrics(tmp_path: Path) -> None:
    shutil.copy(PROJECT / "recordings/demo.nriscope.db", tmp_path)
    async with agent(tmp_path, "--metrics-namespaces") as one:
        text = await text_of(one)
    run = subprocess.run(
        [promtool(), "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_alerts_fire_when_they_should() -> None:
    run = subprocess.run(
        [promtool(), "test", "rules", RULES.with_name("rules_test.yaml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_every_alert_is_tested_to_fire_and_not_to_fire() -> None:
    alerts = re.findall(r"alert: (\w+)", RULES.read_text())
    tests = RULES.with_name("rules_test.yaml").read_text()
    assert len(alerts) == 8
    for alert in alerts:
        assert re.search(rf"alertname: {alert}\n\s+exp_alerts", tests), alert
        assert re.search(rf"alertname: {alert}}}", tests), alert


def dashboard_queries() -> list[str]:
    found = json.loads(DASHBOARD.read_text())
    return [target["expr"] for panel in found["panels"] for target in panel["targets"]]


def test_promtool_accepts_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    queries = dashboard_queries()
    assert len(queries) > 10
    rules = [
        {"record": f"query:{number}", "expr": query.replace("$__rate_interval", "5m")}
        for number, query in enumerate(queries)
    ]
    path = tmp_path / "rules.json"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    run = subprocess.run(
        [promtool(), "check", "rules", path], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("has_node", [True, False])
def test_the_dashboard_counts_a_node_once_while_its_pod_is_updated(
    tmp_path: Path, has_node: bool
) -> None:
    pods = [("10.0.0.1:9644", "worker-1"), ("10.0.0.2:9644", "worker-1"), ("10.0.1.1:9644", "w-2")]
    series = [
        {"series": f"{name}{{{labels}}}", "values": value}
        for instance, node in pods
        for name, value in (
            ("nri_scope_synchronized", "1"),
            ("nri_scope_recording_bytes", "100"),
            ("nri_scope_unreadable_recordings", "3"),
            ("nri_scope_agent_info", "1"),
        )
        for labels in [
            f'instance="{instance}"'
            + (f',node="{node}"' if has_node or name == "nri_scope_agent_info" else "")
        ]
    ]
    panels = {one["title"]: one["targets"] for one in json.loads(DASHBOARD.read_text())["panels"]}
    checks = [
        {
            "expr": panels[title][number]["expr"].replace("$node", ".*"),
            "eval_time": "0s",
            "exp_samples": [{"labels": "{}", "value": value}],
        }
        for title, number, value in (
            ("Nodes recorded", 0, 2),
            ("Nodes recorded", 1, 2),
            ("Recordings", 0, 200),
            ("Unreadable recordings", 0, 6),
        )
    ]
    test = {"input_series": series, "promql_expr_test": checks}
    (tmp_path / "test.json").write_text(json.dumps({"tests": [test]}))
    run = subprocess.run(
        [promtool(), "test", "rules", tmp_path / "test.json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_scraping_adds_the_node(tmp_path: Path) -> None:
    config = yaml.safe_load(SCRAPE.read_text())
    del config["rule_files"]
    meta = {
        "__meta_kubernetes_pod_container_port_name": "metrics",
        "__meta_kubernetes_pod_phase": "Running",
        "__meta_kubernetes_pod_node_name": "worker-1",
        "__meta_kubernetes_pod_name": "nri-scope-x7k2p",
        "__meta_kubernetes_node_address_InternalIP": "10.0.0.9",
        "__meta_kubernetes_node_name": "worker-1",
    }
    for job in config["scrape_configs"]:
        # Debian's Prometheus is built without the discovery of Kubernetes.
        assert job.pop("kubernetes_sd_configs")
        job["static_configs"] = [
            {"targets": ["10.0.0.1:9644"], "labels": meta},
            {"targets": ["10.0.0.1"], "labels": meta | {name: "" for name in list(meta)[:2]}},
        ]
    path = tmp_path / "prometheus.json"
    path.write_text(json.dumps(config))
    found = {
        job["job_name"]: [
            one["labels"] for one in discovered(path, job["job_name"]) if one["labels"]
        ]
        for job in config["scrape_configs"]
    }
    # A container without ports is no target.
    (agent_labels,) = found["nri-scope"]
    wanted = {"job": "nri-scope", "instance": "10.0.0.1:9644", "node": "worker-1"}
    assert {name: agent_labels[name] for name in wanted} == wanted
    assert agent_labels["pod"] == "nri-scope-x7k2p"
    assert found["containerd"][0]["__address__"] == "10.0.0.9:1338"
    assert found["containerd"][0]["node"] == "worker-1"


def discovered(config: Path, job: str) -> Any:
    """Return the targets of a job, as promtool shows them."""
    run = subprocess.run(
        [promtool(), "check", "service-discovery", "--timeout=2s", config, job],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(run.stdout)


async def test_rules_and_dashboard_use_metrics_that_exist(tmp_path: Path) -> None:
    async with agent(tmp_path) as one:
        text = await text_of(one) + CONTAINERD.read_text()
    known = set()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        known |= {name} if kind != "histogram" else {f"{name}_bucket", f"{name}_count"}
    used = set()
    rules = re.findall(r"expr: (?:>-\n)?(.*?)\n(?=        \w)", RULES.read_text(), re.DOTALL)
    for query in [*dashboard_queries(), *rules]:
        used |= set(re.findall(r"\b(?:nri_scope|containerd)_\w+", query))
    assert len(used) > 12
    assert used <= known


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
    assert gap_reason("not connected to the runtime: it was stopped") == "not_connected"
    assert gap_reason("the recorder stalled for 3.0 s; replies may have been late") == (
        "recorder_stalled"
    )
    assert gap_reason("x" * 100) == "other"
