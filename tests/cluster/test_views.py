# SPDX-License-Identifier: Apache-2.0
"""Commands on the recordings of a node print what the local commands print."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from nri_scope.recording.query.lookup import event_range
from nri_scope.recording.reading.reader import Recording
from tests.agent.agent_process import agent
from tests.amount import sampled
from tests.cli.command import NRI_SCOPE
from tests.cluster.fake_kubectl import agent_pod, install, pod
from tests.cluster.plugin_command import (
    KUBECTL,
    RECORDING,
    Done,
    cluster,
    of_one_node,
    port,
    run,
    without_header,
)
from tests.recorder.ring_removal import overrun
from tests.sample_names import (
    CHECKOUT,
    CHECKOUT_API,
    CHECKOUT_POD,
    CHECKOUT_PROXY,
    NAMESPACE,
    NODE,
    NODE_EXPORTER,
    NODE_NAMESPACE,
    NODE_POD,
    REPLICA,
    REPLICA_API,
)

__all__ = ["cluster", "port"]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("command", "what"),
    sampled(
        [
            ("blame", CHECKOUT_API),
            ("diff", CHECKOUT),
            ("show", CHECKOUT),
        ],
        2,
    ),
)
async def test_a_view_of_a_pod_equals_the_local_one(
    cluster: dict[str, str], command: str, what: str
) -> None:
    local = await run(NRI_SCOPE, command, RECORDING, what)
    remote = await run(KUBECTL, command, what, environment=cluster)
    assert remote.status == local.status, remote.errors
    assert without_header(remote.output) == without_header(local.output)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("removed", "command"), [(0.3, "diff"), (0.45, "diff"), (0.45, "blame"), (0.7, "diff")]
)
async def test_a_view_equals_the_local_one_after_the_oldest_events_were_removed(
    tmp_path: Path, removed: float, command: str
) -> None:
    (tmp_path / "node").mkdir()
    path = Path(shutil.copy(RECORDING, tmp_path / "node"))
    with Recording.open(path) as recording:
        _, newest = event_range(recording)
    async with agent(path.parent, "--unredacted") as running_agent:
        overrun(path, int(removed * newest))
        what = CHECKOUT_PROXY if command == "blame" else CHECKOUT
        local = await run(NRI_SCOPE, command, path, what)
        environment = of_one_node(tmp_path, running_agent.port)
        remote = await run(KUBECTL, command, what, environment=environment)
    assert remote.status == local.status, remote.errors
    # The header of the local output also names plugins all of whose events were removed.
    assert remote.output.partition("\n\n")[2] == local.output.partition("\n\n")[2]


async def test_a_pulled_recording_equals_that_of_the_node(
    cluster: dict[str, str], tmp_path: Path
) -> None:
    copy = tmp_path / "copy.nriscope.db"
    done = await run(KUBECTL, "pull", "--node", "node1", "-o", copy, environment=cluster)
    assert done.status == 0, done.errors
    original, pulled = [
        await run(NRI_SCOPE, "export", file, "--format", "jsonl", "-o", tmp_path / f"{at}.jsonl")
        for at, file in enumerate((RECORDING, copy))
    ]
    assert original.status == pulled.status == 0
    assert sorted((tmp_path / "0.jsonl").read_text().splitlines()) == sorted(
        (tmp_path / "1.jsonl").read_text().splitlines()
    )


async def test_a_pod_that_no_longer_exists_is_found_in_the_recordings(
    cluster: dict[str, str],
) -> None:
    done = await run(KUBECTL, "blame", REPLICA_API, environment=cluster)
    assert done.status == 0
    assert done.errors == f"pod {REPLICA} no longer exists; reading the recordings of node1\n"


async def test_a_pod_older_than_the_recorder_has_its_spec_but_no_owner(
    tmp_path: Path, port: int
) -> None:
    pods = [agent_pod("node1"), pod(NODE_NAMESPACE, NODE_POD, "node1")]
    pods += [pod(NAMESPACE, "unknown", "node1")]
    cluster = install(tmp_path / "bin", {"pods": pods, "ports": {"nri-scope-node1": port}})
    done = await run(KUBECTL, "blame", NODE_EXPORTER, environment=cluster)
    assert done.status == 0
    about = f"the recordings of node1 have no events about {NODE_EXPORTER}"
    why = "they have its spec, from Synchronize, but not which plugins changed it"
    assert f"{about}: {why}\n" in done.errors
    assert NODE_EXPORTER in done.output
    done = await run(KUBECTL, "log", NODE, environment=cluster)
    assert done.status == 0 and "Synchronize" in done.output
    done = await run(KUBECTL, "log", f"{NAMESPACE}/unknown", environment=cluster)
    assert (done.status, done.output) == (2, "")
    assert f"the recordings of node1 have no events about {NAMESPACE}/unknown" in done.errors


async def test_show_says_that_values_are_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "node"
    folder.mkdir()
    shutil.copy(RECORDING, folder)
    async with agent(folder) as redacting:
        pods = [agent_pod("node1"), pod(NAMESPACE, CHECKOUT_POD, "node1")]
        cluster = {"pods": pods, "ports": {"nri-scope-node1": redacting.port}}
        environment = install(tmp_path / "bin", cluster)
        done = await run(KUBECTL, "show", CHECKOUT, environment=environment)
        assert done.status == 0
        assert done.errors.startswith("this recording is redacted: ") and done.output


@pytest.mark.exhaustive
async def test_a_silent_node_may_have_a_pod_that_no_longer_exists(
    cluster: dict[str, str], tmp_path: Path
) -> None:
    reason = "kubectl port-forward: unable to forward port because pod is not running"
    file = Path(cluster["FAKE_CLUSTER"])
    known = json.loads(file.read_text())
    pods = [*known["pods"], agent_pod("node2")]
    install(tmp_path / "bin", known | {"pods": pods})
    done = await run(KUBECTL, "blame", "shop/none", environment=cluster)
    assert (done.status, done.output) == (2, "")
    assert done.errors == (
        "nri-scope: pod shop/none does not exist, and no recording of node1 has its events; "
        f"unknown for node2: {reason}\n"
    )
    done = await run(KUBECTL, "blame", REPLICA_API, environment=cluster)
    assert done.status == 0 and done.errors.endswith(f"of node1; unknown for node2: {reason}\n")
    install(tmp_path / "bin", known | {"ports": {}})
    done = await run(KUBECTL, "blame", "shop/none", environment=cluster)
    assert done.errors == (
        "nri-scope: pod shop/none does not exist, and whether a recording has its events is "
        f"unknown for node1: {reason}\n"
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("arguments", "line"),
    sampled(
        [
            (
                ("blame", "shop/"),
                "'shop/' is not a pod or container; write NAMESPACE/POD[/CONTAINER]",
            ),
            (
                ("blame", "shop/none"),
                "pod shop/none does not exist, and no recording has its events",
            ),
            (("log", "--node", "none"), "no agent runs on node none; they run on node1"),
            (("diff", "shop/web", "--once"), "No such option '--once'"),
            (
                ("log",),
                "neither WHAT, --node, -l nor --all-nodes was given; "
                "write NAMESPACE/POD[/CONTAINER], or --node NAME",
            ),
            (("log", "shop/web", "-n", "20"), "-n 20 is a namespace, and shop/web a container of"),
            (("log", "--node", "node1", "-n", "20"), "--namespace needs WHAT or -l; name a pod"),
            (("blame", "deploy/none", "-n", "shop"), "deployment/none does not exist in namespace"),
            (("show", "deploy/a/b/c"), "'deploy/a/b/c' is not a pod, a workload or a container"),
            (("report", "shop/web"), "WHAT needs -o or --diagnose; add one of them"),
            (("report", "--node", "n"), "neither -o nor --diagnose was given; add"),
            (("report", "shop/web", "-o", "x.pdf"), "x.pdf: unknown format"),
            (("report", "shop/web", "-o", "none/x.md"), "none/x.md: no such folder"),
            (
                ("blame", "shop/web", "--full", "--changed"),
                "--full and --changed exclude each other",
            ),
            (("pull", "shop/web", "-o", "/dev/null"), "/dev/null exists; name another file"),
            (("pull", "shop/web", "-o", "none/x.nriscope.db"), "none: no such folder"),
            (
                ("status", "--agent-namespace", "x"),
                "no agent runs in namespace x; install nri-scope",
            ),
        ],
        5,
    ),
)
async def test_an_impossible_request_is_one_line(
    cluster: dict[str, str], arguments: tuple[str, ...], line: str
) -> None:
    done = await run(KUBECTL, *arguments, environment=cluster)
    assert (done.status, done.output) == (2, "")
    assert line in done.errors and done.errors.count("\n") == 1, done.errors


async def test_kubectl_is_missing(tmp_path: Path) -> None:
    done = await run(KUBECTL, "status", environment={"PATH": str(tmp_path)})
    assert done == Done(2, "", "nri-scope: kubectl: not found; install it, or add it to PATH\n")
