# SPDX-License-Identifier: Apache-2.0
"""The order of keys: each is handled before the next one, and once its view exists."""

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
"""Maximum keys that wait for a view; further ones are ignored."""
_AT_ONCE = ("quit", "stop")
"""Actions that do not wait, so that a view that is slow to read can be left."""
_MOVING = ("up", "down", "page_up", "page_down", "home", "end")
"""Actions that only need existing lines."""
_OPENING = (
    "filter", "search", "comment", "replay_shown", "help", "command_palette", "compare",
)  # fmt: skip
"""Actions that open an input for the keys after them, which may be text, or close it."""


class KeyOrderApp(App[None], inherit_bindings=False):
    """An app that handles keys in order, even if many arrive at once after a stalled connection."""

    keymap: Keymap
    frame: Frame
    views: Views
    bar: FilterBar
    narrower: Narrower

    def __init__(self) -> None:
        super().__init__(driver_class=TerminalDriver)
        self._held: deque[events.Key] = deque()
        """Keys that wait for lines of the current view."""

    def available(self) -> frozenset[str]:
        """Return the names of all actions that are available here."""
        parts: tuple[Widget | App[None], ...] = (self, *self.screen_stack[0].query(Widget))
        return frozenset(
            action.name
            for action in self.keymap
            if any(hasattr(part, f"action_{action.name}") for part in parts)
        )

    async def on_event(self, event: events.Event) -> None:
        """Handle a key completely before the next one.

        Textual sends a key to the focused widget first, and handles its bindings only after further
        keys are on their way: keys typed quickly after one that opens a text line would miss the
        line, and keys after one that closes it would still reach it.
        """
        if isinstance(event, events.Key) and not event.is_forwarded:
            await self._take_held()
            if not await self._hold(event):
                await self._take(event)
            return
        if isinstance(event, _POINTED):
            # A mouse user has seen the current content.
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
        # Movement needs no line, and a held key would otherwise not stop where it is released.
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
            # The key may close the line, and applies to all of its text.
            await self.bar.ready()
        elif isinstance(self.focused, Input):
            return False
        return await do_bound(self, key.key)


def _is_for(keymap: Keymap, names: tuple[str, ...], key: events.Key) -> bool:
    return any({key.key, key.character} & set(keymap[name].keys) for name in names)
