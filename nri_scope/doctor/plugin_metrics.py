# SPDX-License-Identifier: Apache-2.0
"""Calls of plugins by the runtime's own metrics."""

from __future__ import annotations

from collections.abc import Iterator

from nri_scope.nri.identity import plugin_id
from nri_scope.nri.plugin_metrics import PluginMetrics

from .check import Check, ok, warn
from .registration import IDENTITY

PLUGINS_MAX = 100
"""Maximum number of plugins listed."""


def check_metrics(metrics: PluginMetrics) -> list[Check]:
    """Return a check for each plugin, with its calls since the runtime's start."""
    checks = list(_checks(metrics))
    more = len(checks) - PLUGINS_MAX
    if more > 0:
        checks[PLUGINS_MAX:] = [ok("plugin-metrics", f"and {more:,} more plugins")]
    return checks or [ok("plugin-metrics", "the runtime has called no plugin since its start")]


def _checks(metrics: PluginMetrics) -> Iterator[Check]:
    ours = plugin_id(IDENTITY.index, IDENTITY.name)
    for plugin in sorted({plugin for plugin, _ in metrics} - {ours}):
        counts = [one for (name, _), one in metrics.items() if name == plugin]
        calls, errors = sum(one.calls for one in counts), sum(one.errors for one in counts)
        mean_ms = sum(one.took_ns for one in counts) / max(1, calls) / 1e6
        times = "once" if calls == 1 else f"{calls:,} times"
        text = (
            f"the runtime has called {plugin} {times} since its start, {mean_ms:.3g} ms on average"
        )
        if errors:
            failed = f"{errors:,} of the calls failed or were not answered in time"
            yield warn("plugin-metrics", f"{text}; {failed}", f"see the log of {plugin}")
        else:
            yield ok("plugin-metrics", text)
