# SPDX-License-Identifier: Apache-2.0
"""``kubectl nri-scope status`` on many nodes, one of which is dead and one of which hangs.

Each node's agent is a process of its own on a copy of a recording; ``kubectl`` is the fake of the
tests, which forwards real ports.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import AsyncExitStack
from pathlib import Path
from time import monotonic

from benchmarks.findings import Finding
from nri_scope.cluster.node_states import STATUS_TIMEOUT_S
from tests.agent.agent_process import agent
from tests.cluster.fake_kubectl import agent_pod, install
from tests.cluster.plugin_command import KUBECTL

SECONDS_MAX = 10.0
MEMORY_MAX = 200.0
"""MiB."""
_STARTED_TOGETHER = 4
_RECORDING = Path(__file__).parents[1] / "recordings" / "demo.nriscope.db"


async def measure(folder: Path, *, nodes: int) -> list[Finding]:
    """Measure with ``nodes`` agents: how long all answers take, and the command's memory."""
    async with AsyncExitStack() as stack:
        ports = await _agents(stack, folder, nodes - 2)
        hanging = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        pods = [agent_pod(node) for node in (*ports, "dead", "hanging")]
        ports["hanging"] = hanging.getsockname()[1]
        named = {f"nri-scope-{node}": port for node, port in ports.items()}
        good = [pod for pod in pods if pod["spec"]["nodeName"] in ports.keys() - {"hanging"}]
        fast, _, _ = await _status(folder / "good", {"pods": good, "ports": named}, nodes - 2)
        slow, memory, silent = await _status(folder / "all", {"pods": pods, "ports": named}, nodes)
    if silent != {"dead", "hanging"}:
        raise RuntimeError(f"other nodes did not answer: {sorted(silent)}")
    return [
        Finding(
            name=f"kubectl nri-scope status, {nodes} nodes",
            value=slow,
            unit="s",
            limit=SECONDS_MAX,
            detail=f"{fast:.1f} s without the dead and the hanging node",
        ),
        Finding(
            name="… delay by a dead and a hanging node",
            value=slow - fast,
            unit="s",
            limit=STATUS_TIMEOUT_S + 1,
        ),
        Finding(name="… memory of the command", value=memory, unit="MiB", limit=MEMORY_MAX),
    ]


async def _agents(stack: AsyncExitStack, folder: Path, count: int) -> dict[str, int]:
    """Start agents; return their ports by node."""
    ports: dict[str, int] = {}

    async def start(number: int) -> None:
        data = folder / f"node{number}"
        data.mkdir()
        shutil.copy(_RECORDING, data)
        started = await stack.enter_async_context(agent(data, prefix=("nice",)))
        ports[f"node{number}"] = started.port

    for first in range(0, count, _STARTED_TOGETHER):
        some = range(first, min(first + _STARTED_TOGETHER, count))
        await asyncio.gather(*map(start, some))
    return ports


async def _status(
    folder: Path, cluster: dict[str, object], nodes: int
) -> tuple[float, float, set[str]]:
    """Return the seconds that the command takes, its memory in MiB, and the silent nodes."""
    environment = {**os.environ, **install(folder, cluster)}
    began = monotonic()
    process = await asyncio.create_subprocess_exec(
        *(KUBECTL, "status", "--format", "json"),
        env=environment,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )
    memory = asyncio.create_task(_memory(process.pid))
    output, errors = await process.communicate()
    seconds = monotonic() - began
    states = json.loads(output)["nodes"]
    if len(states) != nodes:
        raise RuntimeError(f"{len(states)} of {nodes} nodes: {errors.decode()}")
    return seconds, await memory, {state["node"] for state in states if state["problem"]}


async def _memory(process: int) -> float:
    """Return the maximum of a process's resident memory until it ends, in MiB."""
    most = 0
    while (now := _peak_kib(process)) is not None:
        most = max(most, now)
        await asyncio.sleep(0.05)
    return most / 1024


def _peak_kib(process: int) -> int | None:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return None
    found = re.search(r"^VmHWM:\s+(\d+)", status, re.MULTILINE)
    return None if found is None else int(found[1])
