# SPDX-License-Identifier: Apache-2.0
"""The chain of plugins in call order: calls, times against the deadline, errors, changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import BindingType

from nri_scope.events import Role, Session
from nri_scope.filter.tree import quote
from nri_scope.recording.display import duration
from nri_scope.recording.records import deadline_ms
from nri_scope.recording.stats import ResponseTimes

from ..actions import Scope, bindings
from ..text.styled_line import Span, Style, StyledLine, TableField, TableGrid, line
from ..widgets.messages import OpenEvent, SetFilter
from ..widgets.table_board import TableBoard
from .call_counts import CallCounts, SessionCounts, call_counts_of

if TYPE_CHECKING:
    from nri_scope.differ.latency import TimeIn


class ChainPlaceKind(StrEnum):
    """The kind of a line of the chain."""

    PLUGIN = "plugin"
    """A plugin whose traffic was observed."""
    PASSIVE = "passive"
    """A passive connection of nri-scope: times are its own reply times."""
    BETWEEN = "between"
    """The plugins between two observed connections, and the runtime."""
    OWNER = "owner"
    """A plugin known only as the owner of changes."""


@dataclass(frozen=True, slots=True)
class ChainPlace:
    """One place in the chain."""

    kind: ChainPlaceKind
    name: str
    """``NN-name``; between two connections, the possible indices."""
    calls: int | None
    """Number of calls; None if unknown."""
    took: ResponseTimes | None
    deadline_ns: int
    """Shortest deadline; 0 if there was none."""
    over_half: int
    problems: int | None
    changes: int | None
    """Number of events in which it changed something; None if unknown."""
    between: str = ""
    """The connections before and after it, for `BETWEEN`."""
    session: int = 0
    """Its newest session; 0 if there is none."""
    first_event: int = 0
    """First event of its newest session; 0 if there is none."""
    slowest: int = 0
    """Event that took longest, for `BETWEEN`."""


def places(tally: CallCounts) -> tuple[ChainPlace, ...]:
    """Return the chain, in call order. Sorts all times, which may take long.

    For a restricted tally, return only places with counted events.
    """
    by_plugin: dict[str, list[Session]] = {}
    for session in tally.sessions:
        if session.role != Role.CRI:
            by_plugin.setdefault(session.plugin, []).append(session)
    times = tally.times()
    times_in = {str(time.owner): time for time in times if not time.after}
    changes = _changes_by_owner(tally)
    found: list[tuple[tuple[str, int, str], ChainPlace]] = []
    for plugin, sessions in by_plugin.items():
        place = _connection(plugin, sessions, tally, times_in.get(plugin), changes)
        found.append(((plugin, 0, ""), place))
    for time in times:
        if time.after:
            found.append(((time.after, 1, time.before), _between(time)))
    for plugin, count in changes.items():
        if plugin not in by_plugin:
            place = ChainPlace(ChainPlaceKind.OWNER, plugin, None, None, 0, 0, None, count)
            found.append(((plugin, 0, ""), place))
    chain = (place for _, place in sorted(found, key=lambda entry: entry[0]))
    return tuple(place for place in chain if not tally.is_narrowed or place.calls or place.changes)


def _changes_by_owner(tally: CallCounts) -> Counter[str]:
    """Count changes by owner, as shown by the requests of other connections."""
    plugins = {session.id: session.plugin for session in tally.sessions}
    found: Counter[str] = Counter()
    for session, counts in list(tally.counts.items()):
        for owner, count in list(counts.changes.items()):
            if owner != plugins.get(session):
                found[owner] += count
    return found


def _connection(
    plugin: str,
    sessions: Sequence[Session],
    tally: CallCounts,
    time_in: TimeIn | None,
    changes: Counter[str],
) -> ChainPlace:
    counts = [tally.counts.get(session.id, SessionCounts()) for session in sessions]
    is_passive = all(session.role in (Role.LOGGER, Role.PROBE) for session in sessions)
    deadlines = [one.deadline_ns for one in counts if one.deadline_ns]
    own = sum(one.changes[plugin] for one in counts)
    newest = max(sessions, key=lambda session: session.id)
    return ChainPlace(
        ChainPlaceKind.PASSIVE if is_passive else ChainPlaceKind.PLUGIN,
        plugin,
        sum(one.calls for one in counts),
        # A plugin's time is measured in the chain, as in `stats`.
        time_in.took if time_in is not None else tally.took(counts),
        time_in.deadline_ns if time_in is not None else min(deadlines, default=0),
        time_in.over_half if time_in is not None else sum(one.over_half for one in counts),
        sum(one.problems for one in counts),
        own or changes[plugin],
        session=newest.id,
        first_event=tally.counts.get(newest.id, SessionCounts()).first_event,
    )


def _between(time: TimeIn) -> ChainPlace:
    return ChainPlace(
        ChainPlaceKind.BETWEEN,
        time.owner.place or str(time.owner),
        time.count,
        time.took,
        time.deadline_ns,
        time.over_half,
        None,
        None,
        between=f"between {time.after} and {time.before}",
        slowest=time.slowest,
    )


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
    style = {ChainPlaceKind.PASSIVE: Style.DIM, ChainPlaceKind.BETWEEN: Style.DIM}.get(
        place.kind, Style.PLAIN
    )
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


def place_words(place: ChainPlace) -> str:
    """Describe a place in one line."""
    match place.kind:
        case ChainPlaceKind.PASSIVE:
            return f"{place.name}: passive connection of nri-scope; times are its own reply times"
        case ChainPlaceKind.BETWEEN:
            return f"{place.name}: {place.between}; times include the runtime"
        case ChainPlaceKind.OWNER:
            return f"{place.name}: known only from its changes; its reply times were not observed"
    return f"{place.name}: observed directly; times are from request to reply"


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
        return entry.kind, entry.name, entry.between

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
        return (line(place_words(self.entry)), note) if self.entry is not None else (note,)

    def open_line(self) -> None:
        """Go to the slowest event, or filter by events of a connection or a plugin's changes."""
        place = self.entry
        if place is not None and place.slowest:
            self.post_message(OpenEvent(place.slowest))
        elif place is not None and (place.first_event or place.changes):
            field = "plugin" if place.first_event else "owner"
            self.post_message(SetFilter(f"{field}:{quote(place.name)}"))
