# SPDX-License-Identifier: Apache-2.0
"""The frame around the views: title, tabs, status line, and the text of an empty list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from nri_scope.errors import RecordingError
from nri_scope.events import Gap
from nri_scope.recording.marks.user_marks import UserMarks
from nri_scope.recording.query.event_times import span_words
from nri_scope.text.escape import safe
from nri_scope.text.quantities import many

from .actions import Scope, Situation, key_of
from .detail.tab_lines import Tab
from .store.context import Context
from .store.markers import EntryMarker
from .store.recording_overview import RecordingKind, RecordingOverview
from .store.store import Store
from .store.view import View
from .views import EVENTS, SCOPES, Views
from .widgets.bars import KeyLine, StatusLine, TabLine, TitleBar


@dataclass(frozen=True, slots=True)
class WorkState:
    """The state of background work."""

    filtered: float | None = None
    """Share of the recording examined by the running filter, 0 to 1; None if none is running."""
    searching: str = ""
    """Text of the running search; "" if none."""
    searched: float = 0.0
    """Share of the recording searched, 0 to 1."""
    busy: str = ""
    """Another running job, with its progress; "" if none."""
    recorder: str = ""
    """Newest message of this program's recorder; "" if none."""
    recorder_ended: bool = False
    interruption: str = ""
    """Why no events arrive at present; "" if they do."""


def empty_list_lines(
    facts: RecordingOverview, view: View, narrowed: str, work: WorkState
) -> tuple[str, ...]:
    """Return the text shown in an empty list: a message, then its reasons; () if there are rows."""
    if view.length:
        return ()
    if work.filtered is not None:
        return (
            f"Filtering the recording … {work.filtered:.0%}",
            f"filter: {narrowed}" if narrowed else "",
            f"{key_of('stop')} stops it",
        )
    if narrowed and facts.events:
        return (
            "0 matches",
            f"{_none_of(facts.events)} {narrowed}",
            facts.coverage.limited(f"T{span_words(facts.span)[1:]}"),
            f"{key_of('filter')} changes the filter, {key_of('back')} goes back, "
            f"{key_of('clear_filter')} shows everything",
        )
    if not view.complete:
        return ("Reading …",)
    return _no_event(facts, work)


def _none_of(events: int) -> str:
    return "The only event does not match" if events == 1 else f"None of {events:,} events matches"


def _no_event(facts: RecordingOverview, work: WorkState) -> tuple[str, ...]:
    if facts.damage:
        return ("No event of this recording can be read", facts.damage)
    if work.recorder_ended:
        return (facts.coverage.limited("No events were recorded"), safe(work.recorder))
    is_live = facts.kind is RecordingKind.LIVE
    if is_live or facts.growing:
        waiting = "Waiting for the recorder to write events to this file."
        if is_live:
            waiting = safe(work.recorder) or "Waiting for the runtime: its NRI events appear here."
        return ("No events yet", waiting, facts.coverage.words)
    occurred = "No event occurred while it was recorded."
    return ("This recording has no events", facts.coverage.words or occurred)


class ListState(NamedTuple):
    """The state of the list of events, and of the recording that it shows."""

    view: View
    position: int | None
    """The cursor's row; None if another view is shown."""
    listing: str
    """How the list follows the recording; "" if it does not."""
    narrowed: str
    """The restriction of the view; "" if there is none."""
    marked: int
    """Number of marked events."""
    grouping: str
    """Why not all events are grouped into operations, or how many are; "" if all are."""
    unobserved: str
    """What was not observed."""


def status_words(state: ListState, work: WorkState) -> str:
    """Format the status: ``following · 12 of 1,234 · 2 marked · 34 matches: ns:shop``."""
    view, parts = state.view, [state.listing] if state.listing else []
    if view.length and state.position is not None:
        parts.append(f"{state.position + 1:,} of {view.length:,}")
    if view.groups is not None and state.grouping:
        parts.append(state.grouping)
    if state.marked:
        parts.append(f"{state.marked:,} marked")
    if work.filtered is not None:
        parts.append(f"filtering: {work.filtered:.0%}, {_matches(view)} so far")
    elif state.narrowed:
        observed = " in what was observed" if state.unobserved and not view.events else ""
        parts.append(f"{_matches(view)}{observed}: {state.narrowed}")
    if work.recorder_ended:
        parts.append(f"recording ended: {safe(work.recorder)}")
    elif work.interruption:
        parts.append(f"! {safe(work.interruption)}")
    if work.busy:
        parts.insert(0, work.busy)
    if work.searching:
        share = f" {work.searched:.0%}" if work.searched else ""
        parts.append(f"searching for {safe(work.searching, 40)} …{share}")
    return " · ".join(parts)


