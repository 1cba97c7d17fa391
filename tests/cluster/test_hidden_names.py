# SPDX-License-Identifier: Apache-2.0
"""Pods that an agent does not show by their names, or not at all."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from nri_scope.share.redaction.tokens import PLAIN_TOKEN
from tests.agent.agent_process import agent
from tests.cluster.fake_kubectl import agent_pod, install, pod
from tests.cluster.plugin_command import KUBECTL, run
from tests.sample_names import CHECKOUT, CHECKOUT_POD, NAMESPACE

RECORDING = Path(__file__).parents[2] / "recordings/demo.nriscope.db"


@pytest.mark.exhaustive
@pytest.mark.parametrize(("switch", "name"), [("pods", CHECKOUT_POD), ("namespaces", NAMESPACE)])
async def test_hidden_names_are_the_reason_why_a_pod_is_not_shown(
    tmp_path: Path, switch: str, name: str
) -> None:
    folder = tmp_path / "node"
    folder.mkdir()
    shutil.copy(RECORDING, folder)
    rules = tmp_path / "rules.toml"
    rules.write_text(f"[switches]\n{switch} = true\n")
    async with agent(folder, "--redact", rules) as one:
        pods = [agent_pod("node"), pod(NAMESPACE, CHECKOUT_POD, "node")]
        environment = install(
            tmp_path / "bin", {"pods": pods, "ports": {"nri-scope-node": one.port}}
        )
        for command in ("show", "diff", "blame"):
            done = await run(KUBECTL, command, CHECKOUT, environment=environment)
            assert (done.status, done.output) == (2, "")
            assert "the agent of node hides the names of pods or namespaces" in done.errors
        done = await run(KUBECTL, "log", CHECKOUT, environment=environment)
    assert done.status == 0
    assert "CreateContainer" in done.output
    # The letters of a token are random: one of 700 outputs has "web" in a token.
    assert name not in re.sub(PLAIN_TOKEN, "", done.output)


async def test_a_recording_that_cannot_be_read_may_have_a_pod(tmp_path: Path) -> None:
    folder = tmp_path / "node"
    folder.mkdir()
    (folder / "a.nriscope.db").write_bytes(b"x" * 8192)
    async with agent(folder) as one:
        environment = install(
            tmp_path / "bin",
            {"pods": [agent_pod("node")], "ports": {"nri-scope-node": one.port}},
        )
        done = await run(KUBECTL, "log", CHECKOUT, environment=environment)
    assert done.status == 2
    assert "node" in done.errors
    assert not done.errors.rstrip().endswith("no recording has its events")
