# SPDX-License-Identifier: Apache-2.0
"""Measurements of a load: answer times by event, and memory and processor time of the plugin."""

from __future__ import annotations

import math
import os
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from time import monotonic_ns

from nri_scope.errors import UsageError
from nri_scope.filter.quantity import parse_duration, parse_size
from nri_scope.recording.display import duration, size
from nri_scope.recording.stats import ResponseTimes

from .progress import ReplayListener
from .replies import Verdict
from .result import PlayedEvent

_INTERVAL_NS = 200_000_000
"""Least time between two samples of a process."""
SAMPLES_MAX = 600
"""Maximum number of samples; then every other one is dropped, and the interval doubles."""
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
BUDGETS = ("p50", "p99", "max", "rss", "cpu", "missed")
BUDGET_FORM = "p99=5ms, max=50ms, rss=64MiB, cpu=50% or missed=0"


@dataclass(frozen=True, slots=True)
class LoadBudget:
    """Limit of one measured value."""

    name: str
    limit: float
    """Nanoseconds, bytes, share of one processor, or a count."""
    text: str
    """As the user wrote it."""


def parse_budget(text: str) -> LoadBudget:
    """Parse a limit such as ``p99=5ms``. Raises UsageError."""
    name, _, value = text.partition("=")
    limit: float | None = None
    try:
        if name in ("p50", "p99", "max"):
            limit = parse_duration(value)
        elif name == "rss":
            limit = parse_size(value)
        elif name == "cpu" and value.endswith("%"):
            limit = float(value.removesuffix("%")) / 100
        elif name == "missed":
            limit = int(value)
    except ValueError:
        limit = None
    if limit is None or not 0 <= limit < math.inf:
        raise UsageError(f"--budget {text} is not valid", f"write {BUDGET_FORM}")
    return LoadBudget(name, limit, text)


@dataclass(frozen=True, slots=True)
class AnswerTimes:
    """Number and statistics of the answer times of one event, in ns."""

    count: int
    p50_ns: int
    p99_ns: int
    max_ns: int

    @classmethod
    def of(cls, *times: array[int]) -> AnswerTimes:
        """Return the figures of all times, at least one, whose order is changed."""
        took = ResponseTimes.of(*times)
        assert took is not None
        return cls(sum(map(len, times)), took.p50, took.p99, took.max)


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """State of a plugin's process at one time."""

    at_ns: int
    """Time since the load began."""
    rss: int
    """Resident memory in bytes."""
    busy_ns: int
    """Processor time since the process began, in ns, of all threads."""


@dataclass(slots=True)
class LoadResult:
    """Result of a load."""

    pods: int = 0
    events: int = 0
    took_ns: int = 0
    times: dict[str, AnswerTimes] = field(default_factory=dict[str, AnswerTimes])
    """By event, and "" for all."""
    missed: int = 0
    """Replies that missed their deadline."""
    samples: dict[str, list[ProcessSample]] = field(default_factory=dict[str, list[ProcessSample]])
    """By plugin (``NN-name``); none for a plugin whose process is unknown."""

    def over(self, budgets: Sequence[LoadBudget]) -> list[str]:
        """Return a line for each exceeded budget, or budget that was not measured."""
        lines: list[str] = []
        for budget in budgets:
            value = self._value(budget.name)
            if value is None:
                lines.append(f"--budget {budget.text}: not measured")
            elif value > budget.limit:
                lines.append(f"--budget {budget.text}: exceeded: {_words(budget.name, value)}")
        return lines

    def _value(self, name: str) -> float | None:
        every = self.times.get("")
        if name == "missed":
            return self.missed
        if name in ("rss", "cpu"):
            values = {plugin: getattr(self, f"{name}_of")(plugin) for plugin in self.samples}
            return max(values.values(), default=None)
        return None if every is None else getattr(every, f"{name}_ns")

    def rss_of(self, plugin: str) -> int:
        """Return a plugin's largest resident memory, in bytes."""
        return max(one.rss for one in self.samples[plugin])

    def cpu_of(self, plugin: str) -> float:
        """Return a plugin's processor time in the whole load, as a share of one processor."""
        first, *_, last = (*self.samples[plugin], self.samples[plugin][-1])
        return (last.busy_ns - first.busy_ns) / max(1, last.at_ns - first.at_ns)

    def cpu_over_time(self, plugin: str) -> list[float]:
        """Return the shares of one processor between consecutive samples."""
        return [
            (after.busy_ns - before.busy_ns) / max(1, after.at_ns - before.at_ns)
            for before, after in pairwise(self.samples[plugin])
        ]


def _words(name: str, value: float) -> str:
    """Format the value of a budget."""
    match name:
        case "missed":
            return f"{value:g}"
        case "rss":
            return size(round(value))
        case "cpu":
            return f"{value:.1%}"
    return duration(round(value))


class LoadObserver(ReplayListener):
    """Listener that measures while a load is played."""

    def __init__(self) -> None:
        self._times: dict[str, array[int]] = {}
        self._began_ns = 0
        self._last_ns = 0
        self._events = 0
        self._pods = 0
        self._missed = 0
        self._processes: dict[str, _ProcessSampler] = {}

    def started(self, plugin: str, pid: int) -> None:
        """Begin to sample the process of a plugin."""
        if pid:
            self._processes[plugin] = _ProcessSampler(pid)

    def finish(self) -> None:
        """Take a last sample of each process, before the plugins end."""
        for process in self._processes.values():
            process.sample(monotonic_ns() - self._began_ns, now=True)

    def event(self, played: PlayedEvent) -> None:
        """Count an event, and sample the processes if it is time."""
        if not played.event_id:
            return
        now_ns = monotonic_ns()
        if not self._began_ns:
            self._began_ns = now_ns
        self._last_ns = now_ns
        self._events += 1
        self._pods += played.event == "RunPodSandbox"
        for reply in played.replies:
            self._times.setdefault(reply.event, array("q")).append(reply.took_ns)
            self._missed += reply.verdict is Verdict.LATE
        for process in self._processes.values():
            process.sample(now_ns - self._began_ns)

    def result(self) -> LoadResult:
        """Return the measurements."""
        times = {"": AnswerTimes.of(*self._times.values())} if self._times else {}
        for name, values in self._times.items():
            times[name] = AnswerTimes.of(values)
        return LoadResult(
            pods=self._pods,
            events=self._events,
            took_ns=self._last_ns - self._began_ns,
            times=times,
            missed=self._missed,
            samples={name: one.samples for name, one in self._processes.items() if one.samples},
        )


class _ProcessSampler:
    """Reader of the memory and the processor time of one process, all threads included."""

    def __init__(self, pid: int) -> None:
        self.samples: list[ProcessSample] = []
        self._folder = Path(f"/proc/{pid}")
        self._interval_ns = _INTERVAL_NS
        self._last_ns: int | None = None

    def sample(self, at_ns: int, *, now: bool = False) -> None:
        """Take a sample, if the interval has passed (or ``now``) and the process exists."""
        if not now and self._last_ns is not None and at_ns - self._last_ns < self._interval_ns:
            return
        try:
            # The name in parentheses may contain spaces.
            stat = (self._folder / "stat").read_text().rpartition(")")[2].split()
            pages = int((self._folder / "statm").read_text().split()[1])
        except (OSError, IndexError, ValueError):
            return
        busy_ns = (int(stat[11]) + int(stat[12])) * _TICK_NS
        self.samples.append(ProcessSample(at_ns, pages * _PAGE, busy_ns))
        self._last_ns = at_ns
        if len(self.samples) > SAMPLES_MAX:
            self._interval_ns *= 2
            del self.samples[1::2]
