# SPDX-License-Identifier: Apache-2.0
"""The one screen of the app, and what it is while the terminal has no room for it."""

from __future__ import annotations

from typing import Any

from textual import events
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

MIN_COLUMNS, MIN_LINES = 40, 10
"""With less there is no room for a row that says anything."""
_SMALL = "-small"
CSS = f"""
MainScreen > #small {{ display: none; }}
App.{_SMALL} Screen > *, App.{_SMALL} CommandPalette > * {{ display: none !important; }}
App.{_SMALL} MainScreen > #small {{ display: block !important; }}
"""
"""Of the app: what lies over the screen has no room either, and lets the line be seen."""


class MainScreen(Screen[None], inherit_bindings=False):
    """Textual's own keys for screens are not ours."""

    def __init__(self) -> None:
        super().__init__(id="main")
        self._had_focus: dict[Screen[Any], Widget] = {}
        words = f"too small: at least {MIN_COLUMNS}×{MIN_LINES}"
        self._words = Static(words, id="small", markup=False)

    async def on_mount(self) -> None:
        """Have the line ready."""
        await self.mount(self._words)

    def on_resize(self, event: events.Resize) -> None:
        """Say that there is no room, or show everything again, with the focus where it was."""
        small = event.size.width < MIN_COLUMNS or event.size.height < MIN_LINES
        if small == self.app.has_class(_SMALL):
            return
        screens = self.app.screen_stack
        if small:
            self._had_focus = {each: each.focused for each in screens if each.focused is not None}
        self.app.set_class(small, _SMALL)
        if not small:
            self.call_after_refresh(self._give_back_focus)

    def _give_back_focus(self) -> None:
        for screen in self.app.screen_stack:
            had = self._had_focus.get(screen)
            if had is not None and had.is_attached:
                screen.set_focus(had)
            elif screen.focused is None and screen.focus_chain:
                # It came while nothing of it was to be seen.
                screen.set_focus(screen.focus_chain[0])
