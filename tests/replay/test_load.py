# SPDX-License-Identifier: Apache-2.0
"""A load of many distinct pods, and what is measured."""

from __future__ import annotations

import json
import re
import sys
from array import array
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.cli.main import main
from nri_scope.errors import UsageError
from nri_scope.nri.request_subject import container_of, pod_of
from nri_scope.recording.reader import Recording
from nri_scope.replay.load import LoadScript, LoadShape, parse_load
from nri_scope.replay.load_measurement import (
    AnswerTimes,
    LoadBudget,
    LoadObserver,
    LoadResult,
    ProcessSample,
    parse_budget,
)
from nri_scope.replay.report.load import plot
from nri_scope.replay.run import replay
from nri_scope.replay.script import RecordingPlace, ReplaySelection, ReplayStep, Script
from nri_scope.scenario.playable import playable
from nri_scope.transport.loop import run

from .plays import job_of
from .recordings import BUNDLED, RECORDING, ROOT
from .test_step_control import Recorder

SLOW_PLUGIN = """
import time
from nri_scope.plugin import BasePlugin, run
class Slow(BasePlugin):
    async def stop_container(self, pod, container):
        time.sleep({seconds})
run(Slow(), name="slow")
"""


def steps_of(
    path: Path, shape: LoadShape, selection: ReplaySelection | None = None
) -> list[ReplayStep]:
    with Recording.open(path) as recording:
        return list(LoadScript(recording, selection or ReplaySelection(), shape).steps())


@pytest.mark.parametrize("path", BUNDLED.values(), ids=BUNDLED)
def test_every_pod_and_container_is_another_one(path: Path) -> None:
    found = steps_of(path, LoadShape(pods=7, containers=3))
    counts = Counter(step.recorded.event for step in found)
    assert counts["RunPodSandbox"] == 7
    assert counts["CreateContainer"] == counts["RemoveContainer"] == 21
    pods = {step.recorded.pod_id for step in found}
    created = [step for step in found if step.recorded.event == "CreateContainer"]
    assert len(pods) == 7
    assert len({step.recorded.container_id for step in created}) == 21
    assert len({step.subject for step in created}) == 21
    assert [step.recorded.id for step in found] == list(range(1, len(found) + 1))
    for step in found:
        assert step.message is not None
        pod = pod_of(step.recorded.event, step.message)
        container = container_of(step.recorded.event, step.message)
        if pod is not None:
            assert (pod.id, pod.name) == (step.recorded.pod_id, step.recorded.pod)
        if container is not None:
            assert container.id == step.recorded.container_id
            assert container.pod_sandbox_id == step.recorded.pod_id


@pytest.mark.parametrize("manifest", ["qos", "init-and-sidecar"])
def test_pods_of_a_manifest_are_stopped_and_removed(manifest: str) -> None:
    path = ROOT / "tests" / "kubernetes" / "manifests" / f"{manifest}.yaml"
    with playable(path) as recording:
        found = [step.recorded for step in steps_of(recording, LoadShape(pods=4))]
    lives: dict[str, list[str]] = {}
    for one in found:
        lives.setdefault(one.container_id or one.pod_id, []).append(one.event)
    ends = {tuple(events[-2:]) for events in lives.values()}
    assert ends == {("StopContainer", "RemoveContainer"), ("StopPodSandbox", "RemovePodSandbox")}
    newest = {one.pod_id: one.event for one in found}
    assert set(newest.values()) == {"RemovePodSandbox"}


def test_added_ends_are_those_that_the_runtime_sends() -> None:
    """Compare with a recording: leave out its ends, and what is added must equal them."""
    recorded = steps_of(RECORDING, LoadShape(pods=1))
    cut = ReplaySelection(end=RecordingPlace(event_id=22))
    added = steps_of(RECORDING, LoadShape(pods=1), cut)
    assert [step.recorded.event for step in added] == [step.recorded.event for step in recorded]
    for one, other in zip(added, recorded, strict=True):
        assert (one.event, one.subject) == (other.event, other.subject)
        for message in (one.message, other.message):
            if isinstance(message, api.RemoveContainerRequest):
                # One recorded container was removed when its pod had no process any more.
                message.pod.ClearField("pid")
        assert str(one.message) == str(other.message), one.recorded.event


def test_a_copy_differs_from_its_model_in_ids_and_names_only() -> None:
    with Recording.open(RECORDING) as recording:
        model = next(one for one in Script(recording, ReplaySelection()).steps() if one.event)
    (copy,) = [
        step
        for step in steps_of(RECORDING, LoadShape(pods=1))
        if step.recorded.event == "RunPodSandbox"
    ]
    assert model.message is not None
    assert copy.message is not None
    assert model.recorded.pod_id not in str(copy.message)

    text = str(copy.message).replace(f'"{copy.recorded.pod}"', f'"{model.recorded.pod}"')
    text = text.replace(copy.recorded.pod_id, model.recorded.pod_id)
    assert text.replace("shop-web-0-0", "shop-web-0") == str(model.message)


