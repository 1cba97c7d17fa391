# SPDX-License-Identifier: Apache-2.0
"""Readings of a runtime's counters while a recording is made."""

from __future__ import annotations

from nri_scope.nri.plugin_metrics import CallCounts, PluginMetrics
from nri_scope.writer.metrics_reader import Readings


def counters(**calls: int) -> PluginMetrics:
    return {
        (f"10-{name}", "StopContainer"): CallCounts(n, 0, 1000 * n) for name, n in calls.items()
    }


def test_only_calls_since_the_first_reading_count() -> None:
    readings = Readings(counters(a=5, b=1), 100)
    assert readings.add(counters(a=5, b=1), 200) is None
    entry = readings.add(counters(a=7, b=1, new=2), 300)
    assert entry is not None
    assert (entry.since_ns, entry.until_ns) == (100, 300)
    assert entry.calls == (
        ("10-a", "StopContainer", 2, 0, 2000),
        ("10-new", "StopContainer", 2, 0, 2000),
    )


def test_after_a_restart_of_the_runtime_all_its_calls_count() -> None:
    readings = Readings(counters(a=5), 100)
    before = readings.add(counters(a=6), 200)
    after = readings.add(counters(a=2), 300)
    later = readings.add(counters(a=9), 400)
    assert before and before.since_ns == 100
    assert after and (after.since_ns, after.calls[0][2]) == (200, 2)
    assert later and (later.since_ns, later.calls[0][2]) == (200, 9)


def test_a_plugin_missing_after_a_restart_is_noticed() -> None:
    readings = Readings(counters(a=5, b=3), 100)
    entry = readings.add(counters(b=4), 200)
    assert entry and (entry.since_ns, entry.calls[0][2]) == (100, 4)
