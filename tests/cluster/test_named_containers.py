# SPDX-License-Identifier: Apache-2.0
"""Views of one container, also of one that was created several times."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import RecordingError
from nri_scope.nri.events import EventKind
from nri_scope.recording.reading.reader import Recording
from tests.cli.running import running
from tests.cluster.live_node import Node, creations, live_node, until
from tests.cluster.plugin_command import KUBECTL, Done, run

IDS = [f"{number}a0b1c2d3e4f".ljust(64, str(number)) for number in range(3)]


@asynccontextmanager
async def restarted(folder: Path) -> AsyncIterator[Node]:
    """A node with containers of shop/web: one called side, and three, one after another, app."""
    async with live_node(folder) as node:
        for number, name in [("5ide5ide", "side"), *((one, "app") for one in IDS)]:
            request = api.CreateContainerRequest(
                pod=api.PodSandbox(id="pod-1", namespace="shop", name="web"),
                container=api.Container(
                    id=number, pod_sandbox_id="pod-1", name=name, env=[f"ID={number}"]
                ),
            )
            await node.runtime.dispatch(EventKind.CreateContainer, request)
        await until(lambda: creations(node.recording) == 5)
        yield node


async def shown(node: Node, *arguments: str) -> Done:
    return await run(KUBECTL, *arguments, environment=node.environment)


@pytest.mark.exhaustive
async def test_the_newest_container_of_a_name_is_shown(tmp_path: Path) -> None:
    async with restarted(tmp_path) as node:
        done = await shown(node, "blame", "shop/web/app", "--full")
        assert done.status == 0 and f"ID={IDS[2]}" in done.output, done.errors
        assert done.errors.count("\n") == 1
        assert f"4 containers called shop/web/app; this is the newest, {IDS[2][:12]}" in done.errors
        # What the line names can be given.
        earlier = re.findall(r"shop/web/[0-9a-f]{12}", done.errors)
        assert earlier == [f"shop/web/{number[:12]}" for number in (IDS[1], IDS[0])]
        for command in (("blame", "--full"), ("show",)):
            done = await shown(node, *command, earlier[1])
            assert (done.status, done.errors) == (0, "")
            assert f"ID={IDS[0]}" in done.output
        done = await shown(node, "show", "shop/web/4")
        assert done.status == 0 and done.output.startswith("event:"), done
        copy = str(tmp_path / "copy.nriscope.db")
        done = await shown(node, "pull", "shop/web", "-o", copy)
        assert done.errors == f"{copy}: 5 events, and 2 of the beginnings of sessions\n"
        done = await shown(node, "diff", "shop/web/app")
        assert done.status in (0, 1) and "this is the newest" in done.errors


@pytest.mark.exhaustive
async def test_log_has_only_the_container(tmp_path: Path) -> None:
    async with restarted(tmp_path) as node:
        for what, expected in [
            ("shop/web", {"app": 4, "side": 1}),
            ("shop/web/app", {"app": 4}),
            ("shop/web/side", {"side": 1}),
            (f"shop/web/{IDS[1][:12]}", {"app": 1}),
        ]:
            done = await shown(node, "log", what)
            assert (done.status, done.errors) == (0, "")
            assert Counter(re.findall(r"CreateContainer +shop/web/(\w+)", done.output)) == expected
        for arguments, line in [
            (
                ("log", "shop/web/ap"),
                'no event, pod or container "shop/web/ap" in the recordings of node; the nearest',
            ),
            (("blame", "shop/web/99"), "event 99 is not in the recordings of node; it has 1 to 7"),
            (("log", "shop/web/3"), "shop/web/3 is event 3; `show` shows an event"),
            (
                ("pull", "shop/web/app", "-o", "x.nriscope.db"),
                "shop/web/app is a container; leave it out: a copy has the whole pod",
            ),
        ]:
            done = await shown(node, *arguments)
            assert (done.status, done.output) == (2, "")
            assert line in done.errors and done.errors.count("\n") == 1, done.errors


@pytest.mark.exhaustive
async def test_log_goes_on_with_the_next_recorder(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node:
        await node.recorder.interrupt()
        next_file = node.recording.with_name("next.nriscope.db")
        async with running("record", "--socket", tmp_path / "nri.sock", "-o", next_file) as again:
            await again.wait_for_text("recording")
            await until(lambda: sessions(next_file) == 1)
            done = await shown(node, "log", "shop/web")
            assert done.status == 0, done.errors
            *_, ended, gap, begun = done.output.splitlines()
            assert ended.startswith("── session 1 ended ")
            assert "! events lost: unknown (no session was recorded after session 1" in gap
            assert begun.startswith("── session 2: ")
            await again.interrupt()


def sessions(path: Path) -> int:
    with suppress(RecordingError), Recording.open(path) as recording:
        return len(recording.sessions())
    return 0