def test_all_pods_exist_at_once_and_none_in_the_end() -> None:
    observer = LoadObserver()
    plugin = Recorder()
    job = replace(job_of(RECORDING, {"10-plugin": plugin}), load=LoadShape(pods=50), keep=False)
    result = run(replay(job, observer))
    assert result.ok
    first_stop = plugin.calls.index("StopContainer")
    assert "CreateContainer" not in plugin.calls[first_stop:]
    measured = observer.result()
    assert measured.pods == 50
    assert measured.times["CreateContainer"].count == plugin.calls.count("CreateContainer")
    assert measured.missed == 0
    assert measured.samples == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "'' is not valid; write it as pods=500"),
        ("pods", "'pods' is not valid"),
        ("pots=3", "'pots=3' is not valid"),
        ("pods=1,pods=2", "'pods=2' is not valid"),
        ("pods=x", "a value is no number; write it as"),
        ("pods=0", "pods is not between 1 and 100,000"),
        ("rate=-1/s", "rate is not between"),
        ("rate=nan", "rate is not between"),
        ("containers=101", "containers is not between 1 and 100"),
    ],
)
def test_invalid_shapes(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        parse_load(text)


@pytest.mark.parametrize("text", ["", "p98=5ms", "p99=5", "cpu=50", "cpu=x%", "missed=-1", "rss=x"])
def test_invalid_budgets(text: str) -> None:
    with pytest.raises(UsageError, match="is not valid; write p99=5ms"):
        parse_budget(text)


def test_budgets_have_units() -> None:
    assert parse_budget("p99=5ms") == LoadBudget("p99", 5_000_000, "p99=5ms")
    assert parse_budget("rss=1MiB").limit == 1 << 20
    assert parse_budget("cpu=50%").limit == 0.5


def test_an_exceeded_budget_names_the_measured_value() -> None:
    samples = [ProcessSample(0, 1 << 20, 0), ProcessSample(10**9, 3 << 20, 5 * 10**8)]
    times = {"": AnswerTimes.of(array("q", [7_000_000]))}
    result = LoadResult(times=times, missed=2, samples={"10-a": samples})
    budgets = [parse_budget(one) for one in ("p99=5ms", "rss=2MiB", "cpu=20%", "missed=1")]
    assert result.over(budgets) == [
        "--budget p99=5ms: exceeded: 7.00ms",
        "--budget rss=2MiB: exceeded: 3.00 MiB",
        "--budget cpu=20%: exceeded: 50.0%",
        "--budget missed=1: exceeded: 2",
    ]
    assert result.over([parse_budget("p99=8ms"), parse_budget("cpu=50%")]) == []


def test_a_load_of_too_many_events_is_rejected() -> None:
    with pytest.raises(UsageError, match="are too many"):
        steps_of(RECORDING, LoadShape(pods=100_000, containers=100))


def test_percentiles_are_by_nearest_rank() -> None:
    times = AnswerTimes.of(array("q", range(100, 50, -1)), array("q", range(1, 51)))
    assert times == AnswerTimes(100, 50, 99, 100)
    assert AnswerTimes.of(array("q", [7])) == AnswerTimes(1, 7, 7, 7)


def test_a_plot_is_relative_to_its_largest_value() -> None:
    assert plot([0, 1, 2]) == "▁▅█"
    assert plot([]) == ""
    assert len(plot(range(1_000))) == 60


def command_output(line: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run a command in this process; return its exit status and its output."""
    with pytest.raises(SystemExit) as ended:
        main(line)
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out + captured.err


def test_the_command_measures_a_process_and_checks_budgets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = tmp_path / "slow.py"
    plugin.write_text(SLOW_PLUGIN.format(seconds=0.02))
    arguments = ["replay", str(RECORDING), "--load", "pods=10,rate=200/s,containers=1"]
    command = ["--", sys.executable, str(plugin)]
    budgets = ["--budget", "max=15ms", "--budget", "missed=0"]
    status, output = command_output([*arguments, *budgets, *command], capsys)
    assert status == 1, output
    assert "10 pods, 200 pods/s to 10-slow" in output
    assert re.search(r"^failed: --budget max=15ms: exceeded: [2-9]\d\.\dms$", output, re.M)
    assert "missed=0" not in output
    status, output = command_output([*arguments, "--format", "json", *command], capsys)
    assert status == 0, output
    found = json.loads(output)
    assert found["times"]["StopContainer"]["p50_ns"] >= 20_000_000
    assert found["plugins"]["10-slow"]["rss_max"] > 1 << 20
    # The last pod is stopped 19 periods after the first one is started.
    assert found["took_ns"] >= 19 * 5_000_000


@pytest.mark.parametrize("option", ["--step", "--no-effects", "--update-golden"])
def test_options_of_single_events_are_rejected(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["replay", str(RECORDING), "--load", "pods=1", option, "--", "true"]
    status, output = command_output(line, capsys)
    assert status == 2
    assert f"--load and {option} exclude each other" in output
