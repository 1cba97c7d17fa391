# SPDX-License-Identifier: Apache-2.0
"""Commands on the recordings of a node print what the local commands print."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_asyncio

from nri_scope.recording.lookup import event_range
from nri_scope.recording.reader import Recording
from tests.agent.agent_process import agent
from tests.agent.test_interrupted_streams import overrun
from tests.amount import sampled
from tests.cli.command import NRI_SCOPE
from tests.cluster.fake_kubectl import agent_pod, install, pod

RECORDING = Path(__file__).parents[2] / "recordings" / "demo.nriscope.db"
KUBECTL = str(Path(sys.executable).parent / "kubectl-nri_scope")


class Done(NamedTuple):
    status: int
    output: str
    errors: str


async def run(*command: str | Path, environment: dict[str, str] | None = None) -> Done:
    process = await asyncio.create_subprocess_exec(
        *command,
        env=os.environ | (environment or {}),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode is not None
    return Done(process.returncode, output.decode(), errors.decode())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def port(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[int]:
    """Port of an agent that serves the recording."""
    folder = tmp_path_factory.mktemp("node")
    shutil.copy(RECORDING, folder)
    async with agent(folder, "--unredacted") as running_agent:
        yield running_agent.port


@pytest.fixture
def cluster(tmp_path: Path, port: int) -> dict[str, str]:
    """A cluster with one node, which has the recording; the environment that uses it."""
    return of_one_node(tmp_path, port)


def of_one_node(folder: Path, port: int) -> dict[str, str]:
    pods = [agent_pod("node1"), pod("shop", "web", "node1", app="web")]
    return install(folder / "bin", {"pods": pods, "ports": {"nri-scope-node1": port}})


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("command", "what"),
    sampled(
        [
            ("blame", "shop/web/app"),
            ("diff", "shop/web"),
            ("show", "shop/web"),
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
        what = "shop/web/sidecar" if command == "blame" else "shop/web"
        local = await run(NRI_SCOPE, command, path, what)
        environment = of_one_node(tmp_path, running_agent.port)
        remote = await run(KUBECTL, command, what, environment=environment)
    assert remote.status == local.status, remote.errors
    # The header of the local output also names plugins all of whose events were removed.
    assert remote.output.partition("\n\n")[2] == local.output.partition("\n\n")[2]


def without_header(output: str) -> list[str]:
    """Return the lines without the name of the file, and that it is a part of a recording."""
    return [
        line
        for line in output.splitlines()
        if not line.endswith(".nriscope.db") and "part of a recording" not in line
    ]


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
    done = await run(KUBECTL, "blame", "shop/api/app", environment=cluster)
    assert done.status == 0
    assert done.errors == "pod shop/api no longer exists; reading the recordings of node1\n"


async def test_show_says_that_values_are_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "node"
    folder.mkdir()
    shutil.copy(RECORDING, folder)
    async with agent(folder) as redacting:
        pods = [agent_pod("node1"), pod("shop", "web", "node1")]
        cluster = {"pods": pods, "ports": {"nri-scope-node1": redacting.port}}
        environment = install(tmp_path / "bin", cluster)
        done = await run(KUBECTL, "show", "shop/web", environment=environment)
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
        "nri-scope: pod shop/none does not exist, and no recording of node1 has it; "
        f"unknown for node2: {reason}\n"
    )
    done = await run(KUBECTL, "blame", "shop/api/app", environment=cluster)
    assert done.status == 0 and done.errors.endswith(f"of node1; unknown for node2: {reason}\n")
    install(tmp_path / "bin", known | {"ports": {}})
    done = await run(KUBECTL, "blame", "shop/none", environment=cluster)
    assert done.errors == (
        "nri-scope: pod shop/none does not exist, and whether a recording has it is unknown for "
        f"node1: {reason}\n"
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("arguments", "line"),
    sampled(
        [
            (
                ("blame", "shop"),
                "'shop' is not a pod or container; write NAMESPACE/POD[/CONTAINER]",
            ),
            (("blame", "shop/none"), "pod shop/none does not exist, and no recording has it"),
            (("log", "--node", "none"), "no agent runs on node none; they run on node1"),
            (("diff", "shop/web", "--once"), "No such option '--once'"),
            (
                ("log",),
                "neither WHAT, --node nor -l was given; "
                "write NAMESPACE/POD[/CONTAINER], or --node NAME",
            ),
            (("log", "web", "--namespace", "shop"), "--namespace needs -l; write"),
            (
                ("log", "-l", "app=web", "-n", "shop"),
                "'shop' is no number of events; a namespace is",
            ),
            (("report", "shop/web"), "neither -o nor --diagnose was given; add"),
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
