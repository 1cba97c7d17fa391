# SPDX-License-Identifier: Apache-2.0
"""The view of sessions by runtime, with reconnects, end reasons and gaps."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import BindingType

from nri_scope.entries import Began
from nri_scope.events import Gap, Session
from nri_scope.nri.events import events_in
from nri_scope.recording.display import runtime
from nri_scope.text.quantities import clock, day, duration, many

from ..actions import Scope, bindings
from ..store.markers import EntryMarker
from ..store.rows import NO_KEY, ListRow, line_row, marker_row
from ..text.styled_line import Span, Style, StyledLine, TableField, TableGrid, cut, line
from ..widgets.messages import OpenEvent, OpenTime, StatusText
from ..widgets.table_board import TableBoard
from .chain_places import SessionCounts, current_call_counts


@dataclass(frozen=True, slots=True)
class RuntimeRow:
    """Heading of the following sessions: their runtime and day."""

    text: str
    day: str


@dataclass(frozen=True, slots=True)
class ConnectionRow:
    """A session, with its counts and the previous session of its plugin."""

    session: Session
    counts: SessionCounts
    before: Session | None
    """The previous session of the same plugin if it had ended: this session is a reconnect."""

    @property
    def away_ns(self) -> int | None:
        """Time for which the plugin was disconnected before, in ns; None if not known to be."""
        if self.before is None or self.before.ended_ns is None:
            return None
        return max(0, self.session.started_ns - self.before.ended_ns)


Entry = RuntimeRow | ConnectionRow | Gap


def entries(
    sessions: Sequence[Session],
    gaps: Iterable[Gap],
    counts: Mapping[int, SessionCounts],
    *,
    counted_only: bool = False,
) -> tuple[Entry, ...]:
    """Return sessions and gaps by start time, with headings of their runtimes.

    ``counted_only``: omit sessions without counted events.
    """
    rows: list[Entry] = []
    latest: dict[tuple[str, str], Session] = {}
    current: RuntimeRow | None = None
    waiting = sorted(gaps, key=lambda gap: (gap.from_ns, gap.id), reverse=True)
    for session in sorted(sessions, key=lambda session: (session.started_ns, session.id)):
        while waiting and waiting[-1].from_ns < session.started_ns:
            rows.append(waiting.pop())
        plugin = (session.role, session.plugin)
        before = latest.get(plugin)
        if before is not None and (before.ended_ns or before.started_ns) > session.started_ns:
            before = None
        latest[plugin] = session
        if counted_only and session.id not in counts:
            continue
        here = RuntimeRow(runtime(session), day(session.started_ns))
        if here != current:
            rows.append(here)
            current = here
        rows.append(ConnectionRow(session, counts.get(session.id, SessionCounts()), before))
    rows += reversed(waiting)
    return tuple(rows)


FIELDS = (
    TableField("Session", 8, right=True),
    TableField("Plugin", 15, grows=True, most=30),
    TableField("Role", 8, rank=4),
    TableField("Started", 8),
    TableField("Duration", 8, right=True, rank=1),
    TableField("Events", 9, right=True),
    TableField("Errors", 6, right=True, rank=3),
    TableField("End reason", 24, grows=True),
)


def entry_line(entry: Entry, grid: TableGrid, now_ns: int, *, growing: bool) -> StyledLine:
    """Format an entry as a line. ``now_ns``: end of the recorded time.

    ``growing``: the recording is being written, so that open sessions continue.
    """
    match entry:
        case RuntimeRow(text, day_of_it):
            return cut((Span(text, Style.STRONG), Span(f"  {day_of_it}", Style.DIM)), grid.width)
        case Gap():
            lasted = duration(max(0, entry.to_ns - entry.from_ns))
            name = "left out" if entry.is_left_out else "gap"
            text = f"        ░ {name} {clock(entry.from_ns)[:8]} for {lasted}: {gap_words(entry)}"
            return cut((Span(text, Style.WARN),), grid.width)
        case ConnectionRow(session, counts, _):
            ended_ns = now_ns if session.ended_ns is None else session.ended_ns
            lasted = duration(max(0, ended_ns - session.started_ns))
            return grid.line(
                (
                    Span(str(session.id), Style.KEY),
                    Span(session.plugin),
                    Span(session.role, Style.DIM),
                    Span(clock(session.started_ns)[:8]),
                    Span(lasted if session.ended_ns is not None or growing else "?"),
                    Span(f"{counts.calls:,}"),
                    Span(
                        f"{counts.problems:,}", Style.BAD if counts.problems else Style.PLAIN
                    ),
                    end_words(entry, growing=growing),
                )
            )  # fmt: skip


def end_words(entry: ConnectionRow, *, growing: bool) -> Span:
    """Describe the end of a session, or that it is open, and whether it was a reconnect."""
    again = "" if entry.before is None else "reconnected"
    if entry.away_ns is not None:
        again = f"reconnected after {duration(entry.away_ns)}"
    session = entry.session
    if session.ended_ns is not None:
        text, style = session.end_reason or "ended, for an unknown reason", Style.PLAIN
    elif growing:
        text, style = "connected", Style.GOOD
    else:
        text, style = "its end was not recorded", Style.WARN
    return Span(f"{text}; {again}" if again else text, style)


def gap_words(gap: Gap) -> str:
    """Describe the reason of a gap and the number of lost events."""
    if gap.is_left_out:
        return f"{gap.reason}: {gap.lost or 0:,}"
    if gap.lost is None:
        lost = "an unknown number of events was lost"
    else:
        lost = f"{many(gap.lost, 'event')} lost"
    return f"{gap.reason}; {lost}"


def connection_words(entry: ConnectionRow) -> str:
    """Describe details of a session that do not fit into its line."""
    session = entry.session
    limits = [
        f"{name} timeout {duration(ms * 1_000_000)}"
        for name, ms in (
            ("registration", session.registration_timeout_ms),
            ("request", session.request_timeout_ms),
        )
        if ms
    ]
    events = f"{len(events_in(session.mask))} events" if session.mask else "all events"
    return "; ".join([f"session {session.id}: subscribed to {events}", *limits])


class SessionBoard(TableBoard[Entry]):
    """Sessions and gaps. Enter goes to the first event of a session or after a gap."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.SESSIONS, of_lines=False)
    FIELDS = FIELDS

    def entry_line(self, entry: Entry) -> StyledLine:
        """Return the line of a runtime, a session or a gap."""
        return entry_line(entry, self.grid, self.now_ns, growing=self.store.facts.growing)

    def key_of(self, entry: Entry) -> Hashable:
        """Return the identity of an entry."""
        match entry:
            case RuntimeRow():
                return entry
            case Gap():
                return "gap", entry.id
            case ConnectionRow():
                return "session", entry.session.id

    async def work(self) -> None:
        """Read sessions and gaps, and count the events of each session."""
        call_counts = current_call_counts(self)
        more = True
        while more:
            more = await self.store.run(call_counts.count_step)
            if call_counts.scan.outdated or current_call_counts(self) is not call_counts:
                await self.update()
                return
            gaps = await self.store.run(lambda recording: recording.gaps())
            narrowed = call_counts.is_narrowed
            found = entries(call_counts.sessions, gaps, call_counts.counts, counted_only=narrowed)
            self.show_entries(found, self.store.facts.coverage.limited(self._empty()))
            self.show_progress(self.progress_text(call_counts.scan.newest) if more else "")

    def _empty(self) -> str:
        if self.context.is_narrowed:
            return "no session has any of the shown events"
        if self.store.facts.growing:
            return "no session yet: one begins when a runtime accepts the plugin connection"
        return "this recording has no sessions"

    @property
    def selected_event_id(self) -> int | None:
        """Number of the session's first event."""
        entry = self.entry
        return (entry.counts.first_event or None) if isinstance(entry, ConnectionRow) else None

    @property
    def row_without_event(self) -> ListRow | None:
        """The row of a heading, a gap, or a session without events."""
        match self.entry:
            case RuntimeRow(text, day_of_it):
                return line_row(f"{text}, {day_of_it}")
            case ConnectionRow(session, _, _):
                return marker_row(EntryMarker(NO_KEY, Began(session)))
            case Gap() as gap:
                return marker_row(EntryMarker(NO_KEY, gap))
        return None

    def remarks(self) -> Sequence[StyledLine]:
        """Describe details that do not fit into the line."""
        counted = self.restriction_note()
        note = line(counted) if counted else ()
        match self.entry:
            case ConnectionRow() as entry:
                end = end_words(entry, growing=self.store.facts.growing)
                return (end,), note or line(connection_words(entry))
            case Gap() as gap:
                return line(gap_words(gap)), note
        return note, ()

    def open_line(self) -> None:
        """Open the first event of the session, or after the gap, in the list of events."""
        entry = self.entry
        if isinstance(entry, Gap):
            self.post_message(OpenTime(entry.from_ns))
        elif isinstance(entry, ConnectionRow):
            number = entry.counts.first_event
            if number:
                self.post_message(OpenEvent(number))
            else:
                self.post_message(StatusText("this session has no events"))
