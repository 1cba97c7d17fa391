# SPDX-License-Identifier: Apache-2.0
"""The chain of plugins in call order: calls, times against the deadline, errors, changes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from time import monotonic
from typing import Any, ClassVar

from textual.binding import BindingType

from nri_scope.filter.tree import quote
from nri_scope.recording.display import duration
from nri_scope.recording.records import deadline_ms

from ..actions import Scope, bindings
from ..store.rows import line_row
from ..text.styled_line import Span, Style, StyledLine, TableField, TableGrid, line
from ..widgets.messages import OpenEvent, RowChosen, SetFilter
from ..widgets.table_board import TableBoard
from .call_counts import CallCounts, call_counts_of
from .chain_places import ChainPlace, ChainPlaceKind, places
from .place_summary import PlaceSummary

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
"""Prefix of lines for `BETWEEN`."""


def place_line(place: ChainPlace, grid: TableGrid) -> StyledLine:
    """Format a place as a line of `FIELDS`; unknown counts are ``?``."""
    is_dim = place.kind not in (ChainPlaceKind.PLUGIN, ChainPlaceKind.OWNER)
    style = Style.DIM if is_dim else Style.PLAIN
    took = place.took
    ms = deadline_ms(place.deadline_ns)
    used = None if took is None or not place.deadline_ns else took.max / place.deadline_ns
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
            Span(_count(place.over_half) if used is not None else "", _warn_style(place.over_half)),
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
        self._tally: CallCounts | None = None
        self._counted = -1
        self._next_sort_s = 0.0

    def entry_line(self, entry: ChainPlace) -> StyledLine:
        """Return the line of a place."""
        return place_line(entry, self.grid)

    def key_of(self, entry: ChainPlace) -> Hashable:
        """Return the identity of a place."""
        return entry.kind, entry.name, entry.ends

    def sort_values(self, entry: ChainPlace) -> Sequence[Any]:
        """Return the value of each field."""
        took = entry.took
        times = (None,) * 3 if took is None else (took.p50, took.p99, took.max)
        used = None if took is None or not entry.deadline_ns else took.max / entry.deadline_ns
        return (
            *(entry.name, entry.kind, entry.calls, *times, entry.deadline_ns or None, used),
            *(entry.over_half, entry.problems, entry.changes),
        )

    async def work(self) -> None:
        """Count new events, and update the chain after a pause."""
        tally = self._current_tally()
        if tally is not self._tally:
            self._tally, self._counted, self._next_sort_s = tally, -1, 0.0
            self.refresh_remarks()
        if await self._count(tally):
            return
        known = tally.newest + len(tally.sessions)
        if known == self._counted:
            return
        if monotonic() < self._next_sort_s:
            self.set_timer(max(0.1, self._next_sort_s - monotonic()), self.update)
            return
        began = monotonic()
        found = await self.store.run(lambda _: places(tally))
        now = monotonic()
        self._next_sort_s = now + _PAUSE_FACTOR * (now - began)
        self._counted = known
        self.show_entries(found, self._empty())

    def _current_tally(self) -> CallCounts:
        return call_counts_of(self.store, self.context.shown(), self.context.about)

    async def _count(self, tally: CallCounts) -> bool:
        """Count all new events; return True if the counts are outdated."""
        while await self.store.run(tally.step):
            if self._current_tally() is not tally:
                await self.update()
                return True
            self.show_progress(
                self.progress_text(min(tally.newest, tally.in_rounds or tally.newest))
            )
        if tally.outdated:
            await self.update()
        elif not self.store.facts.growing:
            tally.finish()
        return tally.outdated

    def _empty(self) -> str:
        if self._tally is not None and self._tally.is_narrowed:
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
        note = line(self.restriction_note())
        entry = self.entry
        if entry is None:
            return (note,)
        return line(f"{entry.name}: {place_words(entry)}"), note

    def report_row(self) -> None:
        """Report the place under the cursor if this view is shown."""
        entry, tally = self.entry, self._tally
        if not self.display:
            return
        row = None
        if entry is not None and tally is not None:
            words, title = place_words(entry), place_title(entry)
            row = line_row(title, summary=PlaceSummary(entry, words, tally, self.store))
        self.post_message(RowChosen(row))

    def open_line(self) -> None:
        """Go to the slowest event, or filter by events of a connection or a plugin's changes."""
        place = self.entry
        if place is not None and place.slowest:
            self.post_message(OpenEvent(place.slowest))
        elif place is not None and (place.first_event or place.changes):
            field = "plugin" if place.first_event else "owner"
            self.post_message(SetFilter(f"{field}:{quote(place.name)}"))
