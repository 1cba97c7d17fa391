# SPDX-License-Identifier: Apache-2.0
"""``record --metrics`` and ``doctor --metrics``, with metrics in the form of a real containerd."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nri_scope.cli.main import run
from nri_scope.recording.reading.plugin_calls import plugin_calls
from nri_scope.recording.reading.reader import Recording
from nri_scope.share.extract import Selection, extract
from tests.cli.container_events import setup, start
from tests.cli.recording_process import recording
from tests.cli.runtime_metrics import OURS, Metrics, served
from tests.runtime_emulation.runtime import Runtime


async def recorded(path: Path, *more: str) -> None:
    """Record four calls, in which the counters rise by four."""
    metrics = Metrics()
    with served(metrics) as url:
        async with Runtime(setup("containerd-2.4")) as runtime:
            await runtime.listen(path.parent / "s")
            options = ("--socket", path.parent / "s", "-o", path, "--metrics", url)
            async with recording(*options, *more) as record:
                await runtime.wait_plugins(1)
                await start(runtime, 4)
                metrics.calls = 4
                status, _, errors = await record.interrupt()
    assert status == 0, errors


async def test_calls_by_the_runtime_are_shown_beside_the_recorded_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.nriscope.db"
    await recorded(path)
    assert run(["report", str(path)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    (ours,) = [line for line in lines if line[:2] == [OURS, "4"]]
    assert ours[:5] == [OURS, "4", "0", "1.00ms", "4"] and len(ours) == 6
    assert ["50-other", "4", "0", "4.00ms"] in lines
    # Plugins that the runtime has not called since the beginning.
    assert not any("20-oldstyle" in line for line in lines)

    assert run(["report", "--format", "json", str(path)]) == 0
    ours_json, other = json.loads(capsys.readouterr().out)["runtime_metrics"]
    assert other == {
        "plugin": "50-other", "operation": "StartContainer", "calls": 4, "errors": 0,
        "mean_us": 4000, "recorded": 0, "recorded_mean_us": None,
    }  # fmt: skip
    assert (ours_json["recorded"], ours_json["mean_us"]) == (4, 1000)

    for name in ("report.md", "report.html"):
        assert run(["report", str(path), "-o", str(tmp_path / name)]) == 0
        text = (tmp_path / name).read_text()
        assert "Calls by the runtime's metrics" in text.replace("&#39;", "'")
        assert "50-other" in text and "4.00ms" in text


async def test_a_redacted_copy_has_the_calls_but_a_part_has_not(tmp_path: Path) -> None:
    path, copy, part = tmp_path / "x.nriscope.db", tmp_path / "y.db", tmp_path / "z.db"
    await recorded(path)
    with Recording.open(path) as source:
        assert [call.plugin for call in plugin_calls(source)] == [OURS, "50-other"]
        extract(source, part, Selection(numbers=[1]))
    assert run(["export", str(path), "--redact", "-o", str(copy)]) == 0
    with Recording.open(copy) as redacted, Recording.open(part) as some:
        assert [call.counts.calls for call in plugin_calls(redacted)] == [4, 4]
        assert plugin_calls(some) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<html>\n", "not metrics: line 1 is not a sample of Prometheus' format"),
        ("process_cpu_seconds_total 1\n", "these metrics contain no NRI metrics"),
    ],
)
def test_metrics_that_are_not_cost_one_line_and_leave_everything_as_it_was(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = Metrics()
    metrics.body = text.encode  # type: ignore[method-assign]
    output = str(tmp_path / "x.nriscope.db")
    with served(metrics) as url:
        assert run(["record", "--metrics", url, "-o", output]) == 2
        errors = capsys.readouterr().err
        assert run(["doctor", "--metrics", url, "--format", "json", "--root", str(tmp_path)]) == 1
    assert errors.startswith(f"nri-scope: {words}") and errors.count("\n") == 1
    shown = capsys.readouterr()
    checks = json.loads(shown.out)["checks"]
    assert [check["name"] for check in checks].count("plugin-metrics") == 1 < len(checks)
    assert (checks[-1]["status"], checks[-1]["detail"]) == ("fail", words) and not shown.err
    assert list(tmp_path.iterdir()) == []


def test_doctor_shows_metrics_that_no_server_has_as_a_failed_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(Metrics()) as url:
        pass
    assert run(["doctor", "--metrics", url, "--format", "json", "--root", str(tmp_path)]) == 1
    *others, last = json.loads(capsys.readouterr().out)["checks"]
    assert others and last["status"] == "fail" and last["detail"] == f"{url}: connection refused"


@pytest.mark.parametrize(
    "arguments", [["--install", "--metrics", "http://[::1]/"], ["--metrics", "ftp://[::1]/"]]
)
def test_doctor_refuses_metrics_before_any_check(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor", *arguments]) == 2
    shown = capsys.readouterr()
    assert not shown.out and shown.err.count("\n") == 1


def test_doctor_shows_the_runtime_s_metrics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(Metrics()) as url:
        run(["doctor", "--metrics", url, "--root", str(tmp_path)])
    out = " ".join(capsys.readouterr().out.split())
    assert "the runtime has called 20-oldstyle 10 times since its start" in out
