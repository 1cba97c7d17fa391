# SPDX-License-Identifier: Apache-2.0
"""The table of actions, the source of bindings, help, footer, palette and documentation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from textual.binding import Binding, BindingType


class Scope(Enum):
    """Part of the interface where a key works; the value is its name in help and documentation."""

    APP = "Everywhere"
    """Regardless of the focus, except during text input."""
    EVENTS = "Events"
    CONTAINERS = "Containers"
    TIMELINE = "Timeline"
    PLUGINS = "Plugins"
    SESSIONS = "Sessions"
    FINDINGS = "Findings"
    DETAIL = "Details"
    COMPARE = "Comparison"
    FILTER = "Filter bar and search"


@dataclass(frozen=True, slots=True)
class Action:
    """An action, implemented as ``action_<name>`` by the app or a widget."""

    name: str
    keys: tuple[str, ...]
    """Keys by Textual name (``ctrl+p``, ``space``); printable characters as themselves."""
    help: str
    """Short description, in lower case."""
    scopes: tuple[Scope, ...]
    in_palette: bool = True
    """Whether the palette lists the action; False if it only makes sense as a key."""


_KEY_NAMES = {
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "home": "Home",
    "end": "End",
    "enter": "Enter",
    "escape": "Esc",
    "tab": "Tab",
    "space": "Space",
    "backspace": "Backspace",
    "delete": "Del",
}


def shown(key: str) -> str:
    """Return the display form of a key: "^P" for "ctrl+p", "Space", "F"."""
    *modifiers, last = key.split("+") if len(key) > 1 else [key]
    name = _KEY_NAMES.get(last, last if len(last) == 1 else last.capitalize())
    for modifier in reversed(modifiers):
        name = f"^{name.upper()}" if modifier == "ctrl" else f"{modifier.capitalize()}-{name}"
    return name


_APP = (Scope.APP,)
_EVENTS = (Scope.EVENTS,)
_FIELDS = (Scope.EVENTS, Scope.PLUGINS)
_ROWS = (
    Scope.EVENTS,
    Scope.CONTAINERS,
    Scope.TIMELINE,
    Scope.PLUGINS,
    Scope.SESSIONS,
    Scope.FINDINGS,
)
_LINES = (*_ROWS, Scope.DETAIL, Scope.COMPARE)
_FILTER = (Scope.FILTER,)

ACTIONS: tuple[Action, ...] = (
    Action("quit", ("q", "ctrl+q", "ctrl+c"), "quit", _APP),
    Action("help", ("?", "f1"), "show the keys of this screen", _APP),
    Action("command_palette", ("ctrl+p",), "find an action by name", _APP, False),
    Action("mode_events", ("1",), "show the events", _APP),
    Action("mode_containers", ("2",), "show pods and containers", _APP),
    Action("mode_timeline", ("3",), "show the timeline", _APP),
    Action("mode_plugins", ("4",), "show the chain of plugins", _APP),
    Action("mode_sessions", ("5",), "show sessions: runtimes and reconnects", _APP),
    Action("mode_findings", ("6",), "show findings: problems, warnings and notes", _APP),
    Action("focus_other", ("tab",), "switch between view and details", _APP, False),
    # -- filter and search
    Action("filter", ("f",), "filter", _APP),
    Action("clear_filter", ("x",), "clear the filter, the container and the search", _APP),
    Action("view_errors", ("e",), "only failed events (toggle)", _APP),
    Action("view_changed", ("c",), "only events with changes (toggle)", _APP),
    Action("view_slow", ("s",), "only slow events: >1 ms or >50% of the deadline (toggle)", _APP),
    Action("view_marked", ("*",), "only marked events (toggle)", _APP),
    Action("stop", ("escape",), "stop running work; leave the details", _APP, False),
    Action("search", ("/",), "search", _APP),
    Action("search_next", ("n",), "next match", _APP),
    Action("search_previous", ("N",), "previous match", _APP),
    Action("go_to", (":",), "go to an event, a time or a view; :q quits", _APP),
    Action("next_problem", ("J", "}"), "next failed or slow event", _APP),
    Action("previous_problem", ("K", "{"), "previous failed or slow event", _APP),
    Action("next_change", (")",), "next event with a change", _APP),
    Action("previous_change", ("(",), "previous event with a change", _APP),
    Action("back", ("backspace",), "back to the previous filter", _APP),
    Action("narrow_container", ("i",), "only this container, in every view", _APP),
    Action("narrow_pod", ("I",), "only this pod, in every view", _APP),
    # -- movement between lines
    Action("up", ("up", "k"), "one line up", _LINES, False),
    Action("down", ("down", "j"), "one line down", _LINES, False),
    Action("page_up", ("pageup", "ctrl+b"), "one screen up", _LINES, False),
    Action("page_down", ("pagedown", "ctrl+f"), "one screen down", _LINES, False),
    Action("home", ("home",), "to the beginning; in the timeline: the first time", _LINES),
    Action("end", ("end",), "to the end, again: follow; in the timeline: the last time", _LINES),
    Action("first_line", ("g",), "to the first line", _LINES, False),
    Action("last_line", ("G",), "to the last line, again: follow", _LINES, False),
    Action("open", ("enter",), "go deeper: unfold the line, or go to its event", _ROWS, False),
    Action("open_row", ("enter",), "show whole values, and their history", (Scope.COMPARE,), False),
    # -- events
    Action("toggle_operations", ("v",), "a row per operation, or per event (toggle)", _EVENTS),
    Action("follow", ("F",), "follow new events, like tail -f", _EVENTS),
    Action("pause", ("space",), "stop following, or follow again; recording continues", _EVENTS),
    Action("field_left", ("left", "h"), "select the field to the left", _EVENTS, False),
    Action("field_right", ("right", "l"), "select the field to the right", _EVENTS, False),
    Action("filter_by", ("=",), "filter by the selected field, or by a plugin's changes", _FIELDS),
    Action("filter_out", ("!",), "filter out the value of the selected field", _EVENTS),
    # -- marks
    Action("mark", ("m",), "mark the event, or unmark it", _APP),
    Action("comment", ("M",), "mark the event with a comment", _APP),
    Action("clear_marks", ("U",), "remove all marks", _APP),
    Action("compare", ("d",), "compare two marked events, or the two recordings", _APP),
    # -- detail pane
    Action("blame", ("b",), "show who set what in the container", _APP),
    Action("toggle_detail", ("p",), "show or hide the details", _APP),
    Action("maximise_detail", ("z",), "maximise the details (toggle)", _APP),
    Action("move_detail", ("P", "|"), "move the details below or beside the view", _APP),
    Action("next_tab", ("L", "]"), "next tab of the details", _APP),
    Action("previous_tab", ("H", "["), "previous tab of the details", _APP),
    Action(
        "full",
        ("enter",),
        "in Blame: all lines, or only changed ones; of a plugin: go to the event",
        (Scope.DETAIL,),
    ),
    Action("wrap", ("W",), "wrap long lines, or scroll sideways", (Scope.DETAIL,)),
    Action("shift_left", ("left", "h"), "scroll to the left", (Scope.DETAIL,), False),
    Action("shift_right", ("right", "l"), "scroll to the right", (Scope.DETAIL,), False),
    # -- containers
    Action("expand", ("right", "l"), "unfold", (Scope.CONTAINERS,), False),
    Action("collapse", ("left", "h"), "fold, or go to the parent", (Scope.CONTAINERS,), False),
    # -- timeline
    Action("zoom_in", ("+",), "zoom in", (Scope.TIMELINE,)),
    Action("zoom_out", ("-",), "zoom out", (Scope.TIMELINE,)),
    Action("zoom_all", ("0",), "show the whole time range", (Scope.TIMELINE,)),
    Action("filter_window", ("=",), "filter by the shown time range", (Scope.TIMELINE,)),
    Action("pan_left", ("left", "h"), "move the cursor earlier", (Scope.TIMELINE,), False),
    Action("pan_right", ("right", "l"), "move the cursor later", (Scope.TIMELINE,), False),
    Action("next_of_container", ("o",), "next event of this line", (Scope.TIMELINE,)),
    Action("previous_of_container", ("O",), "previous event of this line", (Scope.TIMELINE,)),
    Action("page_left", ("<", "shift+left"), "scroll half a screen earlier", (Scope.TIMELINE,)),
    Action("page_right", (">", "shift+right"), "scroll half a screen later", (Scope.TIMELINE,)),
    # -- copying, exporting
    Action("copy", ("y",), "copy events as YAML; in the tabs Changes and Blame, changes", _APP),
    Action("export", ("E",), "export the shown or the marked events to a file", _APP),
    Action("theme", ("T",), "next theme", _APP),
    Action("redraw", ("ctrl+l",), "redraw the screen", _APP),
    Action("suspend", ("ctrl+z",), "suspend; the command fg of the shell returns", _APP),
    # -- text input
    Action("accept", ("enter",), "accept the input", _FILTER, False),
    Action("complete", ("tab",), "complete a field name or value", _FILTER, False),
    Action("older", ("up",), "previous input", _FILTER, False),
    Action("newer", ("down",), "next input", _FILTER, False),
    Action("cancel", ("escape",), "cancel the input", _FILTER, False),
)

_GROUPS = {
    "quit": "General",
    "mode_events": "Views",
    "filter": "Filter and search",
    "next_problem": "Jumps",
    "back": "Filter and search",
    "up": "Lines",
    "mark": "Marks",
    "blame": "Detail pane",
    "copy": "Copy, export",
    "theme": "General",
}
"""Group in the help of each action from the named one to the next named."""


def groups(actions: Iterable[Action]) -> dict[str, list[Action]]:
    """Return ``actions`` by group, in table order."""
    grouped: dict[str, list[Action]] = {}
    wanted = {action.name: action for action in actions}
    group = ""
    for name in (action.name for action in ACTIONS):
        group = _GROUPS.get(name, group)
        if name in wanted:
            grouped.setdefault(group, []).append(wanted[name])
    return grouped


ACTION_OF = {action.name: action for action in ACTIONS}
"""All actions by name."""


def actions_of(*scopes: Scope) -> list[Action]:
    """Return the actions of any of ``scopes``, in table order."""
    return [action for action in ACTIONS if not set(scopes).isdisjoint(action.scopes)]


def keys_of(name: str) -> str:
    """Return the display form of an action's keys."""
    return " ".join(map(shown, ACTION_OF[name].keys))


