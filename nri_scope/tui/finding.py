# SPDX-License-Identifier: Apache-2.0
"""Searching: in the view that is shown, or in the details where they have the focus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri_scope.errors import NriScopeError
from nri_scope.recorder.escape import safe
from nri_scope.tui.widgets.board import Board

if TYPE_CHECKING:
    from nri_scope.tui.app import ScopeApp

GROUP = "search"
_SHOWN = 40
"""Columns of a text that is searched for."""


class Finder:
    """What ``/``, ``n`` and ``N`` do."""

    def __init__(self, app: ScopeApp) -> None:
        self._app = app
        self.text = ""
        """What is searched for; "" for nothing."""

    def begin(self, text: str, *, in_detail: bool = False) -> None:
        """Go to the next place that has ``text``, and highlight it wherever it is.

        ``in_detail``: the details had the focus before the text was typed.
        """
        self.text = text
        if not text:
            self.forget()
        else:
            self._start(forwards=True, here=True, in_detail=in_detail)

    def forget(self) -> None:
        """Search for nothing any more."""
        self.text = ""
        self._app.events.search_text = ""
        for board in self._app.query(Board):
            board.body.highlight = ""
        if self._app.detail is not None:
            self._app.detail.body.highlight = ""

    def go_on(self, *, forwards: bool) -> None:
        """To the next or previous place."""
        if self.text:
            self._start(forwards=forwards, here=False, in_detail=self._app.in_detail)
        else:
            key = self._app.keymap.first("search")
            self._app.say(f"nothing to search for yet: {key} begins", problem=True)

    def _start(self, *, forwards: bool, here: bool, in_detail: bool) -> None:
        detail = self._app.detail
        current = self._app.current
        if detail is not None and in_detail:
            work = self._in_detail(forwards)
        elif isinstance(current, Board):
            work = self._in_board(current, forwards, here)
        else:
            work = self._in_list(forwards, here)
        self._app.run_worker(work, group=GROUP, exclusive=True)

    async def _in_detail(self, forwards: bool) -> None:
        detail = self._app.detail
        assert detail is not None
        if not await detail.find(self.text, forwards=forwards):
            self._app.say(f"not found in these details: {safe(self.text, _SHOWN)}", problem=True)

    async def _in_board(self, board: Board, forwards: bool, here: bool) -> None:
        app, text = self._app, self.text
        app.work_on(searching=text)
        try:
            found = await board.find(text, forwards=forwards, here=here)
        except NriScopeError as error:
            app.show_trouble(error)
            return
        finally:
            app.work_on(searching="")
        if not found:
            app.say(f"not found: {safe(text, _SHOWN)}", problem=True)

    async def _in_list(self, forwards: bool, here: bool) -> None:
        app, events, text = self._app, self._app.events, self.text
        events.search_text = text
        view, cursor = events.view, events.listing.cursor
        start = cursor + (0 if here else 1 if forwards else -1)
        app.work_on(searching=text)
        try:
            found = await app.store.find(view, text, start, forwards)
            again = found is None and view.length > 0
            if again:
                end = 0 if forwards else view.length - 1
                found = await app.store.find(view, text, end, forwards)
        except NriScopeError as error:
            app.show_trouble(error)
            return
        finally:
            app.work_on(searching="")
        if view is not events.view:
            return
        if found is None:
            app.say(f"not found: {safe(text, _SHOWN)}", problem=True)
            return
        app.show_mode("events")
        events.go_to(found)
        if again:
            end_word = "beginning" if forwards else "end"
            # After what moving says.
            app.call_after_refresh(app.say, f"searched on from the {end_word}")
