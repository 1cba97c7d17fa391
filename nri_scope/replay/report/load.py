# SPDX-License-Identifier: Apache-2.0
"""The measurements of a load as lines of text with plots, or as one JSON object."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from nri_scope.nri.plain import Plain
from nri_scope.recording.display import duration, many, size
from nri_scope.recording.records import SCHEMA_VERSION

from ..load import LoadShape
from ..load_measurement import AnswerTimes, LoadResult
from ..result import Replayed

_PLOT_WIDTH = 60
_BARS = "▁▂▃▄▅▆▇█"
_FAILURES_SHOWN = 10


def load_lines(
    replayed: Replayed, shape: LoadShape, result: LoadResult, failures: Sequence[str]
) -> Iterator[str]:
    """Yield the result as lines for people, not escaped."""
    rate = f", {shape.rate:g} pods/s" if shape.rate else ""
    plugins = ", ".join(one.plugin for one in replayed.plugins)
    yield f"{many(result.pods, 'pod')}{rate} to {plugins}, as {replayed.title}"
    seconds = result.took_ns / 1e9
    per_second = result.events / seconds if seconds else 0
    took = duration(result.took_ns)
    yield f"{many(result.events, 'event')} in {took}: {per_second:,.0f} events/s"
    yield ""
    yield f"{'event':<22}{'replies':>9}{'p50':>9}{'p99':>9}{'max':>9}"
    every = result.times.get("")
    rows = [(name, times) for name, times in result.times.items() if name]
    for name, times in [*rows, *([("all", every)] if every is not None else [])]:
        figures = "".join(
            f"{duration(one):>9}" for one in (times.p50_ns, times.p99_ns, times.max_ns)
        )
        yield f"{name:<22}{times.count:>9,}{figures}"
    yield ""
    yield f"missed deadlines: {result.missed}"
    for plugin, samples in result.samples.items():
        first = samples[0].rss
        yield ""
        yield f"{plugin}: {duration(samples[-1].at_ns - samples[0].at_ns)}, left to right"
        memory = [float(one.rss) for one in samples]
        yield f"  memory     {plot(memory)}  {size(first)} to {size(result.rss_of(plugin))}"
        busy = result.cpu_over_time(plugin)
        if busy:
            cpu = f"{result.cpu_of(plugin):.0%} of a processor, at most {max(busy):.0%}"
            yield f"  processor  {plot([0.0, *busy])}  {cpu}"
    shown = failures[:_FAILURES_SHOWN]
    if shown:
        yield ""
        yield from (f"failed: {one}" for one in shown)
        if len(failures) > len(shown):
            yield f"and {len(failures) - len(shown):,} more; --format json has them"


def plot(values: Sequence[float]) -> str:
    """Return bars of one line for values from 0 up; each is the largest of its part."""
    largest = max(values, default=0) or 1
    columns = min(_PLOT_WIDTH, len(values))
    bars: list[str] = []
    for column in range(columns):
        start, stop = column * len(values) // columns, (column + 1) * len(values) // columns
        share = max(values[start:stop]) / largest
        bars.append(_BARS[min(len(_BARS) - 1, int(share * len(_BARS)))])
    return "".join(bars)


def load_document(
    replayed: Replayed, shape: LoadShape, result: LoadResult, failures: Sequence[str]
) -> dict[str, Plain]:
    """Return the JSON object of the result; times are in ns, memory in bytes."""
    seconds = result.took_ns / 1e9
    return {
        "schema_version": SCHEMA_VERSION,
        "source": replayed.source,
        "profile": replayed.profile,
        "runtime": replayed.title,
        "load": asdict(shape),
        "ok": not failures,
        "failures": list(failures),
        "pods": result.pods,
        "events": result.events,
        "took_ns": result.took_ns,
        "events_per_second": result.events / seconds if seconds else 0.0,
        "missed_deadlines": result.missed,
        "all": _times(result.times.get("")),
        "times": {name: _times(one) for name, one in result.times.items() if name},
        "plugins": {
            plugin: {
                "rss_max": result.rss_of(plugin),
                "cpu": result.cpu_of(plugin),
                "samples": [asdict(one) for one in samples],
            }
            for plugin, samples in result.samples.items()
        },
    }


def _times(times: AnswerTimes | None) -> Plain:
    return None if times is None else asdict(times)
