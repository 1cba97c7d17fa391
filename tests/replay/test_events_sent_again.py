# SPDX-License-Identifier: Apache-2.0
"""Taps of plugins that lack an RPC of NRI 0.12, so that the runtime sends a StateChange instead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nri_scope.cli.main import run as run_command
from nri_scope.events import CapturedCall
from nri_scope.replay.plugin_command import PluginCommand
from nri_scope.replay.plugins import PluginSet
from nri_scope.replay.run import Job, replay
from nri_scope.transport.loop import run
from nri_scope.wire import Code
from tests.runtime_emulation.scripts import plugin

from .recordings import as_tapped, container, life, recording, run_pod


@pytest.fixture
def tapped(tmp_path: Path) -> Path:
    source = recording(tmp_path / "source.nriscope.db", [run_pod(), run_pod(), *life(container())])
    refused: list[str] = []

    def refuse_first(item: CapturedCall) -> CapturedCall:
        if item.method != "RunPodSandbox" or refused:
            return item
        refused.append(item.method)
        return item._replace(
            reply=b"", status_code=Code.UNIMPLEMENTED, status_message="method RunPodSandbox"
        )

    path = as_tapped(source, tmp_path / "tap.nriscope.db", change=refuse_first)
    assert refused
    return path


def test_a_call_that_the_plugin_lacks_is_no_failure(
    tapped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["report", "--diagnose", str(tapped), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []
    assert run_command(["log", str(tapped)]) == 0
    first, second = (line for line in capsys.readouterr().out.splitlines() if "RunPod" in line)
    assert "lacks this call" in first
    assert "!" not in first + second


def test_such_an_event_is_replayed_once_and_expected_once(tapped: Path, tmp_path: Path) -> None:
    replayed = run(
        replay(Job(tapped, PluginSet((PluginCommand("10", "plugin", tuple(plugin())),))))
    )
    assert replayed.ok
    assert [event.event for event in replayed.events].count("RunPodSandbox") == 1
    scenario = tmp_path / "scenario.yaml"
    assert run_command(["scenario", "from-recording", str(tapped), "-o", str(scenario)]) == 0
    assert scenario.read_text().count("- RunPodSandbox") == 1
    golden = ("--golden", str(tapped), "--index", "00", "--name", "probe")
    assert run_command(["replay", str(tapped), *golden, "--", *plugin()]) == 0
