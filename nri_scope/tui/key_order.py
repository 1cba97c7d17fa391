# SPDX-License-Identifier: Apache-2.0
"""Handle keys in order: each one completely before the next, and once its view has lines.

The actions in Textual's command palette are handled like keys.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import cast

from textual import events, on
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input
from textual.worker import Worker

from .actions import ACTION_OF, ACTIONS, Action, Scope, footer, key_of, keys_of, shown
from .commands.filter import NARROW_GROUP, Narrower
from .commands.jump import GROUP as JUMP_GROUP
from .commands.search import GROUP as SEARCH_GROUP
from .commands.search import SearchCommands
from .frame import Frame
from .list.event_list import EventList
from .terminal import TerminalDriver
from .textual_workarounds import TerminalApp, do_bound, pressed
from .views import SCOPES, Views
from .widgets import messages
from .widgets.board import Board, BoardLines
from .widgets.filter_bar import FilterBar, TextLine

_WORDS = {
    "mode_events": "log list",
    "mode_containers": "containers tree",
    "mode_plugins": "stats chain latency",
    "mode_sessions": "runtimes gaps",
    "mode_findings": "diagnose diagnosis report",
    "filter": "where query",
    "clear_filter": "reset all",
    "view_errors": "errors failures",
    "view_changed": "changes adjustments",
    "view_slow": "slow timeouts",
    "search": "find grep",
    "narrow_container": "container",
    "narrow_pod": "pod",
    "follow": "tail live",
    "comment": "note annotate",
    "compare": "diff difference",
    "blame": "owner who",
    "toggle_detail": "show details",
    "copy": "clipboard yank",
    "export": "save bundle recording share zip redact redaction extract write",
    "theme": "colors",
    "suspend": "background",
}
"""Other words that people type to find an action, such as names of commands."""

_MOUSE_EVENTS = (events.MouseDown, events.MouseScrollDown, events.MouseScrollUp)
_MAX_HELD_KEYS = 1_000
"""Maximum number of keys held for a view; more are ignored."""
_ALWAYS = ("quit", "help", "redraw", "suspend")
"""Actions that need no search, at the end of the palette."""
_IMMEDIATE = ("quit", "stop")
"""Actions that never wait, so that the user can leave a view that is slow to read."""
_LEAVING = (
    *(f"mode_{name}" for name in SCOPES), "filter", "clear_filter", "view_errors", "view_changed",
    "view_slow", "view_marked", "back", "go_to", "search",
)  # fmt: skip
"""Actions that leave a view or its lines, and so end what is being read or searched for them."""
_ASIDE = (
    "help", "command_palette", "toggle_detail", "maximise_detail", "move_detail", "next_tab",
    "previous_tab", "theme",
)  # fmt: skip
"""Actions that need no line of a view."""
_LASTING = (*(each.name for each in ACTIONS if Scope.APP in each.scopes), "filter_window")
"""Actions with an effect beyond a view, so that leaving the view does not discard them."""
_MOVING = ("up", "down", "page_up", "page_down", "home", "end", "first_line", "last_line")
"""Actions that do not need the content of lines."""
_OPENING = (
    "filter", "search", "comment", "help", "command_palette", "compare",
    "copy", "go_to", "export", "clear_marks",
)  # fmt: skip
"""Actions that open a screen or an input, so that the following keys may be text."""
_GROUPS = (JUMP_GROUP, NARROW_GROUP, SEARCH_GROUP)
"""Groups of work that selects other events, to which the following keys refer."""
_ANSWER_S = 0.03
"""Seconds until a waiting key is answered: one that leaves, by dropping the keys before it."""


class KeyOrderApp(TerminalApp, inherit_bindings=False):
    """App that handles keys in order, even if many arrive together after a stalled connection."""

    frame: Frame
    views: Views
    bar: FilterBar
    narrower: Narrower
    searcher: SearchCommands

    def __init__(self) -> None:
        super().__init__(driver_class=TerminalDriver)
        self._held: deque[events.Key] = deque()
        """Keys waiting for lines of the current view."""
        self._answer: Timer | None = None
        """Timer of `_answer_held`."""
        self.is_ending = False
        """Whether a signal has ended the app, possibly before it was shown."""

    def available(self) -> frozenset[str]:
        """Return the names of all currently available actions."""
        parts: tuple[Widget | TerminalApp, ...] = (self, *self.screen_stack[0].query(Widget))
        return frozenset(
            action.name
            for action in ACTIONS
            if any(hasattr(part, f"action_{action.name}") for part in parts)
        )

    async def action_command_palette(self) -> None:  # type: ignore[override]
        """Show all actions. Focus the palette's input at once, so that it gets the next key."""
        palette = CommandPalette()
        await self.push_screen(palette)
        palette.set_focus(palette.query_one(Input))

    def action_redraw(self) -> None:
        """Redraw the screen."""
        self.redraw()

    async def on_event(self, event: events.Event) -> None:
        """Handle a key completely before the next one.

        Textual sends a key to the focused widget first, and handles its bindings only when more
        keys may already be queued: keys typed quickly after one that opens an input would miss
        the input, and keys after one that closes it would still reach it.
        """
        if self.is_ending and isinstance(event, (events.Key, *_MOUSE_EVENTS)):
            return
        if isinstance(event, events.Key) and not event.is_forwarded:
            if not _is_for(_IMMEDIATE, event):
                await self.views.complete()
            await self._handle_held()
            if not await self._hold_back(event):
                await self._handle(event)
            return
        if isinstance(event, _MOUSE_EVENTS):
            # A click refers to the visible content: drop keys that wait for other content.
            self._held.clear()
            self.frame.status.clear_message()
            await self.views.complete()
        await super().on_event(event)

    @on(messages.KeyClicked)
    async def _key_clicked(self, event: messages.KeyClicked) -> None:
        await self.on_event(pressed(ACTION_OF[event.action].keys[0]))

    @on(messages.LinesAvailable)
    @on(Worker.StateChanged)
    async def _handle_held(self) -> None:
        while self._held and not self._must_wait(self._held[0]):
            await self._handle(self._held.popleft())

    def _must_wait(self, key: events.Key) -> bool:
        """Return whether the key needs lines that have not been read yet."""
        if not self.screen_stack:
            # The app is ending.
            return True
        if _is_for(_ASIDE, key):
            return False
        if self._is_selecting:
            return True
        # An export is of the shown events, so it waits for these in every view.
        if self.narrower.is_beginning and (
            isinstance(self.focused, EventList) or _is_for(("export",), key)
        ):
            return True
        if isinstance(self.focused, EventList):
            return False
        board = self.views.current if isinstance(self.focused, BoardLines) else None
        if not isinstance(board, Board):
            return False
        if _is_for(_LEAVING, key):
            return False
        # Movement needs no content. If it waited, a held-down key would move on after its release.
        return not board.has_content or (board.lacks_line and not _is_for(_MOVING, key))

    async def _hold_back(self, key: events.Key) -> bool:
        """Queue the key if it or an earlier one must wait; return whether it was queued."""
        if not self._held and not self._must_wait(key):
            return False
        opens = any(_is_for(_OPENING, held) for held in self._held)
        if _is_for(_IMMEDIATE, key) and not (opens and key.is_printable):
            self._held.clear()
            return False
        if len(self._held) < _MAX_HELD_KEYS:
            self._held.append(key)
        if self._answer is None:
            self._answer = self.set_timer(_ANSWER_S, self._answer_held)
        if isinstance(self.views.current, Board):
            await self.views.current.update()
        return True

    @property
    def _is_selecting(self) -> bool:
        return self._is_at_work(*_GROUPS)

    def _is_at_work(self, *groups: str) -> bool:
        return any(each.group in groups and not each.is_finished for each in self.workers)

    def stop_selecting(self) -> bool:
        """Stop work that selects other events, such as a search; return whether there was any."""
        is_selecting = self._is_selecting
        self.searcher.stop()
        for group in _GROUPS:
            self.workers.cancel_group(self, group)
        return is_selecting

    async def _answer_held(self) -> None:
        """Leave the view that keys wait for, or the search, if one of them does so."""
        self._answer = None
        if not self._held or not self._must_wait(self._held[0]) or self._is_at_work(NARROW_GROUP):
            return
        for at, key in enumerate(self._held):
            if _is_for(_LEAVING, key):
                self.stop_selecting()
                self._held = deque([*self._held][at:])
                await self._handle(self._held.popleft())
                await self._handle_held()
                return
            if _is_for(_LASTING, key):
                break
        if not self._is_selecting:
            self.frame.say(f"{shown(self._held[0].key)} waits for lines; {key_of('stop')} drops it")

    async def _handle(self, key: events.Key) -> None:
        self.frame.status.clear_message()
        if not await self._run_action(key):
            await super().on_event(key)

    async def _run_action(self, key: events.Key) -> bool:
        """Run the key's action unless the key is text input; return whether an action ran."""
        if isinstance(self.focused, TextLine) and not key.is_printable:
            # The key may close the line: wait until all text typed before has been processed.
            await self.bar.ready()
        elif isinstance(self.focused, Input):
            return key.character is not None and self.bar.answer(key.character)
        return await do_bound(self, key.key)


