# SPDX-License-Identifier: Apache-2.0
"""Looking at the recording again and again, and having all that is shown follow."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from time import monotonic, process_time
from typing import TYPE_CHECKING, Protocol

from nri_scope.errors import NriScopeError
from nri_scope.tui.model.filtering import known_values
from nri_scope.tui.terminal import is_gone
from nri_scope.tui.workers import begin

if TYPE_CHECKING:
    from nri_scope.tui.app import ScopeApp

POLL_SECONDS = 0.1
"""Between two looks at the recording, which cost little where nothing came."""
LONGEST_POLL_SECONDS = 0.5
"""Between two looks where much comes, and drawing it takes more than `SHARE`."""
SHARE = 0.15
"""Of a processor, for looking and drawing: the rest of the node is there for other work."""
BOARD_SECONDS = 0.5
"""Between two updates of another view than the list of events."""


class RecorderNews(Protocol):
    """The recorder of this program, as far as the screen tells of it."""

    @property
    def latest(self) -> str:
        """What it told last."""
        ...

    @property
    def ended(self) -> bool:
        """Whether it records no more."""
        ...


class Looker:
    """Keeps the screen of an app in step with its recording."""

    def __init__(self, app: ScopeApp, recorder: RecorderNews | None) -> None:
        """``recorder``: whose news are heard, too."""
        self._app = app
        self._recorder = recorder
        self._updated = 0.0

    def begin(self) -> None:
        """Look for as long as the app runs."""
        begin(self._app, self._look_again, "looking")
        self.learn_values()

    def learn_values(self) -> None:
        """Learn anew what a filter can be completed with."""
        begin(self._app, self._learn_values, "values", exclusive=True)

    def hurry(self) -> None:
        """Update the view that is shown with the next look."""
        self._updated = 0.0

    async def _look_again(self) -> None:
        worked = process_time()
        while True:
            await asyncio.sleep(POLL_SECONDS)
            # What was drawn after the look before this one is counted, too.
            before, worked = worked, process_time()
            rest = (worked - before) / SHARE
            await asyncio.sleep(min(rest, LONGEST_POLL_SECONDS) - POLL_SECONDS)
            if not self._app.is_headless and is_gone():
                # Not every terminal that goes away says so by SIGHUP, and Textual would go on
                # reading its end as fast as it can.
                self._app.exit()
                return
            await self.look()

    async def look(self) -> None:
        """Show what came meanwhile."""
        app = self._app
        self._hear_recorder()
        try:
            growth = await app.store.refresh()
            if growth:
                await app.events.read_ahead()
        except NriScopeError as error:
            app.show_trouble(error)
            return
        app.teller.trouble = ""
        if growth:
            app.events.grow(between=growth.between)
            if app.detail is not None:
                app.detail.grown()
        now = monotonic()
        if now - self._updated > BOARD_SECONDS:
            self._updated = now
            await app.update_board()
        app.teller.show_facts()

    async def _learn_values(self) -> None:
        try:
            self._app.bar.values = await self._app.store.run(known_values)
        except NriScopeError as error:
            self._app.show_trouble(error)

    def _hear_recorder(self) -> None:
        if self._recorder is not None:
            latest, ended = self._recorder.latest, self._recorder.ended
            self._app.work = replace(self._app.work, recorder=latest, recorder_ended=ended)
