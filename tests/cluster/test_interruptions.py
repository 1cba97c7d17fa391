# SPDX-License-Identifier: Apache-2.0
"""A copy that follows a node equals the node's recording, whatever dies in between."""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
from pathlib import Path

import pytest

from nri_scope.errors import RecordingError
from nri_scope.recording.reading.reader import Recording
from tests.cli.command import NRI_SCOPE
from tests.cli.running import running
from tests.cluster.fake_kubectl import agent_pod
from tests.cluster.live_node import Node, creations, kubectl, live_node, until
from tests.cluster.plugin_command import run
from tests.demo_recording import DEMO_EVENTS


async def exported(path: Path, output: Path) -> list[str]:
    done = await run(NRI_SCOPE, "export", path, "--format", "jsonl", "-o", output)
    assert done.status == 0, done.errors
    return sorted(output.read_text().splitlines())


async def assert_equal(node: Node, copy: Path, folder: Path) -> None:
    """Check that a copy has the same as the node's recording."""
    copied = await exported(copy, folder / "copy.jsonl")
    assert copied == await exported(node.recording, folder / "node.jsonl")
    assert len(copied) > node.created


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(3))
async def test_a_copy_equals_the_recording_after_random_deaths(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    copy = tmp_path / "copy.nriscope.db"
    deaths = 0
    async with live_node(tmp_path) as node:
        node.change(forward_s=3)
        async with kubectl(node, "pull", "--node", "node", "-f", "-o", copy) as command:
            await until(lambda: creations(copy) == node.created)
            for victim in chance.sample(("forward", "agent", "both", "forward"), 4):
                await node.create(chance.randint(0, 40))
                if victim != "agent":
                    deaths += node.kill_forwards()
                if victim != "forward":
                    await node.kill_agent()
                await node.create(chance.randint(1, 40))
                if victim != "forward":
                    await node.start_agent()
                await asyncio.sleep(chance.random())
            await until(lambda: creations(copy) == node.created)
            status, _, errors = await command.interrupt()
        assert status == 0, errors
        # A forwarded port may have ended by itself before it was to be killed.
        assert deaths or "connected again" in errors
        assert f"{copy}: " in errors
        await assert_equal(node, copy, tmp_path)


async def test_a_killed_command_leaves_no_port_open(tmp_path: Path) -> None:
    copy = tmp_path / "copy.nriscope.db"
    async with live_node(tmp_path) as node:
        async with kubectl(node, "pull", "--node", "node", "-f", "-o", copy) as command:
            await until(lambda: creations(copy) == 1)
            assert node.forwards()
            command.process.kill()
            await command.process.wait()
            await until(lambda: not node.forwards())


@pytest.mark.exhaustive
async def test_a_ring_that_overran_is_one_gap(tmp_path: Path) -> None:
    copy = tmp_path / "copy.nriscope.db"
    async with live_node(tmp_path, "--max-size", "1MiB") as node:
        async with kubectl(node, "pull", "--node", "node", "-f", "-o", copy) as command:
            await until(lambda: creations(copy) == 1)
            await node.kill_agent()
            last, before = _newest(copy), node.created
            while _oldest(node.recording) < last + 10:
                await node.create(50, padding=2_000)
            await until(lambda: _newest(node.recording) == last + node.created - before)
            await node.start_agent()
            await until(lambda: _newest(copy) == _newest(node.recording))
            await command.interrupt()
        with Recording.open(copy) as recording:
            numbers = [event.id for event in recording.events()]
            gaps = [(gap.lost, gap.reason) for gap in recording.gaps()]
        missing = set(range(1, numbers[-1] + 1)) - set(numbers)
        reason = "older events were removed from the recording before they could be sent"
        assert gaps == [(len(missing), reason)]


def _oldest(path: Path) -> int:
    with Recording.open(path) as recording:
        return min((event.id for event in recording.events()), default=0)


def _newest(path: Path) -> int:
    with Recording.open(path) as recording:
        return max((event.id for event in recording.events(last=1)), default=0)


@pytest.mark.exhaustive
async def test_a_replaced_agent_is_found(tmp_path: Path) -> None:
    copy = tmp_path / "copy.nriscope.db"
    async with live_node(tmp_path) as node:
        async with kubectl(node, "pull", "shop/web", "-f", "-o", copy) as command:
            await until(lambda: creations(copy) == 1)
            new = agent_pod("node")
            new["metadata"]["name"] = "nri-scope-new"
            node.change(pods=[new], ports={"nri-scope-new": node.port})
            node.kill_forwards()
            await node.create(5)
            await until(lambda: creations(copy) == 6)
            assert (await command.interrupt())[0] == 0


@pytest.mark.exhaustive
async def test_a_recording_that_is_replaced_is_followed(tmp_path: Path) -> None:
    copy = tmp_path / "copy.nriscope.db"
    async with live_node(tmp_path) as node:
        async with kubectl(node, "pull", "--node", "node", "-f", "-o", copy) as command:
            await until(lambda: creations(copy) == 1)
            for file in node.recording.parent.glob("node.*"):
                file.unlink()
            second = node.recording.with_name("second.nriscope.db")
            async with running(
                "record", "--socket", tmp_path / "nri.sock", "-o", second, "--name", "second"
            ) as recorder:
                await node.runtime.wait_plugins(2)
                await node.create(3)
                # The first recorder has made a new file of the same name.
                await until(lambda: creations(copy) == 7)
                await recorder.interrupt()
            assert (await command.interrupt())[0] == 0


@pytest.mark.exhaustive
async def test_a_recording_that_replaces_another_of_the_same_name_is_followed(
    tmp_path: Path,
) -> None:
    """Also if numbers and times go back."""
    copy = tmp_path / "copy.nriscope.db"
    recordings = Path(__file__).parents[2] / "recordings"
    async with live_node(tmp_path) as node:
        target = node.recording.with_name("other.nriscope.db")
        shutil.copy(recordings / "demo.nriscope.db", target)
        async with kubectl(node, "pull", "--node", "node", "-f", "-o", copy) as command:
            await until(lambda: len(_times(copy)) >= DEMO_EVENTS)
            new = target.with_name("new")
            shutil.copy(recordings / "containerd-2.1.nriscope.db", new)
            new.rename(target)
            expected = {*_times(recordings / "demo.nriscope.db"), *_times(target)}
            await until(lambda: expected < {*_times(copy)})
            await command.interrupt()
        assert sorted(_times(copy)) == sorted([*expected, *_times(node.recording)])


def _times(path: Path) -> list[int]:
    try:
        with Recording.open(path) as recording:
            return [event.at_ns for event in recording.events()]
    except RecordingError:
        # It is just being created.
        return []


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("arguments", [("log", "shop/web", "-f"), ("log", "-f", "-l", "app=web")])
async def test_a_signal_leaves_nothing_behind(
    tmp_path: Path, arguments: tuple[str, ...], number: signal.Signals
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    async with live_node(tmp_path) as node:
        async with kubectl(node, *arguments, TMPDIR=str(temporary)) as command:
            assert command.process.stdout is not None
            assert await command.process.stdout.readline()
            assert node.forwards()
            status, _, errors = await command.interrupt(number)
        assert (node.forwards(), list(temporary.iterdir())) == ([], [])
        assert status in (0, 130) and not errors.count("Traceback"), errors
