# SPDX-License-Identifier: Apache-2.0
"""The details of a place in the chain: its slowest calls, all its times, and its changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from nri_scope.recording.attribution_file import paths_changed_by
from nri_scope.recording.display import deadline, duration, many, subject
from nri_scope.recording.plugin_calls import plugin_calls
from nri_scope.recording.reader import Recording
from nri_scope.recording.stats import TimeRange, distribution
from nri_scope.specs import label

from ..detail.summary import INDENT, fact
from ..store.store import Store
from ..text.styled_line import EventLine, Style, StyledLine
from ..text.wrapping import folded
from .call_counts import CallCounts
from .chain_places import ChainPlace, ChainPlaceKind

_PATHS = 100
"""Maximum number of changed paths listed."""
_BAR = "█"
_HALF_BAR = "▌"
"""Both blocks exist in the fonts of all terminals, also of Linux consoles."""
_BAR_MAX = 40
"""Maximum columns of a bar."""


@dataclass(frozen=True, slots=True)
class PlaceSummary:
    """Reader of the details. Two of them are equal if they describe the same numbers."""

    place: ChainPlace
    remark: str
    """How its times were observed."""
    tally: CallCounts
    """The counts of which ``place`` is a part."""
    store: Store = field(compare=False)

    def __call__(self, recording: Recording, width: int) -> Iterator[StyledLine]:
        """Yield lines for a width. Takes 0.2 s for 1,000,000 times. Raises RecordingError."""
        place = self.place
        yield from folded(
            fact("plugin", (place.name, Style.STRONG), (f": {self.remark}", Style.DIM)),
            width,
            INDENT,
        )
        sample = self.tally.sample(place.name, place.ends)
        yield from self._counts(recording, sum(map(len, sample.times)))
        if sample.slowest:
            yield ()
            yield from _slowest(recording, sample.slowest)
        ranges = distribution(sample.times)
        if ranges:
            yield ()
            yield from _plot(ranges, place.deadline_ns, width)
        if place.owner:
            yield ()
            yield from self._changes(recording)

    def _counts(self, recording: Recording, measured_times: int) -> Iterator[StyledLine]:
        place, took = self.place, self.place.took
        if place.calls is not None:
            problems = f", {place.problems:,} not ok" if place.problems is not None else ""
            yield fact("calls", f"{place.calls:,}{problems}")
        if took is not None:
            limit = f"; deadline {deadline(place.deadline_ns)}" if place.deadline_ns else ""
            times = f"p50 {duration(took.p50)}, p99 {duration(took.p99)}, max {duration(took.max)}"
            yield fact("times", f"{times} of {many(measured_times, 'event')}{limit}")
        else:
            words = "not known: its requests and replies were not recorded"
            if place.kind is ChainPlaceKind.SCENARIO:
                words = "not measured: the events are those of a scenario"
            yield fact("times", (words, Style.DIM))
        measured = [one.counts for one in plugin_calls(recording) if one.plugin == place.name]
        calls = sum(one.calls for one in measured)
        if calls and not self.tally.is_narrowed:
            mean = duration(sum(one.took_ns for one in measured) // calls)
            errors = sum(one.errors for one in measured)
            text = f"{many(calls, 'call')}, mean {mean}, {many(errors, 'error')}"
            yield fact("runtime", text, ("  by the runtime's own metrics", Style.DIM))

    def _changes(self, recording: Recording) -> Iterator[StyledLine]:
        analysis, key = self.store.analysis, "changes"
        found = paths_changed_by(
            recording, self.place.owner, _PATHS, self.tally.where, self.tally.about
        )
        state = ""
        if analysis.problem:
            state = f"not all events were analysed: {analysis.problem}"
        elif analysis.share is None:
            state = "not known: the recording is not analysed"
        elif not analysis.passes:
            state = "the recording is being analysed: more changes may follow"
        elif found is not None and found.until < self.store.all.looked_at:
            state = f"up to event {found.until}: later events are not analysed yet"
        if state:
            yield fact(key, (state, Style.WARN))
            key = ""
        for one in found.paths if found is not None else ():
            yield EventLine(
                fact(
                    key,
                    f"{one.events:>6,}×  ",
                    (label(one.path), Style.WARN),
                    (f"  newest #{one.newest}", Style.DIM),
                ),
                one.newest,
            )
            key = ""
        if found is not None and found.total > len(found.paths):
            yield fact("", f"… {many(found.total - len(found.paths), 'more path')}")
        if found is not None and not found.paths:
            others = ", besides those of plugins with a row of their own"
            is_range = self.place.kind is ChainPlaceKind.BETWEEN
            yield fact(key, (f"none{others if is_range else ''}", Style.DIM))


def _slowest(recording: Recording, slowest: Sequence[tuple[int, int]]) -> Iterator[StyledLine]:
    key = "slowest"
    for ns, number in slowest:
        event = recording.event(number)
        if event is None:
            continue
        share = ""
        if event.timeout_ns > 0:
            share = f"{_share(ns / event.timeout_ns)} of {deadline(event.timeout_ns)}"
        is_slow = event.timeout_ns > 0 and 2 * ns > event.timeout_ns
        took = f"{duration(ns):>7} {share:>17}  "
        yield EventLine(
            fact(
                key,
                (took, Style.BAD if is_slow else Style.PLAIN),
                f"#{number} {event.event}",
                (f"  {subject(event)}", Style.DIM),
            ),
            number,
        )
        key = ""


def _plot(ranges: Sequence[TimeRange], deadline_ns: int, width: int) -> Iterator[StyledLine]:
    """Yield a bar for each range of times, and mark the one with the deadline."""
    most = max(one.times for one in ranges)
    figures = max(len(f"{one.times:,}") for one in ranges)
    labels = [f"{_bound(one.from_ns)}–{_bound(one.to_ns)}" for one in ranges]
    room = max(map(len, labels))
    longest = max(4, min(_BAR_MAX, width - INDENT - room - figures - len("  < deadline 2.00s ")))
    key = "answers"
    for one, name in zip(ranges, labels, strict=True):
        halves = 2 * longest * one.times // most
        bar = _BAR * (halves // 2) + _HALF_BAR * (halves % 2) or _HALF_BAR * bool(one.times)
        has_deadline = one.from_ns <= deadline_ns < (one.to_ns or deadline_ns + 1) and deadline_ns
        is_late = deadline_ns and one.from_ns >= deadline_ns
        style = Style.BAD if is_late else Style.KEY
        mark = f"  < deadline {deadline(deadline_ns)}" if has_deadline else ""
        yield fact(
            key, f"{name:>{room}}  {one.times:>{figures},} ", (bar, style), (mark, Style.WARN)
        )
        key = ""


def _share(part: float) -> str:
    return f"{part:.1%}".replace("%", " %") if part >= 0.001 else "<0.1 %"


def _bound(ns: int | None) -> str:
    """Format a bound, which is 1, 2 or 5 times a power of ten: ``500µs``, ``2ms``, ``10s``."""
    if ns is None:
        return "…"
    for size, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "µs")):
        if ns >= size:
            return f"{ns // size}{unit}"
    return "0"
