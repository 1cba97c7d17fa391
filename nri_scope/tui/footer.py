# SPDX-License-Identifier: Apache-2.0
"""The keys that the footer shows, for the current view and selection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .actions import Scope


@dataclass(frozen=True, slots=True)
class Situation:
    """What the keys depend on."""

    place: Scope = Scope.EVENTS
    """Where keys work now: the view, the detail pane, or the input."""
    marked: int = 0
    """Number of marked events."""
    is_event: bool = False
    """Whether an event is selected."""
    is_operation: bool = False
    """Whether an operation of several events is selected."""
    is_changed: bool = False
    """Whether the selected event has changes."""
    is_narrowed: bool = False
    """Whether a filter or a restriction hides events."""
    is_blame: bool = False
    """Whether the details show the Blame tab."""
    is_full: bool = False
    """Whether the Blame tab shows all lines."""
    is_maximised: bool = False
    """Whether the details are maximised."""
    grows: bool = False
    """Whether the recording may still grow."""
    is_busy: bool = False
    """Whether a search, a filter or another job is running."""
    is_only_mark: bool = False
    """Whether the selected event is the only marked one."""


_SORT = (("sort_next", "sort"), ("sort_reverse", "reverse"))
_OF_PLACE: dict[Scope, tuple[tuple[str, str], ...]] = {
    Scope.CONTAINERS: (("open", "only this"), ("expand", "unfold"), ("collapse", "fold")),
    Scope.TIMELINE: (
        ("open", "go to event"),
        ("zoom_in", "zoom in"),
        ("zoom_out", "out"),
        ("zoom_all", "all"),
    ),
    Scope.PLUGINS: (("open", "slowest event"), *_SORT),
    Scope.SESSIONS: (("open", "first event"), *_SORT),
    Scope.FINDINGS: (("open", "go to event"), *_SORT),
}
_VIEWS = (
    ("next_problem", "next problem"),
    ("next_change", "next change"),
    ("view_errors", "errors"),
    ("view_changed", "changes"),
    ("view_slow", "slow"),
    ("toggle_detail", "details"),
)
_LAST = (
    ("narrow_container", "this container"),
    ("export_bundle", "export"),
    ("copy", "copy"),
    ("move_detail", "move details"),
    ("theme", "theme"),
)


def footer(now: Situation) -> Iterator[tuple[str, str]]:
    """Yield names of actions with labels, the most useful first; some may be repeated."""
    if now.place is Scope.FILTER:
        yield from (("accept", "accept"), ("cancel", "cancel"), ("complete", "complete"))
        return
    yield from (("quit", "quit"), ("help", "help"))
    if now.is_busy:
        yield "stop", "stop"
    if now.marked == 2:
        yield "compare", "compare"
    if now.is_narrowed:
        yield "clear_filter", "show all"
    if now.place is Scope.EVENTS and now.grows:
        yield from (("follow", "follow"), ("pause", "pause"))
    if now.place is Scope.DETAIL:
        yield from _of_details(now)
    elif now.place is not Scope.EVENTS:
        yield from _OF_PLACE[now.place]
    if now.place in (Scope.CONTAINERS, Scope.TIMELINE):
        yield from _marking(now)
    yield "command_palette", "actions"
    if now.is_changed and not now.is_blame:
        yield "blame", "blame"
    if now.place is Scope.EVENTS and now.is_event:
        yield "open", "connections" if now.is_operation else "details"
        yield from _marking(now)
    yield from (("filter", "filter"), ("search", "search"))
    if now.is_operation:
        yield "toggle_operations", "single events"
    if now.marked:
        yield "clear_marks", "unmark all"
    yield from _VIEWS
    yield from _LAST


def _of_details(now: Situation) -> Iterator[tuple[str, str]]:
    yield from (("next_tab", "next tab"), ("focus_other", "back"))
    yield "maximise_detail", "restore" if now.is_maximised else "maximise"
    yield from (("search", "search"), ("wrap", "wrap"))
    if now.is_blame:
        yield "full", "only changed lines" if now.is_full else "all lines"


def _marking(now: Situation) -> Iterator[tuple[str, str]]:
    if now.is_event:
        yield "mark", "mark"
        if now.marked == 1 and not now.is_only_mark:
            # With the selected event.
            yield "compare", "compare"
