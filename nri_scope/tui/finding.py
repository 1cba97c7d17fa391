# SPDX-License-Identifier: Apache-2.0
"""Searching: in the view that is shown, or in the details where they have the focus."""

from __future__ import annotations

from collections import deque
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from nri_scope.errors import NriScopeError
from nri_scope.recorder.escape import safe
from nri_scope.tui.widgets.board import Board
from nri_scope.tui.workers import begin

if TYPE_CHECKING:
    from nri_scope.tui.app import ScopeApp
    from nri_scope.tui.model.view import View
    from nri_scope.tui.widgets.detail_pane import DetailPane

GROUP = "search"
_SHOWN = 40
"""Columns of a text that is searched for."""
_TELL_SECONDS = 0.1
"""Between two words about how far a search is."""
_WAITING_MAX = 100
"""Presses of ``n`` and ``N`` that wait while a search is at work; more than that are forgotten."""


class _Step(NamedTuple):
    """One search that was asked for."""

    forwards: bool
    here: bool
    in_detail: bool


class Finder:
    """What ``/``, ``n`` and ``N`` do."""

    def __init__(self, app: ScopeApp) -> None:
        self._app = app
        self.text = ""
        """What is searched for; "" for nothing."""
        self._last = ""
        """What was searched for last, for those who go on after `rest`."""
        self._steps: deque[_Step] = deque()
        """Asked for and not made yet."""
        self._turn = 0
        """Counts the texts that were searched for, and how often a search was stopped."""
        self._at_work = False

    def begin(self, text: str, *, in_detail: bool = False) -> None:
        """Go to the next place that has ``text``, and highlight it wherever it is.

        ``in_detail``: the details had the focus before the text was typed.
        """
        self.stop()
        self.text = text
        if not text:
            self.forget()
        else:
            self._add(_Step(forwards=True, here=True, in_detail=in_detail))

    def stop(self) -> None:
        """Search no further; what was asked for meanwhile is forgotten, too."""
        self._turn += 1
        self._steps.clear()
        self._end()
        self._app.workers.cancel_group(self._app, GROUP)

    def rest(self) -> None:
        """Search for nothing any more, and highlight nothing; `go_on` searches again."""
        last = self.text or self._last
        self.forget()
        self._last = last

    def forget(self) -> None:
        """Search for nothing any more."""
        self.stop()
        self._last = ""
        self.text = ""
        self._app.events.search_text = ""
        for board in self._app.query(Board):
            board.body.highlight = ""
        if self._app.detail is not None:
            self._app.detail.body.highlight = ""

    def go_on(self, *, forwards: bool) -> None:
        """To the next or previous place: at once, or after those that were asked for before."""
        self.text = self.text or self._last
        if self.text:
            self._add(_Step(forwards=forwards, here=False, in_detail=self._app.in_detail))
        else:
            key = self._app.keymap.first("search")
            self._app.say(f"nothing to search for yet: {key} begins", problem=True)

    def _add(self, step: _Step) -> None:
        if len(self._steps) < _WAITING_MAX:
            self._steps.append(step)
        if not self._at_work:
            self._at_work = True
            self._app.work_on(searching=self.text)
            begin(self._app, partial(self._work, self._turn), GROUP)

    async def _work(self, turn: int) -> None:
        try:
            while self._steps and turn == self._turn:
                if not await self._make(self._steps.popleft()):
                    # Nor will the others find anything.
                    self._steps.clear()
        finally:
            if turn == self._turn:
                self._end()

    def _end(self) -> None:
        if self._at_work:
            self._at_work = False
            self._app.work_on(searching="")

    async def _make(self, step: _Step) -> bool:
        detail, current = self._app.detail, self._app.current
        if detail is not None and step.in_detail:
            return await self._in_detail(detail, step.forwards)
        if isinstance(current, Board):
            return await self._in_board(current, step.forwards, step.here)
        return await self._in_list(step.forwards, step.here)

    async def _in_detail(self, detail: DetailPane, forwards: bool) -> bool:
        found = await detail.find(self.text, forwards=forwards)
        if not found:
            self._app.say(f"not found in these details: {safe(self.text, _SHOWN)}", problem=True)
        return found

    async def _in_board(self, board: Board, forwards: bool, here: bool) -> bool:
        app, text = self._app, self.text
        try:
            found = await board.find(text, forwards=forwards, here=here)
        except NriScopeError as error:
            app.show_trouble(error)
            return False
        if not found:
            app.say(f"not found: {safe(text, _SHOWN)}", problem=True)
        return found

    async def _find(self, view: View, start: int, forwards: bool) -> int | None:
        """As `Store.find`; of the next row with a comment that has the text, too."""
        app, text, turn = self._app, self.text, self._turn
        told = 0.0

        def progress(part: float) -> None:
            nonlocal told
            # Another search may have begun meanwhile.
            if turn == self._turn and self._at_work and monotonic() - told > _TELL_SECONDS:
                told = monotonic()
                app.work_on(searching=text, searched=part)

        found = await app.store.find(view, text, start, forwards, progress)
        commented = [one for one in app.marker.commented(text) if view.shows(one)]
        places = [view.position_of(number) for number in commented]
        places = [at for at in places if (at >= start if forwards else at <= start)]
        places += [found] if found is not None else []
        if not places:
            return None
        return min(places) if forwards else max(places)

    async def _in_list(self, forwards: bool, here: bool) -> bool:
        app, events, text = self._app, self._app.events, self.text
        events.search_text = text
        view, cursor = events.view, events.listing.cursor
        start = cursor + (0 if here else 1 if forwards else -1)
        try:
            found = await self._find(view, start, forwards)
            again = found is None and view.length > 0
            if again:
                end = 0 if forwards else view.length - 1
                found = await self._find(view, end, forwards)
        except NriScopeError as error:
            app.show_trouble(error)
            return False
        if view is not events.view:
            return False
        if found is None:
            app.say(f"not found: {safe(text, _SHOWN)}", problem=True)
            return False
        app.show_mode("events")
        events.go_to(found)
        if again:
            end_word = "beginning" if forwards else "end"
            app.say(f"searched on from the {end_word}")
        return True
