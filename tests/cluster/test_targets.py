# SPDX-License-Identifier: Apache-2.0
"""Pods are named as for kubectl: in a namespace, or by the workload that they belong to."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nri_scope.cluster.kubectl import Kubectl
from nri_scope.cluster.target import NamedTarget
from nri_scope.errors import UsageError
from tests.amount import sampled
from tests.cli.command import NRI_SCOPE
from tests.cluster.fake_kubectl import agent_pod, change, matches, pod
from tests.cluster.plugin_command import KUBECTL, RECORDING, cluster, port, run, without_header
from tests.sample_names import (
    API,
    CHECKOUT,
    CHECKOUT_API,
    CHECKOUT_POD,
    NAMESPACE,
    REPLICA,
    REPLICA_API,
    REPLICA_POD,
)

__all__ = ["cluster", "port"]

KEYS = st.sampled_from(["app", "tier", "a.example/b"])
VALUES = st.sampled_from(["web", "db", "x-1"])
LABELS = st.dictionaries(KEYS, VALUES)
SEVERAL = st.lists(VALUES, min_size=1, max_size=2, unique=True)
EXPRESSIONS = st.lists(
    st.fixed_dictionaries(
        {"key": KEYS, "operator": st.sampled_from(["In", "NotIn"]), "values": SEVERAL}
    )
    | st.fixed_dictionaries({"key": KEYS, "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
    max_size=3,
)


class OneWorkload(Kubectl):
    """A kubectl that has one workload, with this selector."""

    selector: dict[str, Any]

    async def get(self, fields: Any, *arguments: str, is_list: bool = True) -> list[list[str]]:
        parts = (self.selector.get(field.rpartition(".")[2]) for field in fields)
        return [["" if part is None else json.dumps(part) for part in parts]]


def selector_text(selector: dict[str, Any]) -> str:
    kubectl = OneWorkload()
    object.__setattr__(kubectl, "selector", selector)
    return asyncio.run(NamedTarget("shop", "job", "web").selector(kubectl))


def is_met(one: dict[str, Any], labels: dict[str, str]) -> bool:
    value = labels.get(one["key"])
    match one["operator"]:
        case "In":
            return value in one["values"]
        case "NotIn":
            return value not in one["values"]
        case "Exists":
            return value is not None
    return value is None


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(LABELS, EXPRESSIONS, st.lists(LABELS, min_size=1))
def test_a_selector_as_text_matches_the_same_pods(
    required: dict[str, str], expressions: list[dict[str, Any]], pods: list[dict[str, str]]
) -> None:
    selector = {"matchLabels": required or None, "matchExpressions": expressions or None}
    if not required and not expressions:
        with pytest.raises(UsageError, match="no selector of pods"):
            selector_text(selector)
        return
    text = selector_text(selector)
    for labels in pods:
        expected = required.items() <= labels.items()
        expected = expected and all(is_met(expression, labels) for expression in expressions)
        assert matches(text, labels) == expected


@pytest.mark.parametrize(
    "selector",
    [
        {"matchLabels": {"app": "web,other=x"}},
        {"matchLabels": {"": "web"}},
        {"matchLabels": ["app"]},
        {"matchExpressions": [{"key": "a", "operator": "In", "values": ["x)"]}]},
        {"matchExpressions": [{"key": "a", "operator": "Other"}]},
    ],
)
def test_a_selector_that_no_api_server_sends_is_refused(selector: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="no selector of pods"):
        selector_text(selector)


def workload(kind: str, name: str, **labels: str) -> dict[str, Any]:
    return {
        "kind": kind,
        "metadata": {"namespace": NAMESPACE, "name": name},
        "spec": {"selector": {"matchLabels": labels}},
    }


@pytest.mark.parametrize(
    "words",
    sampled(
        [
            ["deploy/web", "-n", NAMESPACE],
            [f"pod/{CHECKOUT_POD}", "--namespace", NAMESPACE],
            [CHECKOUT_POD, "-n", NAMESPACE],
            ["deployments/web"],
            [CHECKOUT_POD],
        ]
    ),
)
async def test_each_way_to_name_a_pod_shows_the_same(
    cluster: dict[str, str], words: list[str]
) -> None:
    change(cluster, namespace=NAMESPACE, workloads=[workload("deployment", "web", app="web")])
    expected = await run(KUBECTL, "show", CHECKOUT, environment=cluster)
    assert expected.status == 0
    assert await run(KUBECTL, "show", *words, environment=cluster) == expected


async def test_the_namespace_of_a_context_without_one_is_default(cluster: dict[str, str]) -> None:
    done = await run(KUBECTL, "blame", "web", environment=cluster)
    assert (done.status, done.output) == (2, "")
    assert "pod default/web does not exist" in done.errors


@pytest.mark.exhaustive
async def test_a_container_of_a_workload_is_named_after_it(
    cluster: dict[str, str], tmp_path: Path
) -> None:
    change(cluster, workloads=[workload("daemonset", "web", app="web")])
    expected = await run(KUBECTL, "blame", CHECKOUT_API, environment=cluster)
    for what in (f"{CHECKOUT_POD}/{API}", f"ds/web/{API}"):
        done = await run(KUBECTL, "blame", "-n", NAMESPACE, what, environment=cluster)
        assert done == expected
    copy = tmp_path / "copy.nriscope.db"
    done = await run(KUBECTL, "pull", "ds/web", "-n", NAMESPACE, "-o", copy, environment=cluster)
    assert done.status == 0 and copy.exists()


async def test_of_several_pods_that_is_taken_which_kubectl_logs_takes(
    cluster: dict[str, str],
) -> None:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    chosen, late = (
        pod(NAMESPACE, CHECKOUT_POD, "node1", app="web"),
        pod(NAMESPACE, "aa", "node1", app="web"),
    )
    chosen["status"]["conditions"] = [ready]
    late["status"]["conditions"] = [{**ready, "lastTransitionTime": "2026-02-01T00:00:00Z"}]
    waiting = pod(NAMESPACE, "ab", "", app="web")
    unready = pod(NAMESPACE, "ac", "node1", app="web")
    pods = [agent_pod("node1"), waiting, unready, late, chosen]
    change(cluster, pods=pods, workloads=[workload("replicaset", "web", app="web")])
    done = await run(KUBECTL, "show", "rs/web", "-n", NAMESPACE, environment=cluster)
    assert (done.status, done.errors) == (0, f"Found 4 pods, using pod/{CHECKOUT_POD}\n")
    done = await run(
        KUBECTL, "show", "rs/web", "-n", NAMESPACE, "--node", "node2", environment=cluster
    )
    assert done.status == 2 and "replicaset/web has no pods on node2" in done.errors


async def test_log_of_a_workload_shows_all_its_pods(cluster: dict[str, str]) -> None:
    pods = [agent_pod("node1"), pod(NAMESPACE, CHECKOUT_POD, "node1", app="web")]
    pods.append(pod(NAMESPACE, REPLICA_POD, "node1", app="web"))
    change(cluster, pods=pods, workloads=[workload("deployment", "web", app="web")])
    options = ("-n", NAMESPACE, "--format", "jsonl")
    expected = await run(KUBECTL, "log", "-l", "app=web", *options, environment=cluster)
    pods_of_events = {json.loads(line).get("pod") for line in expected.output.splitlines()}
    assert pods_of_events >= {CHECKOUT_POD, REPLICA_POD}
    assert await run(KUBECTL, "log", "deploy/web", *options, environment=cluster) == expected
    done = await run(KUBECTL, "log", f"deploy/web/{API}", *options, environment=cluster)
    events = [json.loads(line) for line in done.output.splitlines()]
    assert {event["container"] for event in events if "event" in event} == {API}
    done = await run(KUBECTL, "log", "deploy/web", "--node", "node1", environment=cluster)
    assert done.status == 2 and "--node and deploy/web exclude each other" in done.errors


@pytest.mark.exhaustive
async def test_two_pods_are_compared_as_two_containers_of_files(
    cluster: dict[str, str], port: int
) -> None:
    pods = [agent_pod("node1"), agent_pod("node2"), pod(NAMESPACE, CHECKOUT_POD, "node1")]
    pods.append(pod(NAMESPACE, REPLICA_POD, "node2"))
    ports = {"nri-scope-node1": port, "nri-scope-node2": port}
    change(cluster, pods=pods, ports=ports)
    local = await run(NRI_SCOPE, "diff", RECORDING, CHECKOUT_API, RECORDING, REPLICA_API)
    words = ("diff", "-n", NAMESPACE, f"{CHECKOUT_POD}/{API}", f"pod/{REPLICA_POD}/{API}")
    remote = await run(KUBECTL, *words, environment=cluster)
    assert (remote.status, remote.errors) == (local.status, local.errors) == (1, "")
    expected = local.output.replace(f"A: {RECORDING}", "A: node1")
    expected = expected.replace(f"B: {RECORDING}", "B: node2")
    # The copies are parts of the recordings.
    assert without_header(remote.output) == without_header(expected)
    remote = await run(KUBECTL, *words, "--format", "json", environment=cluster)
    assert remote.status == 1 and f'"node1: {CHECKOUT_API} 5f1440470e42"' in remote.output
    done = await run(KUBECTL, "diff", CHECKOUT, REPLICA, environment=cluster)
    assert (done.status, done.output) == (2, "") and "/tmp" not in done.errors
    done = await run(KUBECTL, "diff", CHECKOUT, REPLICA, "--where", "env", environment=cluster)
    assert done.status == 2 and "OTHER and --where exclude each other" in done.errors
