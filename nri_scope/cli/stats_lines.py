# SPDX-License-Identifier: Apache-2.0
"""Lines of a recording's statistics, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from nri_scope.differ.latency import TimeIn
from nri_scope.events import PASSIVE_ROLES, Role
from nri_scope.nri.request_subject import is_plugins_call
from nri_scope.recording.display import clock, duration, left_out_words, many, moment, runtime, size
from nri_scope.recording.plugin_calls import MeasuredTimes, by_plugin
from nri_scope.recording.stats import GapStats, ResponseTimes, Stats, Summary
from nri_scope.text.escape import safe

from .output import table

_PODS_LISTED = 20
"""Maximum number of pods listed; JSON has all."""
_TIMES_LISTED = 20
"""Maximum number of rows of times in plugins; each connection of a chain adds a few."""


def summary_lines(
    found: Summary,
    times: Sequence[TimeIn],
    measured: Sequence[MeasuredTimes],
    file: Path,
    width: int | None,
) -> Iterator[str]:
    """Yield the lines for a recording's statistics."""
    stats = found.stats
    yield safe(f"file      {file} (recording version {found.version})", width)
    made = ", made from a scenario: no runtime sent them" if found.is_scenario else ""
    # They are rows between the events, with numbers like theirs.
    answers = f"; answers of the CRI: {found.cri_answers:,}" if found.cri_answers else ""
    yield f"events    {_events(stats)}{made}{answers}"
    if stats.took is not None:
        yield f"replies   {_statuses(stats)}; {_responder(found)} took {_took(stats)}"
    yield f"gaps      {_gaps(found)}"
    ratio = "" if found.ratio is None else f", {_few_digits(found.ratio)} × the wire size"
    yield f"size      {size(stats.wire_bytes)} on the wire, {size(found.file_bytes)} on disk{ratio}"
    if found.sessions:
        yield ""
        yield from table(
            ("session", "plugin", "runtime", "started", "ended", "end reason"),
            [
                (
                    session.id,
                    session.plugin,
                    runtime(session),
                    moment(session.started_ns),
                    "" if session.ended_ns is None else moment(session.ended_ns),
                    session.end_reason,
                )
                for session in found.sessions
            ],
            width,
        )
    if stats.by_event:
        yield ""
        yield from table(
            ("event", "count", "errors", "p50", "p99", "max", "wire"),
            [
                (
                    f"{entry.event}{_direction(entry.event)}",
                    f"{entry.count:,}",
                    f"{entry.not_ok:,}",
                    *_percentiles(entry.took),
                    size(entry.wire_bytes),
                )
                for entry in stats.by_event
            ],
            width,
            right=range(1, 7),
        )
    if times:
        yield ""
        yield from _chain(times, width)
    if measured:
        yield ""
        yield "calls by the runtime's metrics, and those recorded here"
        yield from table(
            ("plugin", "calls", "errors", "mean", "recorded", "mean"),
            [
                (
                    one.plugin,
                    f"{one.calls:,}",
                    f"{one.errors:,}",
                    duration(one.mean_ns),
                    f"{one.recorded:,}" if one.recorded else "",
                    duration(one.recorded_mean_ns) if one.recorded else "",
                )
                for one in by_plugin(measured)
            ],
            width,
            right=range(1, 6),
        )
    if stats.by_pod:
        yield ""
        yield from table(
            ("pod", "count"),
            [
                (f"{entry.namespace}/{entry.pod}", f"{entry.count:,}")
                for entry in stats.by_pod[:_PODS_LISTED]
            ],
            width,
            right=(1,),
        )
        if len(stats.by_pod) > _PODS_LISTED:
            more = many(len(stats.by_pod) - _PODS_LISTED, "more pod")
            yield f"and {more}; --format json lists all"


def _chain(times: Sequence[TimeIn], width: int | None) -> Iterator[str]:
    """Yield a table of times in plugins.

    The columns that identify a row come first, as a narrow terminal cuts off the last ones.
    """
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


def _responder(found: Summary) -> str:
    """Return the side that replied, as the subject of a sentence."""
    ours = {one.role in PASSIVE_ROLES for one in found.sessions if one.role != Role.CRI}
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


def _gaps(found: Summary) -> str:
    gaps = GapStats.of(found.gaps)
    if gaps.left_out:
        part = left_out_words(gaps.left_out)
        return f"{part}; {_lost(gaps)}" if gaps.count else part
    return _lost(gaps) if gaps.count else "none"


def _lost(gaps: GapStats) -> str:
    known = f"{gaps.lost:,} event{'' if gaps.lost == 1 else 's'} lost"
    if not gaps.unknown:
        lost = known
    elif gaps.unknown == gaps.count:
        lost = "an unknown number of events lost"
    else:
        lost = f"{known}, and an unknown number in {gaps.unknown:,} of them"
    return f"{gaps.count:,}, with {lost}; `log` shows them"
