# SPDX-License-Identifier: Apache-2.0
"""The frame around the views: title, tabs, status line, and what stands in place of no events."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from textual.app import App

from nri_scope.errors import NriScopeError
from nri_scope.recorder.escape import safe
from nri_scope.tui.keymap import Keymap
from nri_scope.tui.status_words import Work, in_place_of_rows, status_words, trouble_words
from nri_scope.tui.store.context import Context
from nri_scope.tui.store.store import Store
from nri_scope.tui.textual_gaps import begin
from nri_scope.tui.title_bar import TitleBar
from nri_scope.tui.views import EVENTS, SCOPES, Views
from nri_scope.tui.widgets.status_line import KeyLine, StatusLine
from nri_scope.tui.widgets.tab_line import TabLine


class Frame:
    """Tells the user what is shown and what goes on."""

    def __init__(self, keymap: Keymap, context: Context, badge: str) -> None:
        """``badge``: a word for the title."""
        self.title_bar = TitleBar(badge)
        self.tabs = TabLine(tabs_of(keymap), lead="> ", style="bold")
        self.status = StatusLine()
        self.keys = KeyLine(keymap)
        self.work = Work()
        self.trouble = ""
        """What keeps the recording from being read."""
        self._keymap = keymap
        self._context = context
        self._shown: tuple[Store, Views, Callable[[], int]] | None = None

    def show(self, store: Store, views: Views, marked: Callable[[], int]) -> None:
        """Tell of these from now on; ``marked``: how many events are."""
        self._shown = store, views, marked
        self.show_facts()

    def say(self, text: str, *, problem: bool = False) -> None:
        """Tell the user one line."""
        self.status.say(text, problem=problem)

    def show_trouble(self, error: Exception) -> None:
        """Tell what keeps the recording from being read, for as long as it does."""
        self.trouble = trouble_words(error)
        self.show_status()

    def begin(
        self, app: App[Any], work: Callable[[], Coroutine[Any, Any, None]], group: str
    ) -> None:
        """Work in the background, in the place of older work of the group; what keeps the recording
        from being read is told.
        """

        async def told() -> None:
            try:
                await work()
            except NriScopeError as error:
                self.show_trouble(error)

        begin(app, told, group, exclusive=True)

    def work_on(self, **changes: Any) -> None:
        """Tell that something else goes on: see `Work`."""
        self.work = replace(self.work, **changes)
        self.show_status()

    def show_facts(self) -> None:
        """Tell what is known of the recording, and of what is shown."""
        if self._shown is not None:
            store, views, _ = self._shown
            self.title_bar.show(store.facts)
            self.tabs.show(views.mode, self._context.words())
        self.show_status()

    def show_status(self) -> None:
        """Tell what is shown, and what goes on."""
        if self._shown is None or not self.status.is_attached:
            # It is not there yet, or is being left.
            return
        store, views, marked = self._shown
        events, narrowed, in_list = views.events, self._narrowed(), views.mode == EVENTS
        lines = in_place_of_rows(store.facts, events.view, narrowed, self.work, self._keymap)
        if lines:
            views.nothing.update("\n\n".join(safe(each) for each in lines if each))
        events.set_class(bool(lines), "-nothing")
        views.nothing.set_class(bool(lines), "-shown")
        self.status.words = status_words(
            events.view,
            events.listing.cursor if in_list else None,
            events.listing.words if in_list and events.grows() else "",
            narrowed,
            self.work,
            marked(),
        )
        if self.trouble:
            self.say(self.trouble, problem=True)

    def _narrowed(self) -> str:
        """Return what is shown alone, in words."""
        context = self._context
        marked = "marked" if context.only_marked else ""
        parts = [context.words(), marked, safe(context.where_text, 60)]
        return " · ".join(part for part in parts if part)


def tabs_of(keymap: Keymap) -> dict[str, str]:
    """How each view's name and key are shown."""
    return {name: f"{keymap.first(f'mode_{name}')} {name.capitalize()}".strip() for name in SCOPES}
