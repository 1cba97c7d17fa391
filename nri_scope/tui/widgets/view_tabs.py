# SPDX-License-Identifier: Apache-2.0
"""The line that names the views, which one is shown, and what all of them are narrowed to."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual import events
from textual.message import Message
from textual.widget import Widget

from nri_scope.recorder.escape import columns, safe


class ViewTabs(Widget):
    """``[1 Events] 2 Containers …  > ns/pod/container``. A click chooses."""

    DEFAULT_CSS = """
    ViewTabs { height: 1; background: $surface; color: $text-muted; padding: 0 1; }
    """

    class Chosen(Message):
        """A view was clicked."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, views: Sequence[tuple[str, str, str]]) -> None:
        """``views``: each one's name, title and key."""
        super().__init__()
        self._views = views
        self._current = views[0][0] if views else ""
        self._narrowed = ""

    def show(self, current: str, narrowed: str) -> None:
        """Another view, or narrowed to something else."""
        if (current, narrowed) != (self._current, self._narrowed):
            self._current, self._narrowed = current, narrowed
            self.refresh()

    def render(self) -> Text:
        """The line."""
        text = Text(no_wrap=True, end="")
        for name, title, key in self._views:
            text.append(
                self._label(name, title, key), style="bold" if name == self._current else ""
            )
            text.append(" ")
        if self._narrowed:
            room = self.size.width - columns(text.plain) - 2
            if room > 8:
                text.append(f"> {safe(self._narrowed, room)}", style="bold")
        return text

    def _label(self, name: str, title: str, key: str) -> str:
        # Brackets, as nothing may depend on colour alone.
        words = f"{key} {title}".strip()
        return f"[{words}]" if name == self._current else words

    def on_click(self, event: events.Click) -> None:
        """Choose the view whose name was clicked."""
        left = self.styles.padding.left
        for name, title, key in self._views:
            width = columns(self._label(name, title, key)) + 1
            if left <= event.x < left + width:
                self.post_message(self.Chosen(name))
                return
            left += width
