# SPDX-License-Identifier: Apache-2.0
"""Polling the recording, and updating everything that is shown."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from time import monotonic, process_time
from typing import Any, Protocol

from textual.app import App

from nri_scope.errors import NriScopeError
from nri_scope.recording.filter_values import completion_values

from .frame import Frame
from .store.store import Store
from .terminal import is_gone
from .textual_gaps import begin
from .views import Views
from .widgets.filter_bar import FilterBar
from .widgets.messages import begin_reading

POLL_SECONDS = 0.1
"""Seconds between two polls, which are cheap if there are no new events."""
LONGEST_POLL_SECONDS = 0.5
"""Seconds between two polls if drawing many new events takes more than `SHARE`."""
SHARE = 0.15
"""Share of a processor for polling and drawing, so that the node can do its other work."""
BOARD_SECONDS = 0.5
"""Seconds between two updates of a view other than the list of events."""


class RecorderNews(Protocol):
    """The recorder of this program, as needed by the screen."""

    @property
    def latest(self) -> str:
        """The newest message of the recorder."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the recorder has ended."""
        ...


@dataclass
class Poller:
    """Updates the screen when the recording changes."""

    app: App[Any]
    frame: Frame
    views: Views
    store: Store
    bar: FilterBar
    recorder: RecorderNews | None
    """The recorder, whose messages are shown, too."""
    _updated: float = 0.0

    def begin(self) -> None:
        """Poll while the app runs."""
        begin(self.app, self._look_again, "looking")
        self.learn_values()

    def learn_values(self) -> None:
        """Update the values for completing filters."""
        begin_reading(self.app, self._learn_values, "values")

    def hurry(self) -> None:
        """Update the current view with the next poll."""
        self._updated = 0.0

    async def _look_again(self) -> None:
        worked = process_time()
        while True:
            await asyncio.sleep(POLL_SECONDS)
            # Drawing after the previous poll is counted, too.
            before, worked = worked, process_time()
            rest = (worked - before) / SHARE
            await asyncio.sleep(min(rest, LONGEST_POLL_SECONDS) - POLL_SECONDS)
            if not self.app.is_headless and is_gone():
                # Not every terminal sends SIGHUP when it disappears, and Textual would read its end
                # of file in a busy loop.
                self.app.exit()
                return
            await self._look()

    async def _look(self) -> None:
        if self.recorder is not None:
            latest, ended = self.recorder.latest, self.recorder.ended
            if (latest, ended) != (self.frame.work.recorder, self.frame.work.recorder_ended):
                self.frame.work_on(recorder=latest, recorder_ended=ended)
        try:
            growth = await self.store.refresh()
            if growth:
                await self.views.events.read_ahead()
        except NriScopeError as error:
            self.frame.show_trouble(error)
            return
        self.frame.trouble = ""
        if growth:
            self.views.events.grow(between=growth.between)
            self.views.detail.grown()
        now = monotonic()
        if now - self._updated > BOARD_SECONDS:
            self._updated = now
            await self.views.update()
        self.frame.show_facts()

    async def _learn_values(self) -> None:
        self.bar.values = await self.store.run(completion_values)
