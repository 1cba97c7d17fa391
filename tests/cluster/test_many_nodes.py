# SPDX-License-Identifier: Apache-2.0
"""Commands that read several nodes, one of which does not answer."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.cli.kubectl.status import status_lines, status_row
from nri_scope.cluster.agent_pods import NO_AGENT, NamedPod
from nri_scope.cluster.gather import pods_filters
from nri_scope.cluster.node_states import NodeState
from nri_scope.events import UNRESPONSIVE
from nri_scope.filter import parse
from nri_scope.recording.reading.reader import Recording
from tests.agent.agent_process import agent
from tests.cli.command import NRI_SCOPE
from tests.cluster.fake_kubectl import agent_pod, install, pod
from tests.cluster.plugin_command import KUBECTL, run
from tests.sample_names import (
    CHECKOUT,
    CHECKOUT_POD,
    NAMESPACE,
    NIGHTLY,
    REPORT_NAMESPACE,
    REPORT_POD,
)

RECORDINGS = Path(__file__).parents[2] / "recordings"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, str]]:
    """Two nodes with recordings, one whose agent is dead, one whose agent hangs, one without."""
    tmp_path = tmp_path_factory.mktemp("cluster")
    async with AsyncExitStack() as stack:
        ports: dict[str, int] = {}
        for node, name in (("node1", "demo"), ("node2", "containerd-2.1")):
            folder = tmp_path / node
            folder.mkdir()
            shutil.copy(RECORDINGS / f"{name}.nriscope.db", folder)
            served = await stack.enter_async_context(agent(folder, "--unredacted"))
            ports[f"nri-scope-{node}"] = served.port
        with socket.create_server(("127.0.0.1", 0)) as hanging:
            ports["nri-scope-hanging"] = hanging.getsockname()[1]
            pods = [agent_pod(node) for node in ("node1", "node2", "dead", "hanging")]
            pods += [
                pod(NAMESPACE, CHECKOUT_POD, "node1", app="web"),
                pod(REPORT_NAMESPACE, REPORT_POD, "node2", app="web"),
                pod("shop", "other", "without-agent", app="web"),
            ]
            yield install(tmp_path / "bin", {"pods": pods, "ports": ports})


@pytest.mark.exhaustive
async def test_status_shows_every_node(cluster: dict[str, str]) -> None:
    done = await run(KUBECTL, "status", "--format", "json", environment=cluster)
    nodes = {one["node"]: one for one in json.loads(done.output)["nodes"]}
    assert done.status == 1
    assert list(nodes) == sorted(nodes)
    assert nodes["node2"]["runtime_version"] == "2.1.9+unknown"
    assert nodes["node2"]["plugins"] is None
    assert (nodes["node1"]["connected"], nodes["node1"]["gaps"]) == (False, 0)
    assert "pod is not running" in nodes["dead"]["problem"]
    assert nodes["hanging"]["problem"] == "no answer within 5 s"
    assert nodes["without-agent"]["problem"] == "it has no agent"


def test_failed_nodes_are_listed_by_reason() -> None:
    good = v1.RecordingStatus(recording_now=True, connected=True, synchronized=True)
    answered = v1.GetStatusResponse(recordings=[good])
    states = [
        NodeState("a", answered),
        *(NodeState(name, None, "no answer within 5 s") for name in ("b", "d")),
        NodeState("c", None, NO_AGENT),
    ]
    lines = list(status_lines(states, None))
    assert [line.split()[0] for line in (lines[0], lines[2])] == ["node", "a"]
    assert lines[3:5] == [
        "no answer from 2 nodes: no answer within 5 s: b, d",
        f"no answer from 1 node: {NO_AGENT}: c",
    ]
    # Without a table.
    first, *_ = status_lines(states[1:2], None)
    assert first == "no answer from 1 node: no answer within 5 s: b"


@pytest.mark.parametrize(
    ("more", "lost", "shown"),
    [
        ({}, 0, "0"),
        ({}, 3, "3"),
        ({"gaps_of_unknown_size": 1}, 0, "unknown"),
        ({"gaps_of_unknown_size": 1}, 3, "at least 3"),
        ({"trouble": UNRESPONSIVE, "heartbeat_ns": 10**18}, 0, "unknown"),
    ],
)
def test_losses_that_are_unknown_are_no_number(more: dict[str, Any], lost: int, shown: str) -> None:
    recording = v1.RecordingStatus(recording_now=True, lost=lost, **more)
    state = NodeState("a", v1.GetStatusResponse(recordings=[recording]))
    assert status_row(state)[4] == shown
    assert state.document()["lost_is_lower_bound"] == (not shown.isdigit())
    assert status_row(state)[1].startswith(UNRESPONSIVE) == ("trouble" in more)
    between = NodeState("a", v1.GetStatusResponse(recordings=[recording], gaps_between=1))
    assert not status_row(between)[4].isdigit()


def test_plugins_are_those_of_connected_recordings() -> None:
    old = v1.RecordingStatus(plugins=["10-old"], plugins_at_ns=2)
    new = v1.RecordingStatus(connected=True, plugins=["20-new"], plugins_at_ns=1)
    for recordings, plugins in (([old, new], ["20-new"]), ([new, old], ["20-new"]), ([old], None)):
        assert NodeState("n", v1.GetStatusResponse(recordings=recordings)).plugins == plugins


@pytest.mark.exhaustive
async def test_log_shows_the_events_of_all_nodes(cluster: dict[str, str]) -> None:
    options = ("-l", "app=web", "--format", "jsonl", "--where", "event:CreateContainer")
    done = await run(KUBECTL, "log", *options, environment=cluster)
    shown = [json.loads(line) for line in done.output.splitlines()]
    expected: list[tuple[str, int]] = []
    for node, name, where in (
        ("node1", "demo", f"pod:{CHECKOUT} event:CreateContainer"),
        ("node2", "containerd-2.1", f"pod:{NIGHTLY} event:CreateContainer"),
    ):
        local = await run(
            NRI_SCOPE,
            *("log", RECORDINGS / f"{name}.nriscope.db", "--format", "jsonl", "--where", where),
        )
        expected += [(node, json.loads(line)["id"]) for line in local.output.splitlines()]
    found = [one for one in shown if "event" in one]
    events = [(one["node"], one["id"]) for one in found]
    assert events and sorted(events) == sorted(expected)
    assert found == sorted(found, key=lambda one: one["at"])
    for last in (0, 2):
        done = await run(KUBECTL, "log", *options, "--last", str(last), environment=cluster)
        assert [json.loads(line) for line in done.output.splitlines()] == found[len(found) - last :]
    assert "without-agent: has no agent; the events of its pods are missing" in done.errors
    assert done.status == 1


@pytest.mark.exhaustive
async def test_log_of_all_nodes_needs_no_pods(cluster: dict[str, str]) -> None:
    where = "event:CreateContainer"
    options = ("--all-nodes", "--format", "jsonl", "--where", where)
    done = await run(KUBECTL, "log", *options, environment=cluster)
    shown = [json.loads(line) for line in done.output.splitlines()]
    found = [one for one in shown if "event" in one]
    expected: list[tuple[str, int]] = []
    for node, name in (("node1", "demo"), ("node2", "containerd-2.1")):
        with Recording.open(RECORDINGS / f"{name}.nriscope.db") as recording:
            expected += [(node, event.id) for event in recording.events(where=parse(where))]
    assert sorted((one["node"], one["id"]) for one in found) == sorted(expected)
    assert found == sorted(found, key=lambda one: one["at"])
    for node in ("dead", "hanging", "without-agent"):
        assert f"{node}: " in done.errors
    assert done.status == 1

    for more in (("-f",), ("-l", "app=web"), ("shop/web",), ("--node", "node1")):
        done = await run(KUBECTL, "log", *options, *more, environment=cluster)
        assert (done.status, done.output, done.errors.count("\n")) == (2, "", 1)


async def test_a_node_without_an_agent_is_named(cluster: dict[str, str]) -> None:
    done = await run(KUBECTL, "log", "shop/other", environment=cluster)
    line = "shop/other runs on without-agent, which has no agent; agents run on dead, hanging, node"
    assert (done.status, done.output) == (2, "")
    assert line in done.errors and done.errors.count("\n") == 1


@pytest.mark.exhaustive
async def test_collect_writes_a_bundle_of_each_node(
    cluster: dict[str, str], tmp_path: Path
) -> None:
    output = tmp_path / "collected"
    done = await run(KUBECTL, "collect", "-l", "app=web", "-o", output, environment=cluster)
    assert done.status == 1
    assert "without-agent: not collected: it has no agent" in done.errors
    names = ["node1-demo.nriscope.zip", "node2-containerd-2.1.nriscope.zip"]
    assert sorted(path.name for path in output.iterdir()) == names
    for name, pod_name in zip(names, (CHECKOUT, NIGHTLY), strict=True):
        with Recording.open(output / name) as recording:
            pods = {f"{event.namespace}/{event.pod}" for event in recording.events() if event.pod}
        assert pod_name in pods

    again = await run(KUBECTL, "collect", "-l", "app=web", "-o", output, environment=cluster)
    assert again.status == 2 and "file exists; choose an empty folder" in again.errors


@pytest.mark.parametrize("command", [("log",), ("collect", "-o", "collected")])
async def test_pods_that_are_not_scheduled_are_one_line(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    pods = [agent_pod("node"), pod("shop", "pending", "", app="web")]
    environment = install(tmp_path / "bin", {"pods": pods, "ports": {}})
    arguments = [str(tmp_path / one) if one == "collected" else one for one in command]
    done = await run(KUBECTL, *arguments, "-l", "app=web", environment=environment)
    line = "no pod that matches -l app=web is scheduled yet"
    assert (done.status, done.errors) == (2, f"nri-scope: {line}\n")
    assert not (tmp_path / "collected").exists()


@pytest.mark.exhaustive
async def test_missing_names_nodes_without_answer(cluster: dict[str, str]) -> None:
    async with asyncio.timeout(120):
        done = await run(
            KUBECTL, "missing", "--plugin", "cpu-policy", "--format", "json", environment=cluster
        )
    found = json.loads(done.output)
    assert sorted(found["without_answer"]) == ["dead", "hanging", "without-agent"]
    by_node = {
        node: [one for one in found["creations"] if one["node"] == node]
        for node in ("node1", "node2")
    }
    assert {one["plugin"] for one in by_node["node2"]} == {"unknown"}
    assert "connected" in {one["plugin"] for one in by_node["node1"]}
    assert "without-agent: no answer: it has no agent" in done.errors
    assert "was never connected" not in done.errors
    assert done.status == 1


TABLE = ["node", "without", "evidence"]


@pytest.mark.exhaustive
async def test_missing_names_the_plugins_that_were_seen(cluster: dict[str, str]) -> None:
    done = await run(KUBECTL, "missing", "--plugin", "cpu-polcy", environment=cluster)
    line = "cpu-polcy was never connected in the recorded time; seen were "
    assert line in done.errors and "cpu-policy" in done.errors
    lines = done.output.splitlines()
    heading = next(at for at, line in enumerate(lines) if line.split() == TABLE)
    without = {line.split()[0]: line for line in lines[heading + 2 : heading + 7]}
    assert without.keys() == {"node1", "node2", "dead", "hanging", "without-agent"}
    assert "cpu-polcy  seen were " in without["node1"] and "60-cpu-policy" in without["node1"]
    assert "unknown: nothing that was observed tells" in without["node2"]
    assert "no answer: it has no agent" in without["without-agent"]
    done = await run(KUBECTL, "missing", "--plugin", "", environment=cluster)
    assert done.status == 2 and "'--plugin': the text is empty" in done.errors


def test_filters_of_many_pods_are_short_enough_and_complete() -> None:
    names = [f"web-with-a-long-name-{number:03}-x7k2p" for number in range(250)]
    pods = [NamedPod("team-a", name, "node1") for name in names]
    filters = pods_filters(pods, "event:CreateContainer OR event:StopContainer")
    assert len(filters) > 1
    assert [one for _, named in filters for one in named] == pods
    with Recording.open(RECORDINGS / "demo.nriscope.db") as recording:
        event = next(event for event in recording.events() if event.event == "CreateContainer")
    for text, named in filters:
        where = parse(text)
        for one in pods:
            about = replace(event, namespace=one.namespace, pod=one.name)
            assert where.matches(about) == (one in named)
            assert not where.matches(replace(about, event="StartContainer"))
