# SPDX-License-Identifier: Apache-2.0
"""The two lines at the bottom: what is going on, and the most important keys."""

from __future__ import annotations

from time import monotonic

from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget

from nri_scope.recorder.escape import columns, safe
from nri_scope.tui.model.keys import Keymap

FRESH_SECONDS = 6.0
"""To read a line."""


class StatusLine(Widget):
    """Words about the list; for a while, something that was said instead."""

    DEFAULT_CSS = """
    StatusLine { height: 1; background: $panel; color: $foreground; padding: 0 1; }
    StatusLine.-problem { color: $text-warning; text-style: bold; }
    """

    words: reactive[str] = reactive("")
    said: reactive[str] = reactive("")
    _said_at = 0.0

    def say(self, text: str, *, problem: bool = False) -> None:
        """Show ``text`` until something else is done."""
        self.said = f"! {text}" if problem else text
        self._said_at = monotonic()
        self.set_class(problem, "-problem")

    def hush(self, *, unless_fresh: bool = False) -> None:
        """Show the words about the list again; ``unless_fresh``: not while something was just said,
        so that there is time to read it.
        """
        if unless_fresh and monotonic() - self._said_at < FRESH_SECONDS:
            return
        self.said = ""
        self.remove_class("-problem")

    def render(self) -> Text:
        """One line, cut visibly."""
        return Text(safe(self.said or self.words, max(1, self.size.width)), no_wrap=True, end="")


class KeyLine(Widget):
    """Keys that somebody new needs."""

    DEFAULT_CSS = """
    KeyLine { height: 1; background: $background; color: $text-muted; padding: 0 1; }
    """

    def __init__(self, keymap: Keymap) -> None:
        super().__init__()
        self._keymap = keymap

    def render(self) -> Text:
        """As many as fit."""
        text = Text(no_wrap=True, end="")
        for action in self._keymap:
            if not action.in_footer or not action.keys:
                continue
            key = self._keymap.first(action.name)
            if columns(text.plain) + columns(f"{key} {action.in_footer}") > self.size.width:
                break
            text.append(key, style="bold")
            text.append(f" {action.in_footer}   ")
        return text
