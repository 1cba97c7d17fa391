# SPDX-License-Identifier: Apache-2.0
"""A line of tabs, one of which is chosen, and words behind them."""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text
from textual import events
from textual.widget import Widget

from nri_scope.recorder.escape import columns, safe
from nri_scope.tui.widgets.messages import TabChosen

_LEAST_ROOM = 8
"""Columns that words need."""


class TabLine(Widget):
    """``[1 Events] 2 Containers …  > ns/pod/container``. A click chooses."""

    DEFAULT_CSS = """
    TabLine { height: 1; background: $surface; color: $text-muted; padding: 0 1; }
    """

    def __init__(
        self, tabs: Mapping[str, str], *, padded: bool = False, lead: str = " ", style: str = ""
    ) -> None:
        """``tabs``: how each name is shown; ``padded``: in columns that stay where they are.

        ``lead`` and ``style``: of the words.
        """
        super().__init__()
        self._tabs = tabs
        self._lead = lead
        self._style = style
        self._around = " {} " if padded else "{}"
        self._between = "" if padded else " "
        self.chosen = next(iter(tabs))
        """The name of a tab."""
        self.words = ""

    def show(self, chosen: str, words: str) -> None:
        """Show another tab as chosen, or other words."""
        if (chosen, words) != (self.chosen, self.words):
            self.chosen, self.words = chosen, words
            self.refresh()

    def render(self) -> Text:
        """Draw the tabs, and the words as far as there is room."""
        text = Text(no_wrap=True, end="")
        for name in self._tabs:
            text.append(self._label(name), style="bold" if name == self.chosen else "")
            text.append(self._between)
        room = self.size.width - columns(text.plain) - len(self._lead)
        if self.words and room > _LEAST_ROOM:
            text.append(f"{self._lead}{safe(self.words, room)}", style=self._style)
        return text

    def _label(self, name: str) -> str:
        # Brackets, as nothing may depend on colour alone.
        label = self._tabs[name]
        return f"[{label}]" if name == self.chosen else self._around.format(label)

    def on_click(self, event: events.Click) -> None:
        """Choose the tab whose name was clicked."""
        right = self.styles.padding.left
        for name in self._tabs:
            right += columns(self._label(name) + self._between)
            if event.x < right:
                self.post_message(TabChosen(name))
                return
