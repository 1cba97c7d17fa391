# SPDX-License-Identifier: Apache-2.0
"""Checks of plugins by the runtime's metrics."""

from __future__ import annotations

from nri_scope.doctor.check import Health
from nri_scope.doctor.plugins import PLUGINS_MAX, check_metrics
from nri_scope.nri.plugin_metrics import CallCounts

CALLS = {
    ("20-b", "RunPodSandbox"): CallCounts(3, 1, 9_000_000),
    ("10-a", "RunPodSandbox"): CallCounts(1, 0, 2_000_000),
    ("20-b", "StopContainer"): CallCounts(1, 0, 1_000_000),
    ("00-nri-scope-doctor", "Synchronize"): CallCounts(4, 0, 1_000_000),
}


def test_each_plugin_has_its_calls_and_errors() -> None:
    assert [(metric.status, metric.detail) for metric in check_metrics(CALLS)] == [
        (Health.OK, "the runtime has called 10-a once since its start, 2 ms on average"),
        (
            Health.WARN,
            "the runtime has called 20-b 4 times since its start, 2.5 ms on average; 1 of the "
            "calls failed or were not answered in time",
        ),
    ]


def test_without_calls_that_is_said() -> None:
    (check,) = check_metrics({})
    assert check.detail == "the runtime has called no plugin since its start"


def test_the_list_of_plugins_is_bounded() -> None:
    many = {(f"10-{number:04}", "StopContainer"): CallCounts(1) for number in range(2_000)}
    checks = check_metrics(many)
    assert len(checks) == PLUGINS_MAX + 1
    assert checks[-1].detail == "and 1,900 more plugins"
