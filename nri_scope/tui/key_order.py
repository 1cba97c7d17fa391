# SPDX-License-Identifier: Apache-2.0
"""The order of keys: each acts before the next one is looked at, and once its view exists."""

from __future__ import annotations

from collections import deque

from textual import events, on
from textual.app import App
from textual.widget import Widget
from textual.widgets import Input

from .actions import Keymap
from .commands.filter import Narrower
from .frame import Frame
from .list.event_list import EventList
from .terminal import TerminalDriver
from .textual_gaps import do_bound
from .views import Views
from .widgets import messages
from .widgets.board import Board, BoardLines
from .widgets.filter_bar import FilterBar, TextLine

_POINTED = (events.MouseDown, events.MouseScrollDown, events.MouseScrollUp)
_HELD_MAX = 1_000
"""Keys that wait for a view; more than that are forgotten."""
_AT_ONCE = ("quit", "stop")
"""What waits for nothing: a view that is slow to read can be left."""
_MOVING = ("up", "down", "page_up", "page_down", "home", "end")
"""What needs no more than that there are lines."""
_OPENING = (
    "filter", "search", "comment", "replay_shown", "help", "command_palette", "compare",
)  # fmt: skip
"""What opens something that takes the keys behind it: there they may be text, or close it."""


class KeyOrderApp(App[None], inherit_bindings=False):
    """An app whose keys may come as fast as a connection that stood still lets them."""

    keymap: Keymap
    frame: Frame
    views: Views
    bar: FilterBar
    narrower: Narrower

    def __init__(self) -> None:
        super().__init__(driver_class=TerminalDriver)
        self._held: deque[events.Key] = deque()
        """Keys that wait for lines of the view that is shown."""

    def available(self) -> frozenset[str]:
        """Return the names of all actions that something here can do."""
        parts: tuple[Widget | App[None], ...] = (self, *self.screen_stack[0].query(Widget))
        return frozenset(
            action.name
            for action in self.keymap
            if any(hasattr(part, f"action_{action.name}") for part in parts)
        )

    async def on_event(self, event: events.Event) -> None:
        """Finish what a key does before the next one is looked at.

        Textual sends a key to the widget with the focus first, and by the time that it comes back
        the next ones are under way: what is typed fast after the key that opens a line would
        not go into that line, and what comes behind the one that closes it would.
        """
        if isinstance(event, events.Key) and not event.is_forwarded:
            await self._take_held()
            if not await self._hold(event):
                await self._take(event)
            return
        if isinstance(event, _POINTED):
            # Who points has seen what there is.
            self._held.clear()
            self.frame.status.hush()
        await super().on_event(event)

    @on(messages.LinesThere)
    async def _take_held(self) -> None:
        while self._held and not self._must_wait(self._held[0]):
            await self._take(self._held.popleft())

    def _must_wait(self, key: events.Key) -> bool:
        """Return whether the key is for lines that are still to be read."""
        if isinstance(self.focused, EventList):
            return self.narrower.is_beginning
        board = self.views.current if isinstance(self.focused, BoardLines) else None
        if not isinstance(board, Board):
            return False
        # Moving on needs no line, and a key that is kept down would not end where it is let go.
        return not board.is_there or (board.lacks_line and not _is_for(self.keymap, _MOVING, key))

    async def _hold(self, key: events.Key) -> bool:
        """Hold the key back until its view exists; return whether it is held."""
        if not self._held and not self._must_wait(key):
            return False
        opens = any(_is_for(self.keymap, _OPENING, one) for one in self._held)
        if _is_for(self.keymap, _AT_ONCE, key) and not (opens and key.is_printable):
            self._held.clear()
            return False
        if len(self._held) < _HELD_MAX:
            self._held.append(key)
        if isinstance(self.views.current, Board):
            await self.views.current.update()
        return True

    async def _take(self, key: events.Key) -> None:
        self.frame.status.hush()
        if not await self._is_done(key):
            await super().on_event(key)

    async def _is_done(self, key: events.Key) -> bool:
        """Run the key's action, unless it is to be typed; return whether it did anything."""
        if isinstance(self.focused, TextLine) and not key.is_printable:
            # It may close the line, and is about all of it.
            await self.bar.ready()
        elif isinstance(self.focused, Input):
            return False
        return await do_bound(self, key.key)


def _is_for(keymap: Keymap, names: tuple[str, ...], key: events.Key) -> bool:
    return any({key.key, key.character} & set(keymap[name].keys) for name in names)
