# SPDX-License-Identifier: Apache-2.0
"""The chain of plugins in call order: calls, times against the deadline, errors, changes.

The details of a place: its slowest calls, all its times, and its changes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import ClassVar

from textual.binding import BindingType

from nri_scope.filter.tree import quote
from nri_scope.recording.display import subject
from nri_scope.recording.query.attribution_file import paths_changed_by
from nri_scope.recording.query.stats import TimeRange, distribution
from nri_scope.recording.reading.plugin_calls import plugin_calls
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.records import deadline_ms
from nri_scope.specs import label
from nri_scope.text.quantities import deadline, duration, many

from ..actions import Scope, bindings
from ..detail.summary import INDENT, fact
from ..store.rows import line_row
from ..store.store import Store
from ..text.styled_line import (
    EventLine,
    Span,
    Style,
    StyledLine,
    TableField,
    TableGrid,
    folded,
    line,
)
from ..widgets.messages import OpenEvent, RowChosen, SetFilter
from ..widgets.table_board import TableBoard
from .chain_places import ChainPlace, ChainPlaceKind, PlaceCounts, chain_places, current_call_counts

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
    counts: PlaceCounts
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
        sample = self.counts.sample(place.name, place.ends)
        yield from self._counts(recording, sum(map(len, sample.times)))
        if sample.slowest:
            yield ()
            yield from _slowest(recording, sample.slowest)
        ranges = distribution(sample.times)
        if ranges:
            yield ()
            yield from _plot(ranges, place.timing.deadline_ns if place.timing else 0, width)
        if place.owner:
            yield ()
            yield from self._changes(recording)

    def _counts(self, recording: Recording, measured_times: int) -> Iterator[StyledLine]:
        place, timing = self.place, self.place.timing
        if place.calls is not None:
            problems = f", {place.problems:,} not ok" if place.problems is not None else ""
            yield fact("calls", f"{place.calls:,}{problems}")
        if timing is not None:
            took, deadline_ns = timing.took, timing.deadline_ns
            limit = f"; deadline {deadline(deadline_ns)}" if deadline_ns else ""
            times = f"p50 {duration(took.p50)}, p99 {duration(took.p99)}, max {duration(took.max)}"
            yield fact("times", f"{times} of {many(measured_times, 'event')}{limit}")
        else:
            words = "not known: its requests and replies were not recorded"
            if place.kind is ChainPlaceKind.SCENARIO:
                words = "not measured: the events are those of a scenario"
            yield fact("times", (words, Style.DIM))
        measured = [each.counts for each in plugin_calls(recording) if each.plugin == place.name]
        calls = sum(each.calls for each in measured)
        if calls and not self.counts.is_narrowed:
            mean = duration(sum(each.took_ns for each in measured) // calls)
            errors = sum(each.errors for each in measured)
            text = f"{many(calls, 'call')}, mean {mean}, {many(errors, 'error')}"
            yield fact("runtime", text, ("  by the runtime's own metrics", Style.DIM))

    def _changes(self, recording: Recording) -> Iterator[StyledLine]:
        analysis, key = self.store.analysis, "changes"
        changes = paths_changed_by(
            recording, self.place.owner, _PATHS, self.counts.where, self.counts.about
        )
        state = ""
        if analysis.problem:
            state = f"not all events were analysed: {analysis.problem}"
        elif analysis.share is None:
            state = "not known: the recording is not analysed"
        elif not analysis.passes:
            state = "the recording is being analysed: more changes may follow"
        elif changes is not None and changes.until < self.store.all.looked_at:
            state = f"up to event {changes.until}: later events are not analysed yet"
        if state:
            yield fact(key, (state, Style.WARN))
            key = ""
        is_change = True
        for change in changes.paths if changes is not None else ():
            if change.is_change != is_change:
                is_change, key = change.is_change, "other asked"
            yield EventLine(
                fact(
                    key,
                    f"{change.events:>6,}×  ",
                    (label(change.path), Style.WARN),
                    (f"  newest #{change.newest}", Style.DIM),
                ),
                change.newest,
            )
            key = ""
        if changes is not None and changes.total > len(changes.paths):
            yield fact("", f"… {many(changes.total - len(changes.paths), 'more path')}")
        if changes is not None and not changes.paths:
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
    most = max(row.times for row in ranges)
    figures = max(len(f"{row.times:,}") for row in ranges)
    labels = [f"{_bound(row.from_ns)}–{_bound(row.to_ns)}" for row in ranges]
    room = max(map(len, labels))
    longest = max(4, min(_BAR_MAX, width - INDENT - room - figures - len("  < deadline 2.00s ")))
    key = "answers"
    for row, name in zip(ranges, labels, strict=True):
        halves = 2 * longest * row.times // most
        bar = _BAR * (halves // 2) + _HALF_BAR * (halves % 2) or _HALF_BAR * bool(row.times)
        has_deadline = row.from_ns <= deadline_ns < (row.to_ns or deadline_ns + 1) and deadline_ns
        is_late = deadline_ns and row.from_ns >= deadline_ns
        style = Style.BAD if is_late else Style.KEY
        mark = f"  < deadline {deadline(deadline_ns)}" if has_deadline else ""
        yield fact(
            key, f"{name:>{room}}  {row.times:>{figures},} ", (bar, style), (mark, Style.WARN)
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


FIELDS = (
    TableField("Plugin", 18, grows=True, most=40),
    TableField("", 7, rank=5),
    TableField("Calls", 9, right=True),
    TableField("p50", 6, right=True, rank=1),
    TableField("p99", 6, right=True),
    TableField("Max", 6, right=True),
    TableField("Of", 5, right=True, rank=2),
    TableField("Max/of", 6, right=True, rank=3),
    TableField(">50%", 6, right=True, rank=4),
    TableField("Errors", 6, right=True),
    TableField("Changes", 7, right=True),
)
_BETWEEN = "  ↕ "
"""Prefix of lines for `ChainPlaceKind.BETWEEN`."""


def place_line(place: ChainPlace, grid: TableGrid) -> StyledLine:
    """Format a place as a line of `FIELDS`; unknown counts are ``?``."""
    is_dim = place.kind not in (ChainPlaceKind.PLUGIN, ChainPlaceKind.OWNER)
    style = Style.DIM if is_dim else Style.PLAIN
    timing = place.timing
    took = timing.took if timing is not None else None
    ms = deadline_ms(timing.deadline_ns) if timing is not None else None
    used = timing.used if timing is not None else None
    over_half = timing.over_half if timing is not None else 0
    return grid.line(
        (
            Span(
                f"{_BETWEEN}{place.name}" if place.kind is ChainPlaceKind.BETWEEN else place.name,
                style,
            ),
            Span(place.kind, Style.DIM),
            Span(_count(place.calls)),
            *(
                Span("" if took is None else duration(ns))
                for ns in ((took.p50, took.p99, took.max) if took is not None else (0, 0, 0))
            ),
            Span(duration(ms * 1_000_000) if ms else "", Style.DIM),
            Span(_percent(used), _used_style(used)),
            Span(_count(over_half) if used is not None else "", _warn_style(over_half)),
            Span(_count(place.problems), Style.BAD if place.problems else Style.PLAIN),
            Span(_count(place.changes), Style.NOTE if place.changes else Style.PLAIN),
        )
    )


def place_title(place: ChainPlace) -> str:
    """Return the name of a place, with its ends if it is between two connections."""
    after, before = place.ends
    return f"{place.name} (between {after} and {before})" if after else place.name


def place_words(place: ChainPlace) -> str:
    """Describe how the times of a place were observed."""
    match place.kind:
        case ChainPlaceKind.PASSIVE:
            return "passive connection of nri-scope; times are its own reply times"
        case ChainPlaceKind.SCENARIO:
            return "made from a scenario; no runtime and no plugin took part"
        case ChainPlaceKind.BETWEEN:
            return "between {} and {}; times include the runtime".format(*place.ends)
        case ChainPlaceKind.OWNER:
            return "known only from its changes; its reply times were not observed"
    return "observed directly; times are from request to reply"


def _count(count: int | None) -> str:
    return "?" if count is None else f"{count:,}"


def _percent(used: float | None) -> str:
    if used is None:
        return ""
    return "<1 %" if 0 < used < 0.01 else f"{used:,.0%}".replace("%", " %")


def _used_style(used: float | None) -> Style:
    if used is None or used <= 0.5:
        return Style.PLAIN
    return Style.BAD if used > 1 else Style.WARN


def _warn_style(count: int) -> Style:
    return Style.WARN if count else Style.PLAIN


_PAUSE_FACTOR = 10
"""Pause before sorting all times again, as a multiple of the time that sorting took."""


class PluginBoard(TableBoard[ChainPlace]):
    """The chain of plugins. Enter filters by events of a connection, or by changes of a plugin.

    Between two connections, it goes to the slowest event.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.PLUGINS, of_lines=False)
    FIELDS = FIELDS

    def on_mount(self) -> None:
        """Start empty. Textual also calls `TableBoard.on_mount`."""
        self._counts: PlaceCounts | None = None
        self._counted = -1
        self._next_sort_s = 0.0

    def entry_line(self, entry: ChainPlace) -> StyledLine:
        """Return the line of a place."""
        if not (entry.changes or self.store.analysis.passes):
            # Only the survey shows what became of requests.
            entry = replace(entry, changes=None)
        return place_line(entry, self.grid)

    def key_of(self, entry: ChainPlace) -> Hashable:
        """Return the identity of a place."""
        return entry.kind, entry.name, entry.ends

    async def work(self) -> None:
        """Count new events, and update the chain after a pause."""
        counts = current_call_counts(self)
        if counts is not self._counts:
            self._counts, self._counted, self._next_sort_s = counts, -1, 0.0
            self.refresh_remarks()
        if await self._count(counts):
            return
        known = counts.scan.newest + len(counts.sessions)
        if known == self._counted:
            return
        if monotonic() < self._next_sort_s:
            self.set_timer(max(0.1, self._next_sort_s - monotonic()), self.update)
            return
        began = monotonic()
        found = await self.store.run(lambda _: chain_places(counts))
        now = monotonic()
        self._next_sort_s = now + _PAUSE_FACTOR * (now - began)
        self._counted = known
        self.show_entries(found, self.store.facts.coverage.limited(self._empty()))

    async def _count(self, counts: PlaceCounts) -> bool:
        """Count all new events; return True if the counts are outdated."""
        while await self.store.run(counts.step):
            if current_call_counts(self) is not counts:
                await self.update()
                return True
            self.show_progress(
                self.progress_text(min(counts.scan.newest, counts.in_rounds or counts.scan.newest))
            )
        if counts.scan.outdated:
            await self.update()
        elif not self.store.facts.growing:
            counts.finish()
        return counts.scan.outdated

    def _empty(self) -> str:
        if self._counts is not None and self._counts.is_narrowed:
            return "no plugin received any of the shown events"
        if self.store.facts.growing:
            return (
                "no plugin connection yet: the first appears when the runtime configures a plugin"
            )
        return "this recording has no plugin connections"

    @property
    def selected_event_id(self) -> int | None:
        """First event of the newest session of the connection, or the slowest between two."""
        entry = self.entry
        return (entry.slowest or entry.first_event or None) if entry is not None else None

    def remarks(self) -> Sequence[StyledLine]:
        """Describe the place and the restriction of counted events."""
        limits = (self.restriction_note(), self.store.facts.coverage.words)
        note = line("; ".join(filter(None, limits)))
        entry = self.entry
        if entry is None:
            return (note,)
        return line(f"{entry.name}: {place_words(entry)}"), note

    def report_row(self) -> None:
        """Report the place under the cursor if this view is shown."""
        entry, counts = self.entry, self._counts
        if not self.display:
            return
        row = None
        if entry is not None and counts is not None:
            words, title = place_words(entry), place_title(entry)
            row = line_row(title, summary=PlaceSummary(entry, words, counts, self.store))
        self.post_message(RowChosen(row))

    def open_line(self) -> None:
        """Go to the slowest event, or filter by events of a connection or a plugin's changes."""
        place = self.entry
        if place is not None and place.slowest:
            self.post_message(OpenEvent(place.slowest))
        else:
            self.action_filter_by()

    def action_filter_by(self) -> None:
        """Show only the changes of the plugin, or the events of a connection without any."""
        place = self.entry
        if place is not None:
            is_range = place.kind is ChainPlaceKind.BETWEEN
            field = "owner" if place.changes or not place.first_event else "plugin"
            name = f"one of {place.name}" if is_range else place.name
            self.post_message(SetFilter(f"{field}:{quote(name)}"))