def _matches(view: View) -> str:
    matches = f"{view.events:,} match{'' if view.events == 1 else 'es'}"
    # Gaps are rows, too, and count in the cursor's position.
    markers = (marker.entry for marker in view.between if isinstance(marker, EntryMarker))
    gaps = [entry.is_left_out for entry in markers if isinstance(entry, Gap)]
    left_out, lost = sum(gaps), len(gaps) - sum(gaps)
    parts = [
        matches,
        many(lost, "gap") if lost else "",
        f"{left_out:,} left out" if left_out else "",
    ]
    return ", ".join(filter(None, parts))


def error_text(error: Exception) -> str:
    """Describe an error without the path, which the title shows and which would fill the line."""
    if not isinstance(error, RecordingError):
        return str(error)
    return f"{error.problem}; {error.hint}" if error.hint else error.problem


class Frame:
    """The frame: shows the state of the recording, of the view and of background work."""

    def __init__(self, context: Context, source: str) -> None:
        """Create the frame. ``source``: what a temporary recording was made from; "" for none."""
        self.title_bar = TitleBar(source)
        self.tabs = TabLine(tabs_of(), lead="> ", style="bold")
        self.status = StatusLine()
        self.keys = KeyLine()
        self.work = WorkState()
        self.trouble = ""
        """Why the recording cannot be read."""
        self._empty_lines: tuple[str, ...] = ()
        self._in_input = False
        self._context = context
        self._shown: tuple[Store, Views, UserMarks] | None = None

    def show(self, store: Store, views: Views, marks: UserMarks) -> None:
        """Begin to show the state of ``store``, ``views`` and ``marks``."""
        self._shown = store, views, marks
        self.show_facts()

    def say(self, text: str, *, problem: bool = False) -> None:
        """Show a message in the status line."""
        self.status.say(text, problem=problem)

    def show_trouble(self, error: Exception) -> None:
        """Show why the recording cannot be read, until `trouble` is cleared."""
        self.trouble = error_text(error)
        self.show_status()

    def show_work(self, work: WorkState) -> None:
        """Replace the state of background work, and show it."""
        self.work = work
        self.show_status()

    def show_facts(self) -> None:
        """Update title, tabs and status."""
        if self._shown is not None:
            store, views, _ = self._shown
            self.title_bar.show(store.facts, store.analysis.words)
            self.tabs.show(views.mode, self._context.words())
        self.show_status()

    def show_status(self) -> None:
        """Update the status line and the text of an empty list."""
        if self._shown is None or not self.status.is_attached:
            # The status line is not mounted yet, or the app is ending.
            return
        store, views, marks = self._shown
        events, narrowed, in_list = views.events, self._context.description(), views.mode == EVENTS
        lines = empty_list_lines(store.facts, events.view, narrowed, self.work)
        if lines and lines != self._empty_lines:
            # Not for each poll: the terminal would receive it again.
            self._empty_lines = lines
            views.nothing.update("\n\n".join(safe(each) for each in lines if each))
        events.set_class(bool(lines), "-nothing")
        views.nothing.set_class(bool(lines), "-shown")
        state = ListState(
            view=events.view,
            position=events.listing.cursor if in_list else None,
            listing=events.listing.words if in_list and events.grows() else "",
            narrowed=narrowed,
            marked=len(marks),
            grouping=store.grouping_words,
            unobserved=store.facts.coverage.words,
        )
        self.status.words = status_words(state, self.work)
        self.show_keys(in_input=self._in_input)
        if self.trouble:
            self.say(self.trouble, problem=True)

    def show_keys(self, *, in_input: bool) -> None:
        """Update the footer. ``in_input``: whether the filter bar has the focus."""
        self._in_input = in_input
        if self._shown is None:
            return
        _, views, marks = self._shown
        in_list, detail = views.mode == EVENTS, views.detail
        row = views.events.selected_row if in_list else None
        event = row.event if row is not None else None
        has_event = event is not None if in_list else views.current.selected_event_id is not None
        work, place = self.work, Scope.DETAIL if views.in_detail else views.scope
        only = marks.only()
        self.keys.now = Situation(
            Scope.FILTER if in_input else place,
            min(len(marks), 3),
            is_event=has_event,
            is_only_mark=only is not None and only in views.selected_events,
            is_operation=row is not None and bool(row.events),
            is_changed=event is not None and bool(event.changed),
            is_blame=not detail.is_hidden and detail.tab is Tab.BLAME,
            is_full=detail.is_full,
            is_maximised=detail.is_alone,
            is_narrowed=bool(self._context.description()),
            grows=views.events.grows(),
            is_busy=bool(work.searching or work.busy) or work.filtered is not None,
        )


def tabs_of() -> dict[str, str]:
    """Return the label of each view: its key and name."""
    return {name: f"{key_of(f'mode_{name}')} {name.capitalize()}".strip() for name in SCOPES}
