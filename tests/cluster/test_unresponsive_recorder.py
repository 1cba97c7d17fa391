# SPDX-License-Identifier: Apache-2.0
"""A recorder that is stopped, or whose disk is full, is told by every surface; so is its end."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from nri_scope.events import UNRESPONSIVE, UNWRITTEN
from nri_scope.recording.file.heartbeat import heartbeat_of
from nri_scope.recording.query.coverage import coverage
from nri_scope.recording.reading.reader import Recording
from tests.agent.agent_process import Agent
from tests.agent.prometheus import promtool
from tests.agent.scraped_metrics import samples, text_of
from tests.cli.command import NRI_SCOPE
from tests.cli.running import PATIENCE
from tests.cluster.live_node import Node, creations, live_node, until
from tests.cluster.plugin_command import KUBECTL, run

RULES = Path(__file__).parents[2] / "deploy/prometheus/rules.yaml"
pytestmark = pytest.mark.exhaustive


@asynccontextmanager
async def recorded(folder: Path) -> AsyncIterator[tuple[Node, Agent]]:
    """Run a node whose recorder is synchronised and has written all events."""
    async with live_node(folder) as node:
        agent = node.agent
        assert await reaches(lambda: ready(agent), (200, "ok\n"))
        yield node, agent


async def reaches(ask: Callable[[], Awaitable[object]], wanted: object) -> object:
    """Ask until the answer is the wanted one; return the last answer."""
    answer = None
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            while (answer := await ask()) != wanted:
                await asyncio.sleep(0.3)
    return answer == wanted or answer


async def ready(agent: Agent) -> tuple[int, str]:
    """Return the status and text of /readyz."""

    def ask() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{agent.http}/readyz") as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    return await asyncio.to_thread(ask)


async def metric(agent: Agent, name: str) -> float:
    return samples(await text_of(agent))[f"nri_scope_{name}", frozenset()]


async def status(node: Node) -> tuple[int, str, Any]:
    """Return the exit status of ``kubectl nri-scope status``, its text and its JSON."""
    text = await run(KUBECTL, "status", environment=node.environment)
    done = await run(KUBECTL, "status", "--format", "json", environment=node.environment)
    assert text.status == done.status
    (state,) = json.loads(done.output)["nodes"]
    return done.status, text.output, state


def assert_alert_fires(tmp_path: Path, synchronized: float) -> None:
    """Check that NriRecorderNotConnected fires where its metric has this value."""
    rules = yaml.safe_load(RULES.read_text())
    (alert,) = (
        one
        for group in rules["groups"]
        for one in group["rules"]
        if one["alert"] == "NriRecorderNotConnected"
    )
    del alert["annotations"]
    (tmp_path / "rules.json").write_text(
        json.dumps({"groups": [{"name": "one", "rules": [alert]}]})
    )
    fired = {
        "eval_time": "6m",
        "alertname": alert["alert"],
        "exp_alerts": [{"exp_labels": {"severity": "warning", "instance": "a"}}],
    }
    series = {"series": 'nri_scope_synchronized{instance="a"}', "values": f"{synchronized:g}x10"}
    case = {"interval": "1m", "input_series": [series], "alert_rule_test": [fired]}
    test = {"rule_files": ["rules.json"], "evaluation_interval": "1m", "tests": [case]}
    (tmp_path / "test.json").write_text(json.dumps(test))
    done = subprocess.run(
        [promtool(), "test", "rules", tmp_path / "test.json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


async def assert_trouble_is_told(tmp_path: Path, node: Node, agent: Agent, why: str) -> None:
    """Check all surfaces while the events of now are not in the recording."""
    assert await reaches(lambda: ready(agent), (503, f"{why}\n")) is True
    assert await metric(agent, "synchronized") == 0
    assert_alert_fires(tmp_path, await metric(agent, "synchronized"))
    code, text, state = await status(node)
    assert code == 1
    assert re.search(rf"{re.escape(why)}, since \d", text)
    assert "synchronised" not in text
    assert "unknown" in text
    assert (state["trouble"], state["lost_is_lower_bound"]) == (why, True)
    with Recording.open(node.recording) as recording:
        newest = max(event.at_ns for event in recording.events())
        observed = coverage(recording)
        (gap,) = (each for each in recording.gaps() if not each.id)
    assert observed.unobserved[-1].why == gap.reason == why
    assert gap.from_ns >= newest
    assert observed.to_ns >= observed.unobserved[-1].from_ns
    missing = await run(NRI_SCOPE, "missing", node.recording, "--plugin", "nri-scope")
    assert missing.status == 1
    assert why in missing.output
    log = await run(NRI_SCOPE, "log", node.recording)
    assert why in log.output.splitlines()[-1]
    for command in (("missing", "--plugin", "x"), ("log", "--node", "node")):
        of_cluster = await run(KUBECTL, *command, environment=node.environment)
        assert why in of_cluster.output, of_cluster


async def assert_good(node: Node, agent: Agent) -> None:
    assert await reaches(lambda: ready(agent), (200, "ok\n")) is True
    assert await metric(agent, "synchronized") == 1
    assert await metric(agent, "recorder_oldest_unwritten_seconds") == 0
    assert await metric(agent, "recorder_heartbeat_age_seconds") < 10
    code, text, _ = await status(node)
    assert code == 0
    assert "synchronised" in text
    with Recording.open(node.recording) as recording:
        assert all(gap.id for gap in recording.gaps())


async def test_a_stopped_recorder_is_told_until_it_goes_on(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (node, agent):
        await assert_good(node, agent)
        node.recorder.process.send_signal(signal.SIGSTOP)
        try:
            await assert_trouble_is_told(tmp_path, node, agent, UNRESPONSIVE)
            assert await metric(agent, "recorder_heartbeat_age_seconds") >= 10
        finally:
            node.recorder.process.send_signal(signal.SIGCONT)
        await assert_good(node, agent)
        with Recording.open(node.recording) as recording:
            # The recorder itself has noticed it.
            assert any("stalled" in gap.reason for gap in recording.gaps())
    assert not heartbeat_of(node.recording).exists()


async def test_a_full_disk_is_told_until_there_is_space(tmp_path: Path) -> None:
    with small_disk(tmp_path / "recordings") as folder:
        async with recorded(tmp_path) as (node, agent):
            await assert_good(node, agent)
            fill(folder / "filler")
            await node.create(20, padding=20_000)
            await assert_trouble_is_told(tmp_path, node, agent, f"{UNWRITTEN}: the disk is full")
            assert await metric(agent, "recorder_queued_entries") >= 20
            # Heartbeats go on.
            assert await metric(agent, "recorder_heartbeat_age_seconds") < 10
            (folder / "filler").unlink()
            await until(lambda: creations(node.recording) == node.created)
            await assert_good(node, agent)


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a disk of 4 MiB."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no permission to mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(path: Path) -> None:
    """Write a file until the disk is full."""
    with path.open("wb", 0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
