# SPDX-License-Identifier: Apache-2.0
"""Readings of a runtime's counters while a recording is made."""

from __future__ import annotations

import threading
from pathlib import Path
from queue import SimpleQueue

import pytest

from nri_scope.entries import CallsByMetrics
from nri_scope.nri.plugin_metrics import CallCounts, PluginMetrics
from nri_scope.writer import metrics_reader as module
from nri_scope.writer.metrics_reader import FirstReading, MetricsReader, Readings

DATA = Path(__file__).parents[1] / "data"


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


def test_a_counter_that_is_missing_alone_is_no_restart() -> None:
    readings = Readings(counters(a=5, b=3), 100)
    entry = readings.add(counters(b=4), 200)
    assert entry and (entry.since_ns, entry.calls) == (
        100, (("10-b", "StopContainer", 1, 0, 1000),),
    )  # fmt: skip


def test_after_a_restart_without_the_plugins_all_calls_count() -> None:
    readings = Readings(counters(a=5), 100)
    assert readings.add({}, 200) is None
    entry = readings.add(counters(a=7), 300)
    assert entry and (entry.since_ns, entry.calls[0][2]) == (100, 7)


def test_a_replacing_writer_counts_from_a_reading_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: SimpleQueue[PluginMetrics] = SimpleQueue()
    found: SimpleQueue[CallsByMetrics] = SimpleQueue()
    monkeypatch.setattr(module, "http_get", lambda url, timeout: b"")
    monkeypatch.setattr(module, "parse_metrics", lambda content: read.get())
    read.put(counters(a=2))
    read.put(counters(a=5))
    reader = MetricsReader(FirstReading("http://x/", 100, None), found.put, print)
    reader.finish()
    entry = found.get_nowait()
    assert entry.since_ns > 100 and entry.calls[0][2] == 3


def test_calls_since_a_first_reading_that_goes_on_at_the_end_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = iter([counters(a=2), counters(a=5)])
    found: SimpleQueue[CallsByMetrics] = SimpleQueue()
    is_made = threading.Event()

    def get(url: str, timeout: float) -> bytes:
        is_made.wait()
        # The end begins while the first answer is on its way.
        reader._stop.wait()
        return b""

    monkeypatch.setattr(module, "http_get", get)
    monkeypatch.setattr(module, "parse_metrics", lambda text: next(content))
    reader = MetricsReader(FirstReading("http://x/", 100, None), found.put, print)
    is_made.set()
    reader.finish()
    assert found.get_nowait().calls[0][2] == 3


def test_the_end_does_not_wait_for_a_reading_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, over, said = threading.Event(), threading.Event(), list[str]()
    found: list[CallsByMetrics] = []

    def hang(url: str, timeout: float) -> bytes:
        begun.set()
        over.wait()
        return (DATA / "metrics/containerd-2.4.2.txt").read_bytes()

    monkeypatch.setattr(module, "http_get", hang)
    monkeypatch.setattr(module, "INTERVAL_S", 0.0)
    monkeypatch.setattr(module, "LAST_S", 0.1)
    reader = MetricsReader(FirstReading("http://x/", 100, {}), found.append, said.append)
    begun.wait()
    reader.finish()
    assert not over.is_set()
    over.set()
    reader._thread.join()
    assert said == ["warning: http://x/: no complete answer within 0.1 s at the end"]
    assert found == []
