# SPDX-License-Identifier: Apache-2.0
"""The two lines at the bottom: what is going on, and the most important keys."""

from __future__ import annotations

from time import monotonic

from rich.text import Text
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget

from nri_scope.recorder.escape import columns, safe
from nri_scope.tui.keymap import Keymap
from nri_scope.tui.text.styled_line import line, text_of
from nri_scope.tui.text.wrapping import folded

FRESH_SECONDS = 6.0
"""To read a line."""
_LINES = 3
"""Of what was said, at most."""


class StatusLine(Widget):
    """Words about the list, in one line; for a while, something that was said instead, in as many
    as it needs: the way out stands at its end.
    """

    DEFAULT_CSS = """
    StatusLine { height: auto; min-height: 1; max-height: 3; padding: 0 1;
                 background: $panel; color: $foreground; }
    StatusLine.-problem { color: $text-warning; text-style: bold; }
    """

    words: reactive[str] = reactive("")
    said: reactive[str] = reactive("", layout=True)
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
        """Return what was said, or one line, cut visibly."""
        return Text("\n".join(self._lines(max(1, self.size.width))), no_wrap=True, end="")

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Lines for what was said."""
        return len(self._lines(max(1, width)))

    def _lines(self, width: int) -> list[str]:
        text = safe(self.said)
        if columns(text) <= width:
            return [text or safe(self.words, width)]
        lines = [text_of(each) for each in folded(line(text), width, 0)]
        if len(lines) > _LINES:
            lines[_LINES - 1 :] = [safe("".join(lines[_LINES - 1 :]), width)]
        return lines


class KeyLine(Widget):
    """The keys that a new user needs."""

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
