# SPDX-License-Identifier: Apache-2.0
"""``log -f -l`` has one call for each node, whatever happens to pods and agents."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.cluster import labelled_events
from nri_scope.cluster.kubectl import Kubectl
from nri_scope.cluster.labelled_events import Copy, LabelledEvents, LabelledQuery
from nri_scope.nri.events import EventKind
from tests.cli.running import PATIENCE, Running
from tests.cluster.fake_kubectl import agent_pod, pod
from tests.cluster.live_node import Node, creations, kubectl, live_node, until

FOLLOW = ("log", "-f", "-l", "app=web", "--format", "jsonl")


async def create_in(node: Node, pod_name: str, name: str) -> None:
    request = api.CreateContainerRequest(
        pod=api.PodSandbox(id=f"id-{pod_name}", namespace="shop", name=pod_name),
        container=api.Container(id=name, pod_sandbox_id=f"id-{pod_name}", name=name),
    )
    await node.runtime.dispatch(EventKind.CreateContainer, request)


async def next_creation(command: Running) -> dict[str, Any]:
    """Return the next creation that the command prints."""
    assert command.process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        while True:
            event: dict[str, Any] = json.loads(await command.process.stdout.readline())
            if event.get("event") == "CreateContainer":
                return event


@pytest.mark.exhaustive
async def test_pods_that_appear_share_the_call_of_their_node(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node:
        pods = [agent_pod("node"), pod("shop", "web", "node", app="web")]
        await create_in(node, "late-0", "before-the-command")
        async with kubectl(node, *FOLLOW) as command:
            numbers = [(await next_creation(command))["id"]]
            for number in range(3):
                await create_in(node, f"late-{number}", f"before-it-is-listed-{number}")
                pods.append(pod("shop", f"late-{number}", "node", app="web"))
                node.change(pods=pods)
                for _ in range(2 if number == 0 else 1):
                    event = await next_creation(command)
                    assert event["pod"] == f"late-{number}"
                    numbers.append(event["id"])
                for name in ("web", f"late-{number}"):
                    await create_in(node, name, f"{name}-{number}")
                    event = await next_creation(command)
                    assert event["pod"] == name
                    numbers.append(event["id"])
                assert len(node.forwards()) == 1
            status, output, _ = await command.interrupt()
        assert status == 0 and "CreateContainer" not in output
        assert len(numbers) == len(set(numbers)) == creations(node.recording)


@pytest.mark.exhaustive
async def test_a_pod_that_is_gone_before_the_next_list_is_shown(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node:
        pods = [agent_pod("node"), pod("shop", "web", "node", app="web")]
        async with kubectl(node, *FOLLOW) as command:
            await next_creation(command)
            # The first list is less than five seconds ago.
            node.change(pods=[*pods, pod("shop", "short", "node", app="web")])
            await create_in(node, "short", "short")
            await asyncio.sleep(1)
            node.change(pods=pods)
            assert (await next_creation(command))["pod"] == "short"
            assert (await command.interrupt())[0] == 0


@pytest.mark.exhaustive
async def test_an_agent_that_does_not_run_yet_is_tried_again(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node:
        ports = {"nri-scope-node": node.port}
        node.change(ports={})
        async with kubectl(node, *FOLLOW) as command:
            await command.wait_for_text("pod is not running; connecting again")
            node.change(ports=ports)
            await next_creation(command)
            await command.wait_for_text("node: connected again")
            assert (await command.interrupt())[0] == 0


@contextmanager
def pulling_events(
    node: Node, folder: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> Iterator[LabelledEvents]:
    for name, value in node.environment.items():
        monkeypatch.setenv(name, value)
    folder.mkdir()
    query = LabelledQuery("app=web", follow=True)
    with LabelledEvents(Kubectl(), "nri-scope", query, folder, said.append) as pulling:
        yield pulling


@pytest.mark.exhaustive
async def test_pods_that_vanish_before_their_agent_answers_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labelled_events, "LIST_S", 0.1)
    async with live_node(tmp_path) as node:
        ports, said = {"nri-scope-node": node.port}, list[str]()
        node.change(ports={})
        with pulling_events(node, tmp_path / "copies", monkeypatch, said) as pulling:
            await until(lambda: bool(said))
            node.change(pods=[agent_pod("node")])
            await asyncio.sleep(1)
            node.change(ports=ports)
            await until(lambda: not pulling.copies.empty())
            first = pulling.copies.get()
            await until(lambda: first.is_complete)
            node.change(pods=[agent_pod("node"), pod("shop", "web", "node", app="web")])
            await until(lambda: not pulling.copies.empty())
            assert creations(pulling.copies.get().path) == 1
            assert not pulling.failed and not pulling.is_done


@pytest.mark.exhaustive
async def test_more_nodes_than_ports_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labelled_events, "TOGETHER", 1)
    monkeypatch.setattr(labelled_events, "TURN_S", 0.0)
    async with live_node(tmp_path) as node:
        names = ("one", "two", "three")
        pods = [agent_pod(name) for name in names]
        pods += [pod("shop", "web", name, app="web") for name in names]
        node.change(pods=pods, ports={f"nri-scope-{name}": node.port for name in names})
        said, most = list[str](), 0
        with pulling_events(node, tmp_path / "copies", monkeypatch, said) as pulling:
            copies = list[Copy]()

            def all_have(count: int) -> bool:
                nonlocal most
                most = max(most, len(node.forwards()))
                while not pulling.copies.empty():
                    copies.append(pulling.copies.get())
                complete = [copy for copy in copies if creations(copy.path) == count]
                return len(complete) == len(names)

            await until(lambda: all_have(1))
            await node.create()
            await until(lambda: all_have(2))
        assert {copy.node for copy in copies} == set(names)
        assert (said, most, pulling.failed) == ([], 1, False)
        assert all(copy.is_complete for copy in copies)


@pytest.mark.exhaustive
@pytest.mark.parametrize("victim", ["agent", "forward", "nothing"])
async def test_new_pods_wait_for_no_timer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, victim: str
) -> None:
    monkeypatch.setattr(labelled_events, "LIST_S", 3600.0)
    async with live_node(tmp_path) as node:
        said = list[str]()
        pods = [agent_pod("node"), pod("shop", "web", "node", app="web")]
        with pulling_events(node, tmp_path / "copies", monkeypatch, said) as pulling:
            copies = list[Copy]()

            def shown() -> int:
                while not pulling.copies.empty():
                    copies.append(pulling.copies.get())
                return sum(creations(copy.path) for copy in copies)

            await until(lambda: shown() == 1)
            for number in range(2):
                if victim == "agent":
                    await node.kill_agent()
                elif victim == "forward":
                    assert node.kill_forwards() == 1
                pods.append(pod("shop", f"new-{number}", "node", app="web"))
                node.change(pods=pods)
                await create_in(node, f"new-{number}", f"first-{number}")
                if victim == "agent":
                    await node.start_agent()
                await until(lambda: shown() == node.created + 2 * number + 1)  # noqa: B023
                await create_in(node, f"new-{number}", f"second-{number}")
                await until(lambda: shown() == node.created + 2 * number + 2)  # noqa: B023
        assert not pulling.failed
