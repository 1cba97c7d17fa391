# SPDX-License-Identifier: Apache-2.0
"""Lines of a recording's summary, for ``report``: event counts, rates and times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from nri_scope.api import Statistics
from nri_scope.differ.latency import TimeIn
from nri_scope.events import PASSIVE_ROLES, Role, Session
from nri_scope.nri.request_subject import is_plugins_call
from nri_scope.recording.display import left_out_words, runtime
from nri_scope.recording.query.stats import GapStats, ResponseTimes, Stats, Summary
from nri_scope.recording.reading.plugin_calls import MeasuredTimes, by_plugin
from nri_scope.text.escape import safe
from nri_scope.text.quantities import clock, duration, many, moment, size

from .output import table

_PODS_LISTED = 20
"""Maximum number of pods listed; JSON has all."""
_TIMES_LISTED = 20
"""Maximum number of rows of times in plugins; each connection of a chain adds a few."""


def summary_lines(statistics: Statistics, file: Path, width: int | None) -> Iterator[str]:
    """Yield the lines for a recording's statistics."""
    yield from _overview(statistics, file, width)
    stats = statistics.summary.stats
    for section in (
        _sessions(statistics.summary.sessions, width),
        _by_event(stats, width),
        _chain(statistics.chain, width),
        _by_metrics(statistics.runtime_metrics, width),
        _by_pod(stats, width),
    ):
        lines = list(section)
        if lines:
            yield from ("", *lines)


def _overview(statistics: Statistics, file: Path, width: int | None) -> Iterator[str]:
    summary = statistics.summary
    stats = summary.stats
    yield safe(f"file      {file} (recording version {summary.version})", width)
    for name, text in statistics.sender_facts:
        yield safe(f"{name:<9} {text}", width)
    made = ", made from a scenario: no runtime sent them" if summary.is_scenario else ""
    # Answers of the CRI are rows between the events, with numbers like theirs.
    answers = f"; answers of the CRI: {summary.cri_answers:,}" if summary.cri_answers else ""
    yield f"events    {_events(stats)}{made}{answers}"
    if stats.took is not None:
        yield f"replies   {_statuses(stats)}; {_responder(summary)} took {_took(stats)}"
    yield f"gaps      {_gaps(summary)}"
    if not statistics.coverage.is_whole:
        yield safe(f"coverage  {statistics.coverage.words}", width)
    ratio = "" if summary.ratio is None else f", {_few_digits(summary.ratio)} × the wire size"
    disk = f"{size(summary.file_bytes)} on disk{ratio}"
    yield f"size      {size(stats.wire_bytes)} on the wire, {disk}"


def _sessions(sessions: Sequence[Session], width: int | None) -> Iterator[str]:
    rows = [
        (
            session.id,
            session.plugin,
            runtime(session),
            moment(session.started_ns),
            "" if session.ended_ns is None else moment(session.ended_ns),
            session.end_reason,
        )
        for session in sessions
    ]
    titles = ("session", "plugin", "runtime", "started", "ended", "end reason")
    yield from table(titles, rows, width) if rows else ()


def _by_event(stats: Stats, width: int | None) -> Iterator[str]:
    rows = [
        (
            f"{entry.event}{_direction(entry.event)}",
            f"{entry.count:,}",
            f"{entry.not_ok:,}",
            *_percentiles(entry.took),
            size(entry.wire_bytes),
        )
        for entry in stats.by_event
    ]
    titles = ("event", "count", "errors", "p50", "p99", "max", "wire")
    yield from table(titles, rows, width, right=range(1, 7)) if rows else ()


def _by_metrics(measured: Sequence[MeasuredTimes], width: int | None) -> Iterator[str]:
    rows = [
        (
            times.plugin,
            f"{times.calls:,}",
            f"{times.errors:,}",
            duration(times.mean_ns),
            f"{times.recorded:,}" if times.recorded else "",
            duration(times.recorded_mean_ns) if times.recorded else "",
        )
        for times in by_plugin(measured)
    ]
    if rows:
        yield "calls by the runtime's metrics, and those recorded here"
        titles = ("plugin", "calls", "errors", "mean", "recorded", "mean")
        yield from table(titles, rows, width, right=range(1, 6))


