# SPDX-License-Identifier: Apache-2.0
"""Search in the current view, or in the detail pane if it has the focus."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic
from typing import NamedTuple

from nri_scope.errors import NriScopeError
from nri_scope.specs import label
from nri_scope.text.escape import safe

from ..actions import key_of
from ..store.view import View
from ..textual_workarounds import begin
from ..views import EVENTS
from ..widgets.board import Board
from . import KeyCommands

GROUP = "search"
_MAX_COLUMNS = 40
"""Maximum columns of a displayed search text."""
_PROGRESS_S = 0.1
"""Minimum seconds between progress messages."""
_MAX_QUEUED = 100
"""Maximum number of requests queued during a search; more are ignored."""


class _Search(NamedTuple):
    """One request to go to a match."""

    forwards: bool
    here: bool
    in_detail: bool


@dataclass
class SearchCommands(KeyCommands):
    """Commands of the keys ``/``, ``n`` and ``N``."""

    text: str = ""
    """The search text; "" for none."""
    _last: str = ""
    """The search text before `rest`."""
    _steps: deque[_Search] = field(default_factory=deque)
    """Queue of requests."""
    _turn: int = 0
    """Incremented by `stop`; a search of an earlier turn ends."""
    _is_running: bool = False

    def begin(self, text: str, *, in_detail: bool = False) -> None:
        """Go to the next match of ``text``, and highlight all visible matches.

        ``in_detail``: the detail pane had the focus before the text was typed.
        """
        self.stop()
        self.text = text
        if not text:
            self.forget()
        else:
            self._add(_Search(forwards=True, here=True, in_detail=in_detail))

    def stop(self) -> None:
        """Stop searching, and discard queued requests."""
        self._turn += 1
        self._steps.clear()
        self._end()
        self.app.workers.cancel_group(self.app, GROUP)

    def rest(self) -> None:
        """Stop searching and highlighting; `go_on` resumes."""
        last = self.text or self._last
        self.forget()
        self._last = last

    def forget(self) -> None:
        """Stop searching and highlighting, and clear the search text."""
        self.stop()
        self._last = ""
        self.text = ""
        self.views.highlight("")

    def go_on(self, *, forwards: bool) -> None:
        """Go to the next or previous match, after queued requests."""
        self.text = self.text or self._last
        if self.text:
            self._add(_Search(forwards=forwards, here=False, in_detail=self.views.in_detail))
        else:
            key = key_of("search")
            self.frame.say(f"no search text yet: {key} starts a search", problem=True)

    def _add(self, step: _Search) -> None:
        if len(self._steps) < _MAX_QUEUED:
            self._steps.append(step)
        if not self._is_running:
            self._is_running = True
            self.frame.show_work(replace(self.frame.work, searching=self.text))
            begin(self.app, partial(self._work, self._turn), GROUP)

    async def _work(self, turn: int) -> None:
        try:
            while self._steps and turn == self._turn:
                if not await self._run_step(self._steps.popleft()):
                    # Queued requests would not find a match either.
                    self._steps.clear()
        finally:
            if turn == self._turn:
                self._end()

    def _end(self) -> None:
        if self._is_running:
            self._is_running = False
            self.frame.show_work(replace(self.frame.work, searching=""))

    async def _run_step(self, step: _Search) -> bool:
        """Run one request; return whether it found a match. Reports a missing match to the user."""
        wrapped = False
        try:
            if step.in_detail:
                where = " in these details"
                detail = self.views.detail
                is_found = await detail.find(self.text, forwards=step.forwards)
                if not is_found and self.text.startswith("/"):
                    # The pane shows labels of paths.
                    is_found = await detail.find(label(self.text), forwards=step.forwards)
            elif isinstance(board := self.views.current, Board):
                where = ""
                is_found = await board.find(self.text, forwards=step.forwards, here=step.here)
            else:
                where, view = "", self.views.events.view
                place, wrapped = await self._in_list(view, step)
                if view is not self.views.events.view:
                    return False
                is_found = place is not None
                if place is not None:
                    self.views.show(EVENTS)
                    self.views.events.go_to(place)
        except NriScopeError as error:
            self.frame.show_trouble(error)
            return False
        if not is_found:
            self.frame.say(f"not found{where}: {safe(self.text, _MAX_COLUMNS)}", problem=True)
        elif wrapped:
            end = "beginning" if step.forwards else "end"
            self.frame.say(f"search continued from the {end}")
        return is_found

    async def _in_list(self, view: View, step: _Search) -> tuple[int | None, bool]:
        """Return the position of a match, and whether the search continued from the other end."""
        events = self.views.events
        self.views.highlight(self.text)
        start = events.listing.cursor + (0 if step.here else 1 if step.forwards else -1)
        found = await self._find(view, start, step.forwards)
        if found is not None or not view.length:
            return found, False
        end = 0 if step.forwards else view.length - 1
        return await self._find(view, end, step.forwards), True

    async def _find(self, view: View, start: int, forwards: bool) -> int | None:
        """Search rows like `Store.find`, and also comments."""
        text, turn = self.text, self._turn
        updated = 0.0

        def progress(part: float) -> None:
            nonlocal updated
            # This search may have been stopped.
            if turn == self._turn and self._is_running and monotonic() - updated > _PROGRESS_S:
                updated = monotonic()
                self.frame.show_work(replace(self.frame.work, searching=text, searched=part))

        found = await self.store.find(view, text, start, forwards, progress)
        places = [found] if found is not None else []
        for number in self.marks.commented(text):
            at = view.position_of(number)
            if view.shows(number) and (at >= start if forwards else at <= start):
                places.append(at)
        return (min if forwards else max)(places, default=None)
