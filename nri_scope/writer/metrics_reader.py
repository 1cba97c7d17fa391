# SPDX-License-Identifier: Apache-2.0
"""Read the runtime's metrics from time to time, in a thread of the process that writes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import time_ns

from nri_scope.entries import CallsByMetrics
from nri_scope.errors import UsageError
from nri_scope.nri.plugin_metrics import CallCounts, PluginMetrics, parse_metrics
from nri_scope.transport.http_get import TIMEOUT_S, http_get

INTERVAL_S = 10.0
"""Seconds between two readings."""
LAST_S = 2.0
"""Maximum time in seconds that the end of the recording waits for the last reading."""


@dataclass(frozen=True, slots=True)
class FirstReading:
    """The counts at a URL before the recording."""

    url: str
    at_ns: int
    """Wall clock, in ns."""
    metrics: PluginMetrics | None
    """None in a writer process that replaces another: it begins with a reading of its own."""

    @classmethod
    def of(cls, url: str) -> FirstReading:
        """Read the metrics. Raises `UsageError` if there are no metrics of NRI."""
        metrics = parse_metrics(http_get(url))
        return cls(url, time_ns(), metrics)


class MetricsReader:
    """Thread that reads metrics until `finish`, and passes on the calls since the first reading."""

    def __init__(
        self, first: FirstReading, put: Callable[[CallsByMetrics], None], say: Callable[[str], None]
    ) -> None:
        """``put`` and ``say``, for messages to the user, are called in the thread."""
        self._url = first.url
        self._put = put
        self._say = say
        self._stop = threading.Event()
        self._readings = None if first.metrics is None else Readings(first.metrics, first.at_ns)
        self._failed = self._over = False
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Read once more, after a reading that has begun; at most `LAST_S` in all."""
        self._stop.set()
        self._thread.join(LAST_S)
        self._over = True
        if self._thread.is_alive() and not self._failed:
            self._say(f"warning: {self._url}: no complete answer within {LAST_S:g} s at the end")

    def _run(self) -> None:
        if self._readings is None:
            self._read(TIMEOUT_S)
        is_last = False
        while not is_last:
            # Calls may have been made since a reading that has begun, which may be the first one.
            is_last = self._stop.wait(INTERVAL_S)
            self._read(LAST_S if is_last else TIMEOUT_S)

    def _read(self, timeout: float) -> None:
        try:
            metrics = parse_metrics(http_get(self._url, timeout))
        except UsageError as error:
            if not (self._failed or self._over):
                self._say(f"warning: {error.problem}; its metrics are missing meanwhile")
            self._failed = True
            return
        self._failed = False
        if self._readings is None:
            self._readings = Readings(metrics, time_ns())
            return
        entry = self._readings.add(metrics, time_ns())
        if entry is not None and not self._over:
            self._put(entry)


class Readings:
    """Successive readings of the counters of one runtime, which may restart."""

    def __init__(self, first: PluginMetrics, at_ns: int) -> None:
        self._first = self._newest = first
        self._since_ns = self._newest_ns = at_ns

    def add(self, metrics: PluginMetrics, now_ns: int) -> CallsByMetrics | None:
        """Return the calls since the first reading or the runtime's restart; None without calls."""
        common = self._newest.keys() & metrics.keys()
        if (self._newest and not common) or any(
            metrics[key].calls < self._newest[key].calls for key in common
        ):
            # The runtime was restarted, and its counters with it. A counter that is missing alone
            # does not show that.
            self._first, self._since_ns = {}, self._newest_ns
        self._newest, self._newest_ns = metrics, now_ns
        calls = []
        for (plugin, operation), now in metrics.items():
            counts = now.since(self._first.get((plugin, operation), CallCounts()))
            if counts.calls:
                calls.append((plugin, operation, counts.calls, counts.errors, counts.took_ns))
        return CallsByMetrics(self._since_ns, now_ns, tuple(calls)) if calls else None
