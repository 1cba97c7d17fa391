# SPDX-License-Identifier: Apache-2.0
"""Compute statistics of events and gaps, and the summary of a recording."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

from nri_scope.events import Container, Gap, Pod, Role, Session, Status
from nri_scope.nri.plain import Plain
from nri_scope.nri.request_subject import is_plugins_call

from ..reading.reader import Recording
from ..reading.records import gap_record, rfc3339, session_record
from ..reading.rows import RowError
from ..reading.sqlite_errors import query_numbers, query_rows, recording_errors
from .subject_queries import column_of

SECOND = 1_000_000_000
RUN = 1 << 16
"""Number of response times that are sorted together."""


class Sample(NamedTuple):
    """Values of an event for the statistics."""

    event: str
    namespace: str
    pod: str
    at_ns: int
    took_ns: int
    size: int
    status: str


@dataclass(frozen=True, slots=True)
class ResponseTimes:
    """Response times in ns; percentiles by nearest rank."""

    p50: int
    p99: int
    max: int

    @classmethod
    def of(cls, *times: array[int]) -> ResponseTimes | None:
        """Return the statistics of all times, whose order is changed; None if there are none."""
        runs = [
            (time, start, min(start + RUN, len(time)))
            for time in times
            for start in range(0, len(time), RUN)
        ]
        for run, start, stop in runs:
            # Sorting all times together would create a list of objects, with five times the memory.
            run[start:stop] = array(run.typecode, sorted(run[start:stop]))
        return cls(_rank(runs, 50), _rank(runs, 99), _rank(runs, 100)) if runs else None


SLOWEST = 5
"""Number of the longest times that `Slowest` keeps."""
_BOUNDS = tuple(digit * 10**zeros for zeros in range(3, 18) for digit in (1, 2, 5))
"""Bounds of ranges of times in ns, from 1 µs."""


class Slowest:
    """Collector of the longest times and their events; of equal times, it keeps the first ones."""

    __slots__ = ("_slowest", "least_ns")

    def __init__(self) -> None:
        self._slowest: list[tuple[int, int]] = []
        self.least_ns = -1
        """Shorter times, and equal ones, are not kept."""

    def add(self, ns: int, event: int) -> None:
        """Add a time in ns, and the id of its event."""
        if ns > self.least_ns:
            self._slowest = sorted([*self._slowest, (ns, -event)], reverse=True)[:SLOWEST]
            if len(self._slowest) == SLOWEST:
                self.least_ns = self._slowest[-1][0]

    def result(self) -> list[tuple[int, int]]:
        """Return times and events, the longest first."""
        return [(ns, -event) for ns, event in self._slowest]


@dataclass(slots=True)
class Times:
    """Collector of times and their deadlines. Uses 8 bytes for each time."""

    took: array[int] = field(default_factory=lambda: array("q"))
    """The times, in ns."""
    slowest: Slowest = field(default_factory=Slowest)
    """Filled by the caller."""
    deadline_ns: int = 0
    """Shortest deadline; 0 if there was none."""
    over_half: int = 0
    """Number of times of more than half of the deadline."""
    over: int = 0
    """Number of times that are longer than the deadline."""

    def add(self, ns: int, deadline_ns: int) -> bool:
        """Add a duration and its deadline (0: none), in ns; return if it is one of the longest."""
        self.took.append(ns)
        if deadline_ns > 0:
            if deadline_ns < self.deadline_ns or not self.deadline_ns:
                self.deadline_ns = deadline_ns
            self.over_half += 2 * ns > deadline_ns
            self.over += ns > deadline_ns
        return ns > self.slowest.least_ns


@dataclass(frozen=True, slots=True)
class Timing:
    """Statistics of event times in a plugin, or between two connections."""

    count: int
    took: ResponseTimes
    """Percentiles; between two connections they include some tens of µs of the runtime itself."""
    deadline_ns: int
    """Shortest deadline of one plugin for one event; 0 if the runtime sent none."""
    over_half: int
    """Number of events that took more than half of their deadline, including ``over``."""
    over: int
    """Number of events that took longer than one plugin's deadline."""

    @classmethod
    def of(cls, *times: Times, **fields: Any) -> Self | None:
        """Return the statistics of all times; None if there are none. ``fields``: of a subclass."""
        took = ResponseTimes.of(*(measured.took for measured in times))
        if took is None:
            return None
        return cls(
            sum(len(measured.took) for measured in times),
            took,
            min((measured.deadline_ns for measured in times if measured.deadline_ns), default=0),
            sum(measured.over_half for measured in times),
            sum(measured.over for measured in times),
            **fields,
        )

    @property
    def used(self) -> float | None:
        """The longest time as a share of the deadline; None without a deadline."""
        return self.took.max / self.deadline_ns if self.deadline_ns else None


