# SPDX-License-Identifier: Apache-2.0
"""Parsing of a runtime's metrics, by the output of a real containerd and by hostile input."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope.errors import UsageError
from nri_scope.nri.plugin_metrics import LINE_MAX, SAMPLES_MAX, CallCounts, parse_metrics

REAL = (Path(__file__).parents[1] / "data/metrics/containerd-2.4.2.txt").read_bytes()
"""Metrics of containerd 2.4.2 after one pod with one container, without most of other subjects."""

CALLS = (
    'containerd_nri_plugin_invocations_total{{error="",operation="{}",plugin="{}",status="{}"}} {}'
)


def calls(plugin: str = "10-a", status: str = "success", count: str = "1") -> bytes:
    return CALLS.format("StopContainer", plugin, status, count).encode()


def test_metrics_of_a_real_containerd_have_the_calls_of_each_plugin() -> None:
    found = parse_metrics(REAL)
    assert {plugin for plugin, _ in found} == {"20-oldstyle"}
    assert len(found) == 10
    assert found["20-oldstyle", "CreateContainer"] == CallCounts(1, 0, 2_379_509)


def test_calls_without_success_are_errors() -> None:
    text = b"\n".join([calls(count="5"), calls(status="error", count="2")])
    assert parse_metrics(text)["10-a", "StopContainer"] == CallCounts(7, 2, 0)


def test_a_runtime_without_plugins_has_no_calls() -> None:
    assert parse_metrics(b"containerd_nri_active_plugins_total 0\n") == {}


def test_escapes_in_names_are_resolved() -> None:
    assert ('1"\\\n', "StopContainer") in parse_metrics(calls(plugin=r"1\"\\\n"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "these metrics contain no NRI metrics"),
        (b"process_cpu_seconds_total 3\n", "these metrics contain no NRI metrics"),
        (b"<!DOCTYPE html>\n<html></html>", "not metrics: line 1 is not a sample"),
        (b'{"error": "x"}', "not metrics: line 1 is not a sample"),
        (REAL + b"\nrubbish", "is not a sample"),
        (b"\0" * 100, "not metrics: line 1 is not a sample"),
        (b"x " + b"1" * LINE_MAX, "not metrics: line 1 exceeds a limit"),
        (calls(count="NaN"), "line 1 has no valid value"),
        (calls(count="+Inf"), "line 1 has no valid value"),
        (calls(count="-1"), "line 1 has no valid value"),
        (calls(count="1e300"), "line 1 has no valid value"),
        (calls(plugin="x" * 200), "line 1 has no valid value"),
        (calls(plugin=""), "line 1 has no valid value"),
        (b"containerd_nri_plugin_invocations_total{plugin=10-a} 1", "line 1 has no valid value"),
        (b'containerd_nri_plugin_invocations_total{plugin="\xff"} 1', "line 1 has no valid value"),
        (calls() + (b"\n" + calls()) * SAMPLES_MAX, f"line {SAMPLES_MAX + 1} has no valid value"),
    ],
)  # fmt: skip
def test_other_input_is_an_error_that_names_the_line(content: bytes, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_metrics(content)
    assert words in caught.value.problem
    assert "\n" not in str(caught.value)


def test_a_restart_of_the_runtime_begins_anew() -> None:
    assert CallCounts(5, 1, 90).since(CallCounts(2, 1, 30)) == CallCounts(3, 0, 60)
    assert CallCounts(1, 0, 10).since(CallCounts(2, 1, 30)) == CallCounts(1, 0, 10)
