# SPDX-License-Identifier: Apache-2.0
"""What the frame around the views says: title, tabs, status, and what stands in place of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets import Static

from nri_scope.recorder.escape import safe
from nri_scope.tui.model.keys import Keymap
from nri_scope.tui.states import in_place_of_rows, status_words
from nri_scope.tui.title import TitleBar
from nri_scope.tui.views import BOARDS, EVENTS
from nri_scope.tui.widgets.status_line import StatusLine
from nri_scope.tui.widgets.view_tabs import ViewTabs

if TYPE_CHECKING:
    from nri_scope.tui.app import ScopeApp


class Teller:
    """Has the parts of the frame, and says in them what is so."""

    def __init__(self, app: ScopeApp, badge: str) -> None:
        """``badge``: a word for the title."""
        self._app = app
        self.title_bar = TitleBar(badge)
        self.tabs = ViewTabs(tabs_of(app.keymap))
        self.status = StatusLine()
        self.nothing = Static(id="nothing", markup=False)
        self.trouble = ""
        """What keeps the recording from being read."""

    def show_facts(self) -> None:
        """Say what is so now."""
        self.title_bar.show(self._app.store.facts)
        self.tabs.show(self._app.mode, self._app.context.words())
        self.show_status()

    def show_status(self) -> None:
        """Say what is shown, and what goes on."""
        app = self._app
        if not self.status.is_attached:
            # It is being left.
            return
        events, narrowed, in_list = app.events, self._narrowed(), app.mode == EVENTS
        lines = in_place_of_rows(app.store.facts, events.view, narrowed, app.work, app.keymap)
        if lines:
            self.nothing.update("\n\n".join(safe(each) for each in lines if each))
        events.set_class(bool(lines), "-nothing")
        self.nothing.set_class(bool(lines), "-shown")
        self.status.words = status_words(
            events.view,
            events.listing.cursor if in_list else None,
            events.listing.words if in_list and app.follows else "",
            narrowed,
            app.work,
            len(app.marker.marks),
        )
        if self.trouble:
            self.status.say(self.trouble, problem=True)

    def _narrowed(self) -> str:
        """What is shown alone, in words."""
        marked = "marked" if self._app.marker.only else ""
        context = self._app.context
        parts = [context.words(), marked, safe(context.where_text, 60)]
        return " · ".join(part for part in parts if part)


def tabs_of(keymap: Keymap) -> list[tuple[str, str, str]]:
    """Each view's name, title and key."""
    names = (EVENTS, *(kind.name for kind in BOARDS))
    return [(name, name.capitalize(), keymap.first(f"mode_{name}")) for name in names]