class TimeRange(NamedTuple):
    """Number of times in a range."""

    from_ns: int
    to_ns: int | None
    """First time after the range; None if it has no end."""
    times: int


def distribution(times: Iterable[array[int]], most: int = 10) -> list[TimeRange]:
    """Count times in ns in at most ``most`` (at least 6) adjacent ranges of a logarithmic scale.

    The ranges reach from the shortest time to the longest one; their bounds are 1, 2 and 5 times a
    power of ten, or fewer.
    """
    counts: Counter[int] = Counter()
    for durations in times:
        # In parts, between which other threads can run.
        for index in range(0, len(durations), RUN):
            counts.update(map(partial(bisect_right, _BOUNDS), durations[index : index + RUN]))
    for step in (1, 3, 9) if counts else ():
        bounds = _BOUNDS[::step]
        of_ranges: Counter[int] = Counter()
        for index, count in counts.items():
            of_ranges[-(-index // step)] += count
        first, last = min(of_ranges), max(of_ranges)
        if last - first < most:
            ends = 0, *bounds, None
            return [
                TimeRange(ends[index] or 0, ends[index + 1], of_ranges[index])
                for index in range(first, last + 1)
            ]
    return []


@dataclass(frozen=True, slots=True)
class EventStats:
    """Statistics of all events with one name."""

    event: str
    count: int
    not_ok: int
    """Number of events with an error or a missed deadline."""
    wire_bytes: int
    took: ResponseTimes | None
    """Response times; None if none was measured."""


@dataclass(frozen=True, slots=True)
class PodStats:
    """Statistics of all events about one pod, identified by name."""

    namespace: str
    pod: str
    count: int


@dataclass(frozen=True, slots=True)
class Stats:
    """Result of `tally`."""

    count: int
    by_status: dict[str, int]
    by_event: tuple[EventStats, ...]
    """Statistics by event, the most frequent first."""
    by_pod: tuple[PodStats, ...]
    """Statistics by pod, the most frequent first."""
    without_pod: int
    """Number of events without a pod."""
    took: ResponseTimes | None
    """Response times of the runtime's requests, without requests that plugins sent; None if none
    was measured."""
    first_ns: int | None
    last_ns: int | None
    busiest_ns: int | None
    """Start of the second with the most events, in ns."""
    busiest_count: int
    wire_bytes: int
    """Bytes of all requests."""

    @property
    def seconds(self) -> float:
        """Seconds from the first event to the last."""
        if self.first_ns is None or self.last_ns is None:
            return 0.0
        return (self.last_ns - self.first_ns) / SECOND

    @property
    def rate(self) -> float | None:
        """Events per second; None for less than a second, which would not be representative."""
        return (self.count - 1) / self.seconds if self.seconds >= 1 else None


def tally(samples: Iterable[Sample]) -> Stats:
    """Return the statistics of ``samples``. Takes 8 bytes of memory per sample, plus names."""
    times: defaultdict[str, array[int]] = defaultdict(lambda: array("q"))
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    not_ok: Counter[str] = Counter()
    statuses: Counter[str] = Counter({str(status): 0 for status in Status})
    pods: Counter[tuple[str, str]] = Counter()
    seconds: Counter[int] = Counter()
    first_ns: int | None = None
    last_ns: int | None = None
    for event, namespace, pod, at_ns, took_ns, size, status in samples:
        counts[event] += 1
        if took_ns:
            times[event].append(took_ns)
        sizes[event] += size
        statuses[status] += 1
        if status != Status.OK:
            not_ok[event] += 1
        pods[namespace, pod] += 1
        seconds[at_ns // SECOND] += 1
        if first_ns is None or at_ns < first_ns:
            first_ns = at_ns
        if last_ns is None or at_ns > last_ns:
            last_ns = at_ns
    by_event = [
        EventStats(event, count, not_ok[event], sizes[event], ResponseTimes.of(times[event]))
        for event, count in counts.items()
    ]
    without_pod = pods.pop(("", ""), 0)
    by_pod = sorted(pods.items(), key=lambda entry: (-entry[1], entry[0]))
    busiest = max(seconds.items(), key=lambda entry: (entry[1], -entry[0]), default=None)
    return Stats(
        count=counts.total(),
        by_status=dict(statuses),
        by_event=tuple(sorted(by_event, key=lambda entry: (-entry.count, entry.event))),
        by_pod=tuple(PodStats(namespace, pod, count) for (namespace, pod), count in by_pod),
        without_pod=without_pod,
        took=ResponseTimes.of(
            *(taken for event, taken in times.items() if not is_plugins_call(event, ""))
        ),
        first_ns=first_ns,
        last_ns=last_ns,
        busiest_ns=busiest[0] * SECOND if busiest else None,
        busiest_count=busiest[1] if busiest else 0,
        wire_bytes=sum(sizes.values()),
    )


@dataclass(frozen=True, slots=True)
class GapStats:
    """Totals of gaps."""

    count: int
    lost: int
    """Number of lost events in gaps with a known number."""
    unknown: int
    """Number of gaps with an unknown number of lost events."""
    left_out: int = 0
    """Number of events omitted from an extracted part; their gaps are not counted above."""

    @classmethod
    def of(cls, gaps: Iterable[Gap]) -> GapStats:
        """Return the totals of ``gaps``."""
        every = list(gaps)
        lost = [gap.lost for gap in every if not gap.is_left_out]
        counts = [count for count in lost if count is not None]
        left_out = sum(gap.lost or 0 for gap in every if gap.is_left_out)
        return cls(len(lost), sum(counts), len(lost) - len(counts), left_out)


def _rank(runs: Sequence[tuple[array[int], int, int]], percent: int) -> int:
    """Return the nearest-rank percentile of all numbers in ascending parts of arrays."""
    rank = max(1, math.ceil(sum(stop - start for _, start, stop in runs) * percent / 100))
    low = min(run[start] for run, start, _ in runs)
    high = max(run[stop - 1] for run, _, stop in runs)
    while low < high:
        middle = (low + high) // 2
        if sum(bisect_right(run, middle, start, stop) - start for run, start, stop in runs) >= rank:
            high = middle
        else:
            low = middle + 1
    return low


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary of a recording."""

    stats: Stats
    sessions: tuple[Session, ...]
    gaps: tuple[Gap, ...]
    cri_answers: int
    """Number of recorded CRI calls, which are excluded from all other counts."""
    file_bytes: int
    """Bytes on disk, including the write-ahead log of a recording that is being written."""
    version: int

    @property
    def is_scenario(self) -> bool:
        """Whether all sessions were made from scenarios, so that nothing was observed."""
        return {session.role for session in self.sessions} == {Role.SCENARIO}

    @property
    def ratio(self) -> float | None:
        """Bytes on disk per byte of requests on the wire."""
        wire = self.stats.wire_bytes
        return self.file_bytes / wire if wire else None

    def record(self) -> dict[str, Plain]:
        """Return the summary for JSON."""
        stats = self.stats
        gaps = GapStats.of(self.gaps)
        return {
            "recording_version": self.version,
            "events": stats.count,
            "first": None if stats.first_ns is None else rfc3339(stats.first_ns),
            "last": None if stats.last_ns is None else rfc3339(stats.last_ns),
            "seconds": round(stats.seconds, 6),
            "events_per_second": None if stats.rate is None else round(stats.rate, 3),
            "busiest_second": {
                "at": None if stats.busiest_ns is None else rfc3339(stats.busiest_ns),
                "events": stats.busiest_count,
            },
            "status": dict(stats.by_status),
            "took_us": _took(stats.took),
            "by_event": [
                {
                    "event": entry.event,
                    "count": entry.count,
                    "not_ok": entry.not_ok,
                    "wire_bytes": entry.wire_bytes,
                    "took_us": _took(entry.took),
                }
                for entry in stats.by_event
            ],
            "by_pod": [
                {"namespace": entry.namespace, "pod": entry.pod, "count": entry.count}
                for entry in stats.by_pod
            ],
            "without_pod": stats.without_pod,
            "cri_answers": self.cri_answers,
            "gaps": {
                "count": gaps.count,
                "lost": gaps.lost,
                "with_unknown_loss": gaps.unknown,
                "left_out": gaps.left_out,
                "list": [gap_record(gap)["gap"] for gap in self.gaps if not gap.is_left_out],
            },
            "sizes": {
                "file_bytes": self.file_bytes,
                "wire_bytes": stats.wire_bytes,
                "ratio": None if self.ratio is None else round(self.ratio, 4),
            },
            "sessions": [session_record(session) for session in self.sessions],
        }


def summarise(recording: Recording) -> Summary:
    """Return the summary of a recording. Raises RecordingError."""
    size = 0
    for name in (recording.path, f"{recording.path}-wal"):
        with suppress(OSError):
            size += Path(name).stat().st_size
    return Summary(
        stats=tally(_samples(recording)),
        sessions=tuple(recording.sessions()),
        gaps=tuple(recording.gaps()),
        cri_answers=_cri_answers(recording),
        file_bytes=size,
        version=recording.version,
    )


_CRI = "SELECT id FROM session WHERE role = ?"
_TYPES = (str, str, str, int, int, int, str)


def _samples(recording: Recording) -> Iterator[Sample]:
    with recording_errors(recording):
        for row in recording.connection.execute(
            f"SELECT {', '.join(Sample._fields)} FROM events WHERE session NOT IN ({_CRI})",
            (Role.CRI,),
        ):
            if tuple(map(type, row)) != _TYPES:
                raise RowError("an event has values of a wrong type")
            yield Sample._make(row)


def _cri_answers(recording: Recording) -> int:
    query = f"SELECT count(*) FROM event WHERE session IN ({_CRI})"
    return query_numbers(recording, query, Role.CRI)[0][0]


def _took(took: ResponseTimes | None) -> dict[str, Plain]:
    if took is None:
        return {"p50": None, "p99": None, "max": None}
    return {"p50": took.p50 // 1000, "p99": took.p99 // 1000, "max": took.max // 1000}


def time_range(recording: Recording, about: Pod | Container | None = None) -> tuple[int, int]:
    """Return the earliest and latest event time, in wall clock ns; (0, 1) without events.

    `about` limits the events to those of a pod and its containers, or of a container. Raises
    RecordingError.
    """
    condition = ""
    key: tuple[int, ...] = ()
    if about is not None:
        condition = f" WHERE {column_of(about)} = ?"
        key = (about.key,)
    query = f"SELECT min(at_ns), max(at_ns) FROM event{condition}"
    ((first, last),) = query_rows(recording, query, *key)
    return (int(first), int(last)) if isinstance(first, int) and isinstance(last, int) else (0, 1)
