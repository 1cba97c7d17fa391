# SPDX-License-Identifier: Apache-2.0
"""Views that follow a pod, while its node's agent dies and comes back."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import EventKind
from tests.cli.running import PATIENCE
from tests.cluster.fake_kubectl import agent_pod, pod
from tests.cluster.live_node import Node, kubectl, live_node, processes, until
from tests.cluster.plugin_command import KUBECTL, run
from tests.tui.terminal import Terminal, needs_tmux, terminal


def shown(node: Node, temporary: Path) -> AbstractAsyncContextManager[Terminal]:
    """Run ``kubectl nri-scope tui`` in a terminal."""
    # Set here, as the terminal's shell may set PATH.
    variables = {**node.environment, "TMPDIR": str(temporary)}
    words = [
        "env",
        "-u",
        "COLUMNS",
        "-u",
        "LINES",
        *(f"{name}={value}" for name, value in variables.items()),
        KUBECTL,
    ]
    return terminal(node.folder, "tui shop/web", (120, 30), program=shlex.join(words))


@pytest.mark.exhaustive
@needs_tmux
async def test_tui_shows_new_events_and_interruptions(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    async with live_node(tmp_path) as node:
        async with shown(node, temporary) as screen:
            text = await screen.shows("shop/web on node", "CreateContainer")
            assert "interrupted" not in text
            await node.create(3)
            await screen.until(lambda text: text.count("CreateContainer  ") == 4)
            await node.kill_agent()
            text = await screen.shows("node: ", "connecting again")
            assert "shop/web on node" in text and text.count("CreateContainer  ") == 4
            await node.create(2)
            await node.start_agent()
            await screen.until(lambda text: text.count("CreateContainer  ") == 6)
            await screen.until(lambda text: "connecting again" not in text)
            await screen.press("q")
            text = await screen.shows("ended with 0")
            assert "Traceback" not in text
        await until(lambda: not node.forwards() and not list(temporary.iterdir()))


@pytest.mark.exhaustive
@needs_tmux
async def test_a_terminated_tui_leaves_nothing_behind(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    async with live_node(tmp_path) as node:
        async with shown(node, temporary) as screen:
            await screen.shows("CreateContainer")
            (number,) = processes(KUBECTL.encode(), b"tui", b"shop/web")
            os.kill(number, signal.SIGTERM)
            text = await screen.shows("ended with")
            assert "Traceback" not in text
        await until(lambda: not node.forwards() and not list(temporary.iterdir()))


@pytest.mark.exhaustive
async def test_log_of_labelled_pods_follows_them_to_other_nodes(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node:
        options = ("--format", "jsonl", "--last", "1")
        async with kubectl(node, "log", "-f", "-l", "app=web", *options) as command:
            output = command.process.stdout
            assert output is not None
            nodes = set[str]()

            async def read_until(expected: set[str]) -> None:
                async with asyncio.timeout(PATIENCE):
                    while nodes != expected:
                        nodes.add(json.loads(await output.readline())["node"])

            await read_until({"node"})
            agents = [agent_pod("node"), agent_pod("other")]
            ports = {"nri-scope-node": node.port, "nri-scope-other": node.port}
            node.change(pods=[*agents, pod("shop", "web", "other", app="web")], ports=ports)
            # The other node has the same recording.
            await read_until({"node", "other"})
            await until(lambda: len(node.forwards()) == 1)
            await node.create()
            assert json.loads(await output.readline())["node"] == "other"
            assert (await command.interrupt())[0] == 0


@pytest.mark.exhaustive
async def test_log_says_that_the_agent_is_gone_and_back(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node:
        async with kubectl(node, "log", "shop/web", "-f", "--format", "jsonl") as command:
            assert command.process.stdout is not None
            for _ in range(2):
                await command.process.stdout.readline()
            await node.kill_agent()
            line = await command.wait_for_text("connecting again")
            assert line.startswith("node: ")
            await node.create()
            await node.start_agent()
            await command.wait_for_text("node: connected again")
            async with asyncio.timeout(30):
                assert b"CreateContainer" in await command.process.stdout.readline()
            assert (await command.interrupt())[0] == 0


@pytest.mark.exhaustive
async def test_log_waits_for_the_first_event_of_a_pod(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node:
        node.change(pods=[agent_pod("node"), pod("shop", "late", "node")])
        async with kubectl(node, "log", "shop/late", "-f", "--format", "jsonl") as command:
            await command.wait_for_text(
                "the recordings of node have no events about shop/late yet; waiting for them"
            )
            request = api.CreateContainerRequest(
                pod=api.PodSandbox(id="late", namespace="shop", name="late"),
                container=api.Container(id="c", pod_sandbox_id="late", name="app"),
            )
            await node.runtime.dispatch(EventKind.CreateContainer, request)
            assert command.process.stdout is not None
            async with asyncio.timeout(PATIENCE):
                assert b"CreateContainer" in await command.process.stdout.readline()
            assert (await command.interrupt())[0] == 0


@pytest.mark.exhaustive
async def test_log_waits_until_a_pod_is_scheduled_and_says_that_it_moved(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node:
        node.change(pods=[agent_pod("node"), pod("shop", "web", "")])
        async with kubectl(node, "log", "shop/web", "-f", "--format", "jsonl") as command:
            await command.wait_for_text("shop/web is not scheduled yet; waiting for it")
            node.change(pods=[agent_pod("node"), pod("shop", "web", "node")])
            assert command.process.stdout is not None
            async with asyncio.timeout(PATIENCE):
                assert b"Configure" in await command.process.stdout.readline()
            node.change(pods=[agent_pod("node"), pod("shop", "web", "other")])
            await command.wait_for_text(
                "shop/web runs on other now; these are its events on node; "
                "run the command again for those on other"
            )
            assert (await command.interrupt())[0] == 0
        # The events of its earlier run are still there.
        done = await run(
            KUBECTL, "blame", "shop/web/app", "--node", "node", environment=node.environment
        )
        assert (done.status, done.errors) == (0, "")
