# SPDX-License-Identifier: Apache-2.0
"""The one screen of the app, and what it is while the terminal has no room for it."""

from __future__ import annotations

from textual import events
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

MIN_COLUMNS, MIN_LINES = 40, 10
"""With less there is no room for a row that says anything."""


class MainScreen(Screen[None], inherit_bindings=False):
    """Textual's own keys for screens are not ours."""

    DEFAULT_CSS = """
    MainScreen > #small { display: none; }
    MainScreen.-small > * { display: none; }
    MainScreen.-small > #small { display: block; }
    """

    def __init__(self) -> None:
        super().__init__(id="main")
        self._had_focus: Widget | None = None
        words = f"too small: at least {MIN_COLUMNS}×{MIN_LINES}"
        self._words = Static(words, id="small", markup=False)

    async def on_mount(self) -> None:
        """Have the line ready."""
        await self.mount(self._words)

    def on_resize(self, event: events.Resize) -> None:
        """Say that there is no room, or show everything again, with the focus where it was."""
        small = event.size.width < MIN_COLUMNS or event.size.height < MIN_LINES
        if small == self.has_class("-small"):
            return
        if small:
            self._had_focus = self.focused
        self.set_class(small, "-small")
        if not small and self._had_focus is not None and self._had_focus.is_attached:
            self.set_focus(self._had_focus)