def _is_for(names: tuple[str, ...], key: events.Key) -> bool:
    return any({key.key, key.character} & set(ACTION_OF[name].keys) for name in names)


class PaletteActions(Provider):
    """Provider of the actions of the app and all views.

    Running an action of another view shows that view first.
    """

    async def discover(self) -> Hits:
        """Yield all actions: of the app and the current view, then of other views."""
        for action, label in self._labels():
            yield DiscoveryHit(label, partial(self._run, action), text=label)

    async def search(self, query: str) -> Hits:
        """Yield the actions that match ``query``."""
        matcher = self.matcher(query)
        for action, label in self._labels():
            # Also match the name used in the configuration.
            words = _WORDS.get(action.name, "").split()
            names = (label, action.name.replace("_", " "), *words)
            score = max(map(matcher.match, names))
            if score > 0:
                # An exact word is meant, not a part of another one.
                score += query.strip().lower() in (*words, action.name)
                yield Hit(score, matcher.highlight(label), partial(self._run, action), label)

    @property
    def _app(self) -> KeyOrderApp:
        return cast("KeyOrderApp", self.app)

    def _labels(self) -> Iterator[tuple[Action, str]]:
        """Yield actions with labels: of the app and the current view, then of other places."""
        app = self._app
        here, available = (Scope.APP, app.views.scope), app.available()
        actions = [action for action in ACTIONS if action.in_palette and action.name in available]
        near = [action for action in actions if not set(here).isdisjoint(action.scopes)]
        # As in the footer: the most useful first. What is always there, such as quit, is last.
        wanted = [*(name for name, _ in footer(app.frame.keys.now)), *ACTION_OF]
        near.sort(key=lambda action: (action.name in _ALWAYS, wanted.index(action.name)))
        far = [action for action in actions if action not in near and _places(action)]
        for action in (*near, *far):
            where = "" if action in near else f"{_places(action)[0].value}: "
            yield action, f"{where}{action.help}   ({keys_of(action.name)})"

    async def _run(self, action: Action) -> None:
        """Run an action, showing its view first if needed."""
        app, views = self._app, self._app.views
        if hasattr(app, f"action_{action.name}"):
            await app.run_action(action.name, app)
            return
        if views.scope not in action.scopes:
            place = _places(action)[0]
            if place is Scope.DETAIL:
                views.open_detail()
                await app.run_action(action.name, views.detail.body)
                return
            views.show(next(name for name, scope in SCOPES.items() if scope is place))
        current = views.current
        if isinstance(current, Board) and not hasattr(current, f"action_{action.name}"):
            await app.run_action(action.name, current.body)
        else:
            await app.run_action(action.name, current)


def _places(action: Action) -> list[Scope]:
    """Return the views, and the detail pane, in which an action is available."""
    return [scope for scope in (*SCOPES.values(), Scope.DETAIL) if scope in action.scopes]