def key_of(name: str) -> str:
    """Return the display form of an action's first key."""
    return shown(ACTION_OF[name].keys[0])


def bindings(*scopes: Scope, of_lines: bool | None = None) -> list[BindingType]:
    """Return the bindings of a widget for all actions of ``scopes``, with their names as ids.

    The widget or an ancestor must have ``action_<name>`` for each. ``of_lines``: True for only the
    actions on lines that all views share, False for only the others.
    """
    return [
        Binding(",".join(action.keys), action.name, action.help, show=False, id=action.name)
        for action in actions_of(*scopes)
        if of_lines in (None, set(_ROWS) <= set(action.scopes))
    ]


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


_OF_PLACE: dict[Scope, tuple[tuple[str, str], ...]] = {
    Scope.CONTAINERS: (("open", "unfold"), ("narrow_container", "only this"), ("blame", "blame")),
    Scope.TIMELINE: (
        ("open", "go to event"),
        ("zoom_in", "zoom in"),
        ("zoom_out", "out"),
        ("zoom_all", "all"),
    ),
    Scope.PLUGINS: (("open", "slowest event"), ("filter_by", "its changes")),
    Scope.SESSIONS: (("open", "first event"),),
    Scope.FINDINGS: (("open", "go to event"),),
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
    ("export", "export"),
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
    if now.place is not Scope.FINDINGS:
        # Filters do not apply there.
        yield "filter", "filter"
    yield "search", "search"
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
