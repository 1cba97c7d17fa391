# SPDX-License-Identifier: Apache-2.0
"""Run kubectl-nri_scope and nri-scope as a cluster's users do."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_asyncio

from tests.agent.agent_process import agent
from tests.cluster.fake_kubectl import agent_pod, install, pod
from tests.sample_names import CHECKOUT_POD, NAMESPACE

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
    pods = [agent_pod("node1"), pod(NAMESPACE, CHECKOUT_POD, "node1", app="web")]
    return install(folder / "bin", {"pods": pods, "ports": {"nri-scope-node1": port}})


def without_header(output: str) -> list[str]:
    """Return the lines without the name of the file, and that it is a part of a recording."""
    return [
        line
        for line in output.splitlines()
        if not line.endswith(".nriscope.db") and "part of a recording" not in line
    ]
