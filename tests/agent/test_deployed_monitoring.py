# SPDX-License-Identifier: Apache-2.0
"""What `deploy` has for Prometheus and Grafana, by promtool: rules, scraping and the dashboard."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.agent.agent_process import agent
from tests.agent.prometheus import promtool
from tests.agent.scraped_metrics import text_of

PROJECT = Path(__file__).parents[2]
RULES = PROJECT / "deploy/prometheus/rules.yaml"
SCRAPE = RULES.with_name("scrape.yaml")
DASHBOARD = PROJECT / "deploy/grafana/nri-scope.json"
CONTAINERD = PROJECT / "tests/data/metrics/containerd-2.4.2.txt"


def run_promtool(*arguments: str | Path) -> str:
    """Return what promtool prints if it succeeds."""
    run = subprocess.run([promtool(), *arguments], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@pytest.mark.exhaustive
def test_alerts_fire_when_they_should() -> None:
    run_promtool("test", "rules", RULES.with_name("rules_test.yaml"))


def test_every_alert_is_tested_to_fire_and_not_to_fire() -> None:
    alerts = re.findall(r"alert: (\w+)", RULES.read_text())
    tests = RULES.with_name("rules_test.yaml").read_text()
    assert len(alerts) == 9
    for alert in alerts:
        assert re.search(rf"alertname: {alert}\n\s+exp_alerts", tests), alert
        assert re.search(rf"alertname: {alert}}}", tests), alert


def dashboard_queries() -> list[str]:
    found = json.loads(DASHBOARD.read_text())
    return [target["expr"] for panel in found["panels"] for target in panel["targets"]]


@pytest.mark.exhaustive
def test_promtool_accepts_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    queries = dashboard_queries()
    assert len(queries) > 10
    rules = [
        {"record": f"query:{number}", "expr": query.replace("$__rate_interval", "5m")}
        for number, query in enumerate(queries)
    ]
    path = tmp_path / "rules.json"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    run_promtool("check", "rules", path)


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
    run_promtool("test", "rules", tmp_path / "test.json")


@pytest.mark.exhaustive
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
            {"targets": ["10.0.0.1"], "labels": meta | dict.fromkeys(list(meta)[:2], "")},
        ]
    path = tmp_path / "prometheus.json"
    path.write_text(json.dumps(config))
    found = {
        job["job_name"]: [one["labels"] for one in json.loads(shown) if one["labels"]]
        for job in config["scrape_configs"]
        for shown in [
            run_promtool("check", "service-discovery", "--timeout=2s", path, job["job_name"])
        ]
    }
    # A container without ports is no target.
    (agent_labels,) = found["nri-scope"]
    wanted = {"job": "nri-scope", "instance": "10.0.0.1:9644", "node": "worker-1"}
    assert {name: agent_labels[name] for name in wanted} == wanted
    assert agent_labels["pod"] == "nri-scope-x7k2p"
    assert found["containerd"][0]["__address__"] == "10.0.0.9:1338"
    assert found["containerd"][0]["node"] == "worker-1"


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
