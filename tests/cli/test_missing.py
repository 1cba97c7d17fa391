# SPDX-License-Identifier: Apache-2.0
"""The command ``missing`` on one file: its lines, its JSON and its exit status."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.cli.main import run
from nri_scope.events import Role
from nri_scope.nri.changes import REQUIRED_PLUGINS
from nri_scope.recorder.writer import Recorder
from tests.differ import required_plugins
from tests.differ.required_plugins import NewPod, a_node
from tests.recording.traffic import NOW, a_start, an_item
from tests.sample_names import REPLICA_API

RECORDINGS = Path(__file__).parents[2] / "recordings"
VALIDATED = str(RECORDINGS / "containerd-2.4.nriscope.zip")
TAPPED = str(RECORDINGS / "demo.nriscope.db")
TAPS = (required_plugins.TAPPED,)
RESTARTED = str(RECORDINGS / "containerd-2.1-restart.nriscope.zip")


def test_a_plugin_that_was_never_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["missing", VALIDATED, "--plugin", "cpu-polcy"]) == 1
    out, err = capsys.readouterr()
    rows = [line for line in out.splitlines() if "  missing  " in line]
    assert len(rows) == 4 and rows[0].endswith("  shop/web/app")
    assert out.splitlines()[-1] == "10 creations: 4 missing, 0 connected, 6 unknown"
    assert "cpu-polcy was never connected in the recorded time; seen were" in err
    assert "node" not in out.splitlines()[0].split()


def test_a_late_reply_counts_as_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["missing", TAPPED, "--plugin", "40-image-check", "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    (late,) = [one for one in document["creations"] if one["plugin"] == "missing"]
    assert (late["kind"], late["name"]) == ("container", REPLICA_API)
    assert "missed the deadline of 2.00s" in late["evidence"]
    # The plugin does not subscribe to RunPodSandbox: new pods do not concern it.
    new = [one for one in document["creations"] if one["kind"] == "pod" and one["created"]]
    assert new == []


def test_what_was_not_observed_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["missing", RESTARTED, "--plugin", "x", "--format", "json"]) == 1
    (interval, *_) = json.loads(capsys.readouterr().out)["coverage"][""]["unobserved"]
    assert interval["why"] == "not connected to the runtime: closed by the runtime"
    assert run(["missing", RESTARTED, "--plugin", "x"]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("not observed: ")


def test_a_plugin_took_part_in_everything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tap.nriscope.db"
    recorder = Recorder.open(path)
    start = replace(a_start(), role=Role.TAP, plugin_index="20", plugin_name="net")
    session = recorder.begin_session(start)
    pod, container = api.PodSandbox(id="p", namespace="shop", name="web"), api.Container(id="c")
    recorder.capture(session, an_item("Synchronize", api.SynchronizeRequest()))
    run_pod = api.StateChangeEvent(event=api.Event.RUN_POD_SANDBOX, pod=pod)
    recorder.capture(session, an_item("StateChange", run_pod, wall_ns=NOW + 5))
    create = api.CreateContainerRequest(pod=pod, container=container)
    recorder.capture(session, an_item("CreateContainer", create, wall_ns=NOW + 10))
    recorder.end_session(session, "over", NOW + 20)
    recorder.close()
    assert run(["missing", str(path), "--plugin", "net"]) == 0
    assert capsys.readouterr().out == "2 creations: 0 missing, 2 connected, 0 unknown\n"
    # Nothing was created then, and nothing was observed.
    assert run(["missing", str(path), "--plugin", "net", "--until", "-1h"]) == 1
    assert "not observed: " in capsys.readouterr().out


def test_what_a_workload_requires(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = [
        NewPod(
            "web", {f"{REQUIRED_PLUGINS}/container.app": "[10-gpu]"}, (required_plugins.TAPPED,)
        ),
        NewPod("api", {"example.com/gpu": "yes"}, (*TAPS, "10-gpu")),
        NewPod("odd", {REQUIRED_PLUGINS: "gpu"}),
    ]
    path = str(a_node(tmp_path / "node.nriscope.db", node))
    assert run(["missing", path]) == 1
    out, err = capsys.readouterr()
    evidence = (
        "the runtime named to the validator: 20-net, 00-nri-scope; "
        f"required by {REQUIRED_PLUGINS}/container.app"
    )
    lines = out.splitlines()
    (row,) = (number for number, line in enumerate(lines) if "missing  10-gpu" in line)
    assert lines[row].endswith("  shop/web/app") and lines[row + 1] == f"  {evidence}"
    assert out.splitlines()[-1] == "3 requirements: 1 missing, 0 connected, 2 unknown"
    assert f"{REQUIRED_PLUGINS} is redacted, or no list of plugins" in out
    assert err == ""
    expect = ["--expect", "plugin=gpu where annotation:example.com/gpu=yes container:app"]
    assert run(["missing", path, *expect, "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    (api_app,) = (one for one in document["creations"] if one["name"] == "shop/api/app")
    assert (api_app["plugin_name"], api_app["plugin"]) == ("gpu", "unknown")
    assert api_app["required_by"] == expect[1]
    assert document["nodes_without"] == [
        {"node": "", "plugin_name": "10-gpu", "evidence": "seen were 00-nri-scope, 20-net"}
    ]
    assert run(["missing", path, *expect, "--plugin", "x"]) == 2
    assert run(["missing", path, "--expect", "gpu"]) == 2
    assert run(["missing", path, "--expect", "plugin=x where event:y"]) == 2
    assert capsys.readouterr().err.count("\n") == 3
    assert run(["missing", VALIDATED]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "0 creations: 0 missing, 0 connected, 0 unknown"
    assert "nothing that was created requires a plugin" in err


def test_errors_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["missing", TAPPED, "--plugin", ""]) == 2
    assert "the text is empty" in capsys.readouterr().err
    assert run(["missing", "none.nriscope.db", "--plugin", "x"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