def _by_pod(stats: Stats, width: int | None) -> Iterator[str]:
    rows = [
        (f"{entry.namespace}/{entry.pod}", f"{entry.count:,}")
        for entry in stats.by_pod[:_PODS_LISTED]
    ]
    yield from table(("pod", "count"), rows, width, right=(1,)) if rows else ()
    if len(stats.by_pod) > _PODS_LISTED:
        more = many(len(stats.by_pod) - _PODS_LISTED, "more pod")
        yield f"and {more}; --format json lists all"


def _chain(times: Sequence[TimeIn], width: int | None) -> Iterator[str]:
    """Yield a table of times in plugins, if any.

    The columns that identify a row come first, as a narrow terminal cuts off the last ones.
    """
    if not times:
        return
    yield safe(f"time in plugins{_deadlines(times)}", width)
    yield from table(
        ("plugin", "count", "p50", "p99", "max", ">50%", ">100%", "between connections"),
        [
            (
                entry.owner.place if entry.after else str(entry.owner),
                f"{entry.count:,}",
                *(duration(took) for took in (entry.took.p50, entry.took.p99, entry.took.max)),
                f"{entry.over_half:,}" if entry.deadline_ns else "",
                f"{entry.over:,}" if entry.deadline_ns else "",
                f"{entry.after}, {entry.before}" if entry.after else "",
            )
            for entry in times[:_TIMES_LISTED]
        ],
        width,
        right=range(1, 7),
    )
    if len(times) > _TIMES_LISTED:
        yield f"and {len(times) - _TIMES_LISTED:,} more; --format json lists all"


def _deadlines(times: Sequence[TimeIn]) -> str:
    """Return the deadlines as text; "" if the runtime sends none."""
    deadlines = sorted({entry.deadline_ms for entry in times if entry.deadline_ms})
    if not deadlines:
        return ""
    bounds = dict.fromkeys((deadlines[0], deadlines[-1]))
    limits = " to ".join(duration(ms * 1_000_000) for ms in bounds)
    return f" (deadline {limits}; >50% and >100% count events beyond that share of it)"


def _events(stats: Stats) -> str:
    if stats.rate is None or stats.busiest_ns is None:
        return f"{stats.count:,}"
    return (
        f"{stats.count:,} in {duration(round(stats.seconds * 1e9))}, "
        f"{_few_digits(stats.rate)} per second; "
        f"peak {stats.busiest_count:,} per second, at {clock(stats.busiest_ns)[:8]}"
    )


def _few_digits(number: float) -> str:
    """Format a number ≥ 0.01 with three significant digits, or with all its integer digits."""
    if number < 0.01:
        return "less than 0.01"
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _statuses(stats: Stats) -> str:
    parts = [f"{count:,} {status}" for status, count in stats.by_status.items() if count]
    return ", ".join(parts)


def _responder(summary: Summary) -> str:
    """Return the side that replied, as the subject of a sentence."""
    ours = {each.role in PASSIVE_ROLES for each in summary.sessions if each.role != Role.CRI}
    if ours == {False}:
        return "plugins"
    return "nri-scope and plugins" if False in ours else "nri-scope"


def _direction(event: str) -> str:
    return ", by plugins" if is_plugins_call(event, "") else ""


def _percentiles(took: ResponseTimes | None) -> tuple[str, ...]:
    return ("-",) * 3 if took is None else tuple(map(duration, (took.p50, took.p99, took.max)))


def _took(stats: Stats) -> str:
    took = stats.took
    assert took is not None
    return f"{duration(took.p50)} (median), {duration(took.p99)} (p99), {duration(took.max)} (max)"


def _gaps(summary: Summary) -> str:
    gaps = GapStats.of(summary.gaps)
    if gaps.left_out:
        part = left_out_words(gaps.left_out)
        return f"{part}; {_lost(gaps)}" if gaps.count else part
    return _lost(gaps) if gaps.count else "none"


def _lost(gaps: GapStats) -> str:
    known = f"{many(gaps.lost, 'event')} lost"
    if not gaps.unknown:
        lost = known
    elif gaps.unknown == gaps.count:
        lost = "an unknown number of events lost"
    else:
        lost = f"{known}, and an unknown number in {gaps.unknown:,} of them"
    return f"{gaps.count:,}, with {lost}; `log` shows them"
